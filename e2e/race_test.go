package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/internal/adapter/openai/openaitest"
	"github.com/perdure/perdure/internal/api"
)

// atOnce does n things at the same time.
func atOnce(n int, do func(i int) answer) []answer {
	answers := make([]answer, n)
	var wg sync.WaitGroup
	begin := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-begin
			answers[i] = do(i)
		})
	}
	close(begin)
	wg.Wait()
	return answers
}

// statuses is how many answers have which status.
func statuses(answers []answer) map[int]int {
	out := map[int]int{}
	for _, a := range answers {
		out[a.status]++
	}
	return out
}

// admitted asks as clients do: again, under the same key, when the server had no
// time. Where every command has a process of its own, and all of them this
// machine's two cores, some have none.
func (w *world) admitted(path string, body object) answer {
	w.Helper()
	var a answer
	w.poll(func() bool {
		if a = w.post(path, body); a.status == 503 && *deployed {
			a.refused(503, "unavailable")
			require.NotEmpty(w, a.header.Get("Retry-After"))
			return false
		}
		return true
	})
	return a
}

// T52: whoever comes at the same time is admitted, each once and in an order.
func TestManyCommandsAtOnce(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.open(w.played(nil))
	slow, release := gated(openaitest.Text("A.", 1))
	w.model.Enqueue(slow)
	w.model.Fallback = func(openaitest.Request) openaitest.Reply { return openaitest.Text("Yes.", 1) }
	first := w.run("A")
	soon(t, w.model.Seen(1))
	answers := atOnce(46, func(i int) answer {
		if i < 16 {
			return w.admitted("/runs/"+first.ID+"/steer", object{"input": fmt.Sprintf("steer %d", i), "submissionId": fmt.Sprintf("steer-%d", i)})
		}
		return w.admitted("/runs", object{"input": fmt.Sprintf("run %d", i), "submissionId": fmt.Sprintf("run-%d", i)})
	})
	require.Equal(t, map[int]int{202: 46}, statuses(answers))
	ids := map[string]bool{}
	for _, a := range answers[16:] {
		ids[read[api.Run](a).ID] = true
	}
	require.Len(t, ids, 30)
	release()
	w.ends("run_31", "completed")
	events := w.events()
	for i, e := range events {
		require.Equal(t, uint64(i+1), e.Seq)
		require.True(t, i == 0 || events[i-1].At <= e.At)
	}
	for id := range ids {
		require.Equal(t, "completed", read[api.Run](w.get("/runs/"+id).is(200)).Status)
	}
	// The steers stand in the request in the order in which they were admitted.
	var told, read []string
	for _, e := range events {
		if e.Kind == "run.steered" {
			told = append(told, string(e.Data))
		}
	}
	for _, m := range w.asked(2).Messages[2:] {
		read = append(read, m.text())
	}
	require.Len(t, read, 16)
	for i := range told {
		require.Contains(t, told[i], `"`+read[i]+`"`)
	}
}

// T33, T34: one name, many requests, one run.
func TestTheSameAtOnce(t *testing.T) {
	t.Parallel()
	w := setup(t)
	sessions := statuses(atOnce(8, func(int) answer {
		return w.ask("POST", "/v1/sessions", object{"id": w.session, "config": w.played([]string{"files.*"})})
	}))
	require.Equal(t, map[int]int{201: 1, 200: 7}, sessions)
	w.model.Enqueue(openaitest.Calls(call("a", "files.write", object{"path": "a", "content": "A"})), openaitest.Text("Done.", 1))
	runs := atOnce(8, func(int) answer { return w.post("/runs", object{"input": "Go.", "submissionId": "one"}) })
	require.Equal(t, map[int]int{202: 1, 200: 7}, statuses(runs))
	_, on := w.waits("run_1", "approval")

	// T10: one decision counts, and everybody learns which.
	decided := atOnce(8, func(i int) answer {
		return w.post("/approvals/"+on.ID, object{"decision": []string{"approve", "reject"}[i%2]})
	})
	require.Equal(t, map[int]int{200: 4, 409: 4}, statuses(decided))
	status := w.ends("run_1", "completed").Approvals[0].Status
	for i, a := range decided {
		if a.status == 409 {
			require.Equal(t, status, a.refused(409, "already_decided").Actual)
			continue
		}
		require.Equal(t, status, []string{"approved", "rejected"}[i%2])
	}

	// Under one key a request is carried out once; who comes in its midst is
	// told to come again.
	made := atOnce(8, func(int) answer {
		return w.ask("POST", "/v1/sessions", object{"config": w.played(nil)}, "Idempotency-Key", w.session)
	})
	again := w.ask("POST", "/v1/sessions", object{"config": w.played(nil)}, "Idempotency-Key", w.session).is(201)
	for _, a := range made {
		if a.status == 503 {
			require.Equal(t, "1", a.header.Get("Retry-After"))
			a.refused(503, "unavailable")
			continue
		}
		require.Equal(t, string(again.body), string(a.is(201).body))
	}
}

// T26: a promise is settled once, in the moment in which its run begins to wait
// for it as in any other.
func TestAPromiseIsSettledAtOnce(t *testing.T) {
	t.Parallel()
	w := setup(t)
	tool := w.outside("quick", object{"kind": "read"})
	w.open(w.played([]string{tool.name}))
	for i := range 20 {
		tokens := make(chan string, 1)
		tool.answers(func(rw http.ResponseWriter, c outsideCall) {
			tokens <- c.Promise.Token
			says(202, object{})(rw, c)
		})
		w.model.Enqueue(openaitest.Calls(call("a", tool.name, object{})), openaitest.Text("Good.", 1))
		run := w.run("Go.")
		token := soon(t, tokens)
		answers := atOnce(3, func(n int) answer {
			return w.settle(token, object{"status": "resolved", "value": fmt.Sprintf("value %d", n)})
		})
		require.Equal(t, map[int]int{200: 1, 409: 2}, statuses(answers))
		won := slices.IndexFunc(answers, func(a answer) bool { return a.status == 200 })
		w.ends(run.ID, "completed")
		require.Equal(t, fmt.Sprintf("value %d", won), w.asked(2*(i+1)).last().text())
	}
	for range 20 {
		<-tool.calls
	}
	require.Equal(t, 20, w.count("promise.settled"))
	require.Equal(t, 20, w.count("run.completed"))
}
