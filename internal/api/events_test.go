package api_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/wire"
	"github.com/perdure/perdure/internal/adapter/scripted"
	"github.com/perdure/perdure/internal/api"
)

func TestTheFeedHasEveryEventOnce(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.create("s1", "t.*")
	w.model.For("s1", scripted.Step{Calls: []scripted.Call{call("t.read", `{"x":"1"}`)}}, scripted.Step{Text: strings.Repeat("long ", 2000)})
	w.run("s1", "go")
	head := w.session("s1").Head

	var forward, back []api.Event
	for after := uint64(0); ; {
		var page api.Events
		w.call("GET", "/v1/sessions/s1/events?limit=3&after="+strconv.FormatUint(after, 10), nil).is(200, &page)
		require.Equal(t, head, page.Head)
		require.LessOrEqual(t, len(page.Events), 3)
		forward = append(forward, page.Events...)
		after = page.Next
		if page.Complete {
			require.Equal(t, head, page.Next)
			break
		}
	}
	for before := "head"; ; {
		var page api.Events
		w.call("GET", "/v1/sessions/s1/events?limit=4&before="+before, nil).is(200, &page)
		back = append(append([]api.Event{}, page.Events...), back...)
		before = strconv.FormatUint(page.Next, 10)
		if page.Complete {
			break
		}
	}
	require.Equal(t, forward, back)
	require.Len(t, forward, int(head))
	kinds := map[string]api.Event{}
	for i, e := range forward {
		require.Equal(t, uint64(i+1), e.Seq)
		kinds[e.Kind] = e
	}
	require.Equal(t, "run_1", kinds["run.accepted"].Run)
	require.Equal(t, "call_1_1", kinds["tool.completed"].Call)
	require.Equal(t, "turn_2", kinds["turn.completed"].Turn)
	require.Contains(t, string(kinds["run.completed"].Data), "long long") // resolved, though it is a blob
	require.NotContains(t, string(kinds["run.completed"].Data), "sha256:")
}

func TestWhereTheFeedCannotBegin(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.create("s1")
	for _, query := range []string{
		"after=0&before=1", "before=1&wait=5", "before=head&wait=0", "after=2", "before=3", "before=0", "after=-1", "after=x", "after=%2B1", "before=tail",
		"limit=0", "limit=513", "wait=-1", "wait=x", "follow=1", "after=0&after=0",
	} {
		w.call("GET", "/v1/sessions/s1/events?"+query, nil).refused(400, "invalid_request")
	}
	var page api.Events
	w.call("GET", "/v1/sessions/s1/events?before=2", nil).is(200, &page)
	require.Len(t, page.Events, 1)
	require.True(t, page.Complete)
	w.call("GET", "/v1/sessions/s1/events?before=1", nil).is(200, &page)
	require.Empty(t, page.Events)
	require.True(t, page.Complete)
	w.call("GET", "/v1/sessions/s1/events?after=1", nil).is(200, &page)
	require.True(t, page.Complete)
	require.Equal(t, uint64(1), page.Next)
}

func TestALongPollAnswersWhenThereIsSomething(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.create("s1")
	answers := make(chan *response)
	go func() { answers <- w.call("GET", "/v1/sessions/s1/events?after=1&wait=20", nil) }()
	w.call("POST", "/v1/sessions/s1/runs", m{"input": "hello"}).is(202, nil)
	var page api.Events
	(<-answers).is(200, &page)
	require.NotEmpty(t, page.Events)
	require.Equal(t, "run.accepted", page.Events[0].Kind)
	// More than 20 is 20, and what is there is told at once.
	w.call("GET", "/v1/sessions/s1/events?after=0&wait=1000", nil).is(200, &page)
	require.NotEmpty(t, page.Events)
}

func TestALongPollEndsWithItsClient(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.create("s1")
	run, _ := w.busy("s1")
	for _, path := range []string{"/v1/sessions/s1/events?wait=20&after=" + strconv.FormatUint(w.session("s1").Head, 10), "/v1/sessions/s1/runs/" + run.ID + "?wait=20"} {
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			w.ServeHTTP(httptest.NewRecorder(), request("GET", path, nil).WithContext(ctx))
		}()
		cancel()
		<-ended
	}
}

func TestTheRawLogIsWhatIsStored(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.create("s1")
	w.run("s1", "hello")
	head := w.session("s1").Head
	res := w.call("GET", "/v1/sessions/s1/log", nil)
	require.Equal(t, 200, res.Code)
	require.Equal(t, "application/x-ndjson", res.Header().Get("Content-Type"))
	lines := bufio.NewScanner(bytes.NewReader(res.Body.Bytes()))
	n := uint64(0)
	for lines.Scan() {
		n++
		en, err := wire.Decode(lines.Bytes())
		if err != nil { // an envelope ends with its line
			en, err = wire.Decode(append(lines.Bytes(), '\n'))
		}
		require.NoError(t, err)
		require.Equal(t, n, uint64(en.Seq))
	}
	require.Equal(t, head, n)
	res = w.call("GET", "/v1/sessions/s1/log?after="+strconv.FormatUint(head-1, 10), nil)
	require.Equal(t, 1, strings.Count(res.Body.String(), "\n"))
	res = w.call("GET", "/v1/sessions/s1/log?after="+strconv.FormatUint(head, 10), nil)
	require.Equal(t, 200, res.Code)
	require.Empty(t, res.Body.String())
	w.call("GET", "/v1/sessions/s1/log?after=999", nil).refused(400, "invalid_request")
	w.call("GET", "/v1/sessions/s1/log", nil, as(reader)).refused(403, "forbidden")
}

func TestThePageOfAFeedIsBounded(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.create("s1")
	w.busy("s1")
	text := strings.Repeat("<", 60<<10)
	for range 24 {
		w.call("POST", "/v1/sessions/s1/runs", m{"input": text}).is(202, nil)
	}
	for _, q := range []string{"after=0", "before=head"} {
		res := w.call("GET", "/v1/sessions/s1/events?limit=512&"+q, nil).is(200, nil)
		require.LessOrEqual(t, res.Body.Len(), 1<<20)
		var page api.Events
		require.NoError(t, json.Unmarshal(res.Body.Bytes(), &page))
		require.False(t, page.Complete)
		require.Greater(t, len(page.Events), 5)
	}
}
