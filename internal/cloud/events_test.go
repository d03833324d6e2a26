package cloud_test

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/adapter/gosched"
	"github.com/perdure/perdure/internal/adapter/memory"
	"github.com/perdure/perdure/internal/adapter/sfn"
	"github.com/perdure/perdure/internal/cloud"
	"github.com/perdure/perdure/internal/env"
	"github.com/perdure/perdure/internal/host"
)

// messages reads a sample batch.
func messages(t *testing.T, name string) []cloud.Message {
	t.Helper()
	var batch struct {
		Records []struct {
			MessageID string `json:"messageId"`
			Body      string `json:"body"`
		} `json:"Records"` //nolint:tagliatelle // SQS's name
	}
	require.NoError(t, json.Unmarshal(sample(t, name), &batch))
	var out []cloud.Message
	for _, r := range batch.Records {
		out = append(out, cloud.Message{ID: r.MessageID, Group: "g", Body: r.Body, Receives: 1})
	}
	return out
}

func TestASampleOfEachMachineEventIsTaken(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, cancel := w.invocation()
	defer cancel()
	// Nobody has this session: the activation of one that is gone ends, its token
	// is completed, and its call is none.
	for _, name := range []string{"drive/first_step.json", "drive/recover.json", "drive/after_a_wait.json"} {
		data, err := w.function(env.FunctionDrive).Drive(ctx, "r", sample(t, name))
		require.NoError(t, err, name)
		var next struct{ V, Next any }
		require.NoError(t, json.Unmarshal(data, &next))
		require.Equal(t, "done", next.Next, name)
	}
	require.NoError(t, w.function(env.FunctionTool).Tool(ctx, "r", sample(t, "tool/call.json")), w.log)
	for _, name := range []string{"sweep/scheduled.json", "sweep/execution_failed.json"} {
		require.NoError(t, w.function(env.FunctionSweep).Sweep(ctx, "r", sample(t, name)))
	}
}

func TestEventsThatAreNoneFailWithACodeAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, cancel := w.invocation()
	defer cancel()
	for event, code := range map[string]string{
		`{"data":{"v":1,"tenant":"secret words"}}`: cloud.FailedEvent,
		`null`:                cloud.FailedEvent,
		`{"data":{"v":7}}`:    cloud.FailedNewer,
		`"`:                   cloud.FailedEvent,
		`{"data":{"v":1}} []`: cloud.FailedEvent,
	} {
		_, err := w.function(env.FunctionDrive).Drive(ctx, "req-7", []byte(event))
		var failed *cloud.InvocationError
		require.ErrorAs(t, err, &failed, event)
		require.Equal(t, code, failed.Code, event)
		require.Equal(t, code+": the log of request req-7 says why", err.Error())
	}
	require.Contains(t, w.log.String(), `"requestId":"req-7"`)
}

func TestDeliveriesFailOneByOne(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, cancel := w.invocation()
	defer cancel()
	batch := append(messages(t, "deliver/work.json"),
		cloud.Message{ID: "m-text", Body: `{"v":1,"kind":"work","body":"as it is: \u00e9"}`},
		cloud.Message{ID: "m-json", Body: `no json`},
		cloud.Message{ID: "m-new", Body: `{"v":2,"kind":"work","body":{}}`},
		cloud.Message{ID: "m-empty", Body: `{"v":1,"kind":"work"}`},
		cloud.Message{ID: "m-else", Body: `{"v":1,"kind":"work","queue":"https://sqs.example/1/other","body":{}}`},
		cloud.Message{ID: "m-own", Body: `{"v":1,"kind":"work","queue":"` + workURL + `","body":{"a":  1}}`},
	)
	failed, err := w.function(env.FunctionDeliver).Deliver(ctx, "r", batch)
	require.NoError(t, err)
	require.Equal(t, []string{batch[1].ID, "m-json", "m-new", "m-empty", "m-else"}, failed)
	require.Equal(t, []string{`{"operationId":"op_1","tool":"resize","arguments":{"width":100}}`, "as it is: é", `{"a":  1}`}, w.take(workURL))
	require.NotContains(t, w.log.String(), "pigeon")
	require.NotContains(t, w.log.String(), "no json")
}

func TestTheInboxPerformsASample(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.serve()
	_, err := c.CreateSession(t.Context(), map[string]any{"id": "triage-7", "config": script(`[{"text":"done"}]`)})
	require.NoError(t, err)
	ctx, cancel := w.invocation()
	defer cancel()
	batch := messages(t, "inbox/start_run.json")
	for range 2 { // a queue may deliver twice
		failed, err := w.function(env.FunctionInbox).Inbox(ctx, "r", batch)
		require.NoError(t, err)
		require.Empty(t, failed, w.log)
	}
	run := over(t, c, "triage-7", "run_1")
	require.Equal(t, "completed", run.Status)
	require.Equal(t, "U42", run.RequestedBy)
	_, err = c.Run(t.Context(), "triage-7", "run_2", 0)
	require.ErrorContains(t, err, "not_found")
	require.NotContains(t, w.log.String(), "changelog")

	// One that is given up is counted.
	batch[0].Body, batch[0].Receives = `{"v":9}`, 3
	failed, err := w.function(env.FunctionInbox).Inbox(ctx, "r", batch)
	require.NoError(t, err)
	require.Equal(t, []string{batch[0].ID}, failed)
	dead, dimensions, there := w.log.metric(t, env.MetricDead)
	require.True(t, there)
	require.InDelta(t, 1, dead, 0)
	require.Equal(t, []any{[]any{"function"}}, dimensions)
}

// overdue is a log in which sessions are owed something for long.
type overdue struct {
	host.Log

	keys []host.Key
}

func (o overdue) Due(_ context.Context, now ident.Instant, _ int) ([]host.Key, error) {
	if now > gosched.New().Now()-60_000 {
		return nil, nil // what is owed now, the engine asks for
	}
	return o.keys, nil
}

func TestTheSweepCountsWhatIsStuck(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.log2 = overdue{w.store, []host.Key{{Tenant: "default", Session: "a"}, {Tenant: "default", Session: "b"}}}
	ctx, cancel := w.invocation()
	defer cancel()
	require.NoError(t, w.function(env.FunctionSweep).Sweep(ctx, "r", nil))
	stuck, dimensions, there := w.log.metric(t, env.MetricOverdue)
	require.True(t, there, w.log)
	require.InDelta(t, 2, stuck, 0)
	require.Equal(t, []any{[]any{"function"}}, dimensions)
}

// TestAnExecutionThatEndedBadlyIsFollowedAtOnce loses the first activation. That
// it is overdue is a long way off; the event says it now.
func TestAnExecutionThatEndedBadlyIsFollowedAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	lost := make(chan memory.Activation, 1)
	w.loses = func(a memory.Activation) bool {
		if a.Epoch == 1 {
			lost <- a
		}
		return a.Epoch == 1
	}
	c := w.serve()
	_, err := c.CreateSession(t.Context(), map[string]any{"id": "s", "config": script(`[{"text":"done"}]`)})
	require.NoError(t, err)
	_, err = c.StartRun(t.Context(), "s", say("go on"), 0)
	require.NoError(t, err)
	a := <-lost
	require.NoError(t, w.waker.End(t.Context(), a.Key, a.Inc, a.Epoch))
	input, err := sfn.Input(a.Key, a.Inc, a.Epoch)
	require.NoError(t, err)
	var event map[string]any
	require.NoError(t, json.Unmarshal(sample(t, "sweep/execution_failed.json"), &event))
	event["detail"].(map[string]any)["input"] = string(input)
	raw, err := json.Marshal(event)
	require.NoError(t, err)
	ctx, cancel := w.invocation()
	defer cancel()
	for range 2 { // an event may come twice
		require.NoError(t, w.function(env.FunctionSweep).Sweep(ctx, "r", raw), w.log)
	}
	require.Equal(t, "completed", over(t, c, "s", "run_1").Status)
	head, err := w.store.Head(t.Context(), a.Key)
	require.NoError(t, err)
	require.EqualValues(t, 2, head.Drive.Epoch)
}

// panics is a log that breaks down.
type panics struct{ host.Log }

func (panics) Head(context.Context, host.Key) (host.Head, error) { panic("somebody's words") }

func TestAPanicIsCaughtAndSaysNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.log2 = panics{w.store}
	status, body := w.request(env.FunctionAPI, "/readyz")
	require.Equal(t, http.StatusInternalServerError, status, body)
	require.NotContains(t, body, "words")

	w = newWorld(t)
	w.log2 = dueBreaks{w.store}
	ctx, cancel := w.invocation()
	defer cancel()
	err := w.function(env.FunctionSweep).Sweep(ctx, "r", nil)
	var failed *cloud.InvocationError
	require.ErrorAs(t, err, &failed)
	require.Equal(t, cloud.FailedInternal, failed.Code)
	require.Contains(t, w.log.String(), "an invocation panicked")
	require.Contains(t, w.log.String(), "events_test.go")
	require.NotContains(t, w.log.String(), "words")
	w.log2 = nil
	require.NoError(t, w.function(env.FunctionSweep).Sweep(ctx, "r", nil), "the process is good for the next one")
}

// dueBreaks is a log that breaks down when the sweep asks it.
type dueBreaks struct{ host.Log }

func (dueBreaks) Due(context.Context, ident.Instant, int) ([]host.Key, error) {
	panic("somebody's words")
}
