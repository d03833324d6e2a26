package api_test

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/internal/adapter/scripted"
	"github.com/perdure/perdure/internal/api"
	"github.com/perdure/perdure/internal/host"
)

func TestTheSameSubmissionIsTheSameRun(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.create("s1")
	_, open := w.busy("s1")
	var first, again api.Run
	w.call("POST", "/v1/sessions/s1/runs", m{"input": "more", "submissionId": "a"}).is(202, &first)
	require.Equal(t, "queued", first.Status)
	w.call("POST", "/v1/sessions/s1/runs", m{"input": "more"}, header("Idempotency-Key", "a")).is(200, &again)
	require.Equal(t, first.ID, again.ID)
	w.call("POST", "/v1/sessions/s1/runs", m{"input": "more", "submissionId": "a", "mode": "queue"}, header("Idempotency-Key", "a")).is(200, &again)
	require.Equal(t, first.ID, again.ID)
	head := w.session("s1").Head
	w.call("POST", "/v1/sessions/s1/runs", m{"input": "other", "submissionId": "a"}).refused(409, "submission_conflict")
	w.call("POST", "/v1/sessions/s1/runs/run_1/steer", m{"input": "other", "submissionId": "a"}).refused(409, "submission_conflict")
	w.call("POST", "/v1/sessions/s1/runs/run_2/cancel", m{"submissionId": "a"}).refused(409, "submission_conflict")
	w.call("POST", "/v1/sessions/s1/runs", m{"input": "more", "submissionId": "a"}, header("Idempotency-Key", "b")).refused(400, "invalid_request")
	w.call("POST", "/v1/sessions/s1/runs", m{"input": "more", "submissionId": "a b"}).refused(422, "validation_failed")
	w.call("POST", "/v1/sessions/s1/runs", m{"input": "more"}, header("Idempotency-Key", "a b")).refused(400, "invalid_request")
	w.call("POST", "/v1/sessions/s1/runs", m{"input": "more"}, header("Idempotency-Key", strings.Repeat("k", 129))).refused(400, "invalid_request")
	require.Equal(t, head, w.session("s1").Head)
	s := w.session("s1")
	require.Equal(t, "run_1", s.ActiveRun.ID)
	require.Len(t, s.QueuedRuns, 1)
	open()
}

func TestWhatABusySessionDoesWithARun(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.create("s1")
	w.busy("s1")
	w.call("POST", "/v1/sessions/s1/runs", m{"input": "no", "mode": "reject"}).refused(409, "session_busy")
	var run api.Run
	w.call("POST", "/v1/sessions/s1/runs", m{"input": "look left", "mode": "steer", "submissionId": "st"}).is(202, &run)
	require.Equal(t, "run_1", run.ID)
	require.Equal(t, "steering_1", run.SteeringID)
	require.Equal(t, []api.Steering{{ID: "steering_1", Text: "look left", Status: "pending"}}, run.Steering)
	w.call("POST", "/v1/sessions/s1/runs", m{"input": "look left", "mode": "steer", "submissionId": "st"}).is(200, &run)
	require.Equal(t, "steering_1", run.SteeringID)

	var st api.Steered
	w.call("POST", "/v1/sessions/s1/runs/run_1/steer", m{"input": []m{{"type": "text", "text": "and"}, {"type": "text", "text": "right"}}}).is(202, &st)
	require.Equal(t, "steering_2", st.SteeringID)
	require.Equal(t, "and\nright", st.Run.Steering[1].Text)

	w.call("POST", "/v1/sessions/s1/runs", m{"input": "drop that", "mode": "interrupt"}).is(202, &run)
	require.Equal(t, "run_2", run.ID)
	w.call("GET", "/v1/sessions/s1/runs/run_1?wait=20", nil).is(200, &run)
	require.Equal(t, "cancelled", run.Status)
	require.Equal(t, "ann", run.CancelledBy)
	require.Equal(t, "undelivered", run.Steering[0].Status)
	w.call("POST", "/v1/sessions/s1/runs/run_1/steer", m{"input": "late"}).refused(409, "run_not_active")
	w.call("POST", "/v1/sessions/s1/runs/run_9/steer", m{"input": "late"}).refused(404, "not_found")
}

func TestCancellingARun(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.create("s1")
	w.busy("s1")
	var queued api.Run
	w.call("POST", "/v1/sessions/s1/runs", m{"input": "next"}).is(202, &queued)
	w.call("POST", "/v1/sessions/s1/runs/run_2/cancel", nil).is(202, &queued)
	require.Equal(t, "cancelled", queued.Status)
	w.call("POST", "/v1/sessions/s1/runs/run_2/cancel", nil).is(200, &queued)
	var run api.Run
	w.call("POST", "/v1/sessions/s1/runs/run_1/cancel", m{"submissionId": "c1"}).is(202, &run)
	w.call("GET", "/v1/sessions/s1/runs/run_1?wait=20", nil).is(200, &run)
	require.Equal(t, "cancelled", run.Status)
	w.call("POST", "/v1/sessions/s1/runs/run_1/cancel", m{"submissionId": "c1"}).is(200, &run)
	w.call("POST", "/v1/sessions/s1/runs/run_3/cancel", nil).refused(404, "not_found")
	w.call("POST", "/v1/sessions/s1/runs/three/cancel", nil).refused(400, "invalid_request")
}

func TestTheQueueHasABound(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.create("s1")
	w.busy("s1")
	for range 32 {
		w.call("POST", "/v1/sessions/s1/runs", m{"input": "more"}).is(202, nil)
	}
	p := w.call("POST", "/v1/sessions/s1/runs", m{"input": "more"}).refused(409, "limit_reached")
	require.Equal(t, "32", string(p.Max))
	require.Equal(t, "32", string(p.Actual))
	require.NotEmpty(t, p.Limit)
	w.call("POST", "/v1/sessions/s1/runs", m{"input": make([]m, 17)}).refused(422, "validation_failed")
	parts := make([]m, 17)
	for i := range parts {
		parts[i] = m{"type": "text", "text": "x"}
	}
	p = w.call("POST", "/v1/sessions/s1/runs", m{"input": parts}).refused(409, "limit_reached")
	require.Equal(t, "input parts", p.Limit)
	require.Equal(t, "16", string(p.Max))
}

func TestListsOfRuns(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.create("s1")
	for i := range 4 {
		w.model.For("s1", scripted.Step{Text: "answer " + strconv.Itoa(i)})
		w.run("s1", "question "+strconv.Itoa(i))
	}
	w.busy("s1")
	ids := func(query string) []string {
		var out []string
		for next := ""; ; {
			var page api.Page[api.Run]
			path := "/v1/sessions/s1/runs?" + query
			if next != "" {
				path += "&cursor=" + next
			}
			w.call("GET", path, nil).is(200, &page)
			for _, r := range page.Items {
				out = append(out, r.ID)
			}
			if next = page.Next; next == "" {
				return out
			}
		}
	}
	require.Equal(t, []string{"run_5", "run_4", "run_3", "run_2", "run_1"}, ids("limit=2"))
	require.Equal(t, []string{"run_4", "run_3", "run_2", "run_1"}, ids("status=completed&limit=1"))
	require.Equal(t, []string{"run_5"}, ids("status=running"))
	require.Empty(t, ids("status=failed"))
}

func TestARunOfAnotherModelAndLimits(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.create("s1")
	w.model.For("s1", scripted.Step{Text: "one"}, scripted.Step{Text: "two"})
	w.call("POST", "/v1/sessions/s1/runs?wait=20", m{"input": "a", "config": m{"model": "big", "limits": m{"maxTurns": 3, "maxRepeats": 0}, "params": m{"max_tokens": 5}}}).is(202, nil)
	w.call("POST", "/v1/sessions/s1/runs?wait=20", m{"input": "a", "config": m{"model": m{"provider": "test", "model": "huge"}}}).is(202, nil)
	reqs := w.model.Requests()
	require.Equal(t, "big", reqs[0].Model.Model)
	require.JSONEq(t, `{"max_tokens":5}`, reqs[0].Model.Params)
	require.Equal(t, "huge", reqs[1].Model.Model)
	w.call("POST", "/v1/sessions/s1/runs", m{"input": "a", "config": m{"model": m{"provider": "none", "model": "huge"}}}).refused(422, "validation_failed")
	w.call("POST", "/v1/sessions/s1/runs", m{"input": "a", "config": m{"limits": m{"maxCostUsd": 1.5}}}).refused(422, "validation_failed")
	w.call("POST", "/v1/sessions/s1/runs", m{"input": "a", "config": m{"limits": m{"maxTurns": 0}}}).refused(422, "validation_failed")
}

func TestLongTextsAreShownByReference(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.create("s1")
	long := strings.Repeat("ä", 40<<10)
	w.model.For("s1", scripted.Step{Text: long})
	var run api.Run
	w.call("POST", "/v1/sessions/s1/runs?wait=20", m{"input": long}).is(202, &run)
	require.Equal(t, int64(len(long)), run.Input[0].Text.Size)
	require.NotEmpty(t, run.Input[0].Text.Preview)
	require.True(t, strings.HasPrefix(long, run.Output.Text))
	require.Len(t, run.Output.Text, 64<<10)
	require.Equal(t, run.Input[0].Text.Ref, run.Output.Ref)

	// The session has that blob now; another one has not.
	part := m{"type": "blob", "ref": run.Output.Ref, "mediaType": "text/plain", "name": "long.txt"}
	w.call("POST", "/v1/sessions/s1/runs", m{"input": []m{part}}).is(202, &run)
	require.Equal(t, "blob", run.Input[0].Type)
	w.create("s2")
	w.call("POST", "/v1/sessions/s2/runs", m{"input": []m{part}}).refused(422, "validation_failed")
}

func TestWhatABadInputIsRefusedWith(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.create("s1")
	for _, bad := range []any{
		"",
		[]m{},
		7,
		m{"type": "text", "text": "x"},
		[]m{{"type": "text"}},
		[]m{{"type": "text", "text": ""}},
		[]m{{"type": "blob", "ref": "x", "mediaType": "a/b"}},
		[]m{{"type": "blob", "text": "x"}},
		[]m{{"type": "image", "text": "x"}},
		[]any{"x"},
		nil,
	} {
		w.call("POST", "/v1/sessions/s1/runs", m{"input": bad}).refused(422, "validation_failed")
	}
	require.Equal(t, uint64(1), w.session("s1").Head)
}

func TestToolCallsOfARun(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.create("s1", "t.*")
	w.model.For("s1",
		scripted.Step{Calls: []scripted.Call{call("t.read", `{"x":"1"}`), call("t.read", `{"y":1}`), call("t.read", `{bad`)}},
		scripted.Step{Text: "done"})
	w.run("s1", "go")
	var all, page api.Page[api.ToolCall]
	w.call("GET", "/v1/sessions/s1/runs/run_1/calls", nil).is(200, &all)
	require.Len(t, all.Items, 3)
	c := all.Items[0]
	require.Equal(t, "call_1_1", c.ID)
	require.Equal(t, "turn_1", c.Turn)
	require.Equal(t, "read", c.Kind)
	require.JSONEq(t, `{"x":"1"}`, string(c.Arguments))
	require.Equal(t, "completed", c.Status)
	require.Equal(t, api.Text{Text: `t.read ran with {"x":"1"}`}, c.Result)
	require.Equal(t, []api.ToolEffect{{Kind: "http.sent", Subject: "x"}}, c.Effects)
	require.Equal(t, "invalid", all.Items[1].Status)
	require.NotEmpty(t, all.Items[1].Error.Text)
	require.Equal(t, `"{bad"`, string(all.Items[2].Arguments))

	w.call("GET", "/v1/sessions/s1/runs/run_1/calls?limit=2", nil).is(200, &page)
	require.Equal(t, all.Items[:2], page.Items)
	w.call("GET", "/v1/sessions/s1/runs/run_1/calls?limit=2&cursor="+page.Next, nil).is(200, &page)
	require.Equal(t, all.Items[2:], page.Items)
	require.Empty(t, page.Next)
	w.call("GET", "/v1/sessions/s1/runs/run_2/calls", nil).refused(404, "not_found")
}

func TestMoneyIsDecimal(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]api.USD{
		"0": 0, "1": 1_000_000, "0.25": 250_000, "1.000001": 1_000_001, "2.50": 2_500_000, "1e-3": 1000, "1.5E2": 150_000_000, "0.000001": 1, "12e0": 12_000_000, "1000000000": 1e15,
		"10e-7": 1,
	} {
		var got api.USD
		require.NoError(t, json.Unmarshal([]byte(text), &got), text)
		require.Equal(t, want, got, text)
	}
	for _, text := range []string{"-1", "0.0000001", "1e-7", "1000000000.1", "1e10", "1e999999999999", `"1"`, "true"} {
		var got api.USD
		require.Error(t, json.Unmarshal([]byte(text), &got), text)
	}
	for micros, want := range map[api.USD]string{0: "0", 1: "0.000001", 250_000: "0.25", 1_000_000: "1", 10_500_000: "10.5"} {
		got, err := json.Marshal(micros)
		require.NoError(t, err)
		require.Equal(t, want, string(got))
	}
	w := setup(t)
	w.model.ModelInfo = host.ModelInfo{Priced: true, InputPrice: 3_000_000, OutputPrice: 15_000_000}
	c := config()
	c["limits"] = m{"maxCostUsd": json.RawMessage("0.10")}
	var s api.Session
	w.call("POST", "/v1/sessions", m{"id": "s1", "config": c}).is(201, &s)
	require.Equal(t, api.USD(100_000), *s.Config.Limits.MaxCostUSD)
	require.NotNil(t, w.run("s1", "hello").Usage.CostUSD)
	require.NotNil(t, w.session("s1").Usage.CostUSD)
}
