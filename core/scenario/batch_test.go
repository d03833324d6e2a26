package scenario

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/session"
)

func playing(t *testing.T, tools []tool) *world {
	t.Helper()
	w := newWorld(true)
	w.t, w.tools = t, tools
	w.step(driver, &session.OpenSession{Inc: "01INC", Config: session.Config{Model: session.Model{Provider: "scripted", Model: "m"}}})
	return w
}

func (w *world) ask(text string) {
	w.t.Helper()
	w.step(driver, &session.RequestRun{Input: []session.Part{{Text: blob.Inline(text)}}})
}

// says is the model's answer to the call in flight.
func (w *world) says(calls ...string) {
	w.t.Helper()
	s := w.state()
	o := &session.ModelOutcome{Turn: s.Active.Turn.ID, Attempt: s.Active.Turn.Attempt, Finish: "stop"}
	for i := 0; i+1 < len(calls); i += 2 {
		o.Calls = append(o.Calls, w.screen(&s, calls[i], calls[i+1]))
	}
	w.done(session.Claim{Kind: session.ClaimModel, Turn: o.Turn, Attempt: o.Attempt})
	w.step(driver, o)
}

// TestOneResultPerCallAfterEveryCrash is T02: wherever a round of calls is cut
// off, by a crash or by a cancel, the next request has one result per call.
func TestOneResultPerCallAfterEveryCrash(t *testing.T) {
	t.Parallel()
	for n := 1; n <= 8; n++ {
		for done := 0; done <= n; done++ {
			for _, cancel := range []bool{false, true} {
				t.Run(fmt.Sprintf("%d of %d, cancel %v", done, n, cancel), func(t *testing.T) {
					t.Parallel()
					cutOff(t, n, done, cancel)
				})
			}
		}
	}
}

func cutOff(t *testing.T, n, done int, cancel bool) {
	t.Helper()
	w := playing(t, served(""))
	w.ask("go")
	var calls []string
	for i := range n {
		// Exclusive and parallel, retry-safe and not, gated, and one to look up.
		calls = append(calls, []string{"read", "pay", "jobs", "look", "send", "transfer", "read", "fetch"}[i], fmt.Sprintf(`{"n":%d}`, i))
	}
	w.says(calls...)
	ended := 0
	for ended < done && len(w.pending) > 0 {
		p := w.pending[len(w.pending)-1]
		if p.claim.Kind != session.ClaimTool {
			break
		}
		w.step(driver, w.plain(p))
		ended++
	}
	w.pending, w.m = nil, nil
	if cancel {
		w.step(api, &session.CancelRun{Run: 1})
	}
	w.step(driver, &session.Resume{})
	for range 100 {
		s := w.state()
		if s.Active == nil || s.Active.Turn.ID == 2 {
			break
		}
		if id := w.pendingApproval(&s); id != 0 {
			w.step(driver, &session.DecideApprovals{Decisions: []session.Decision{{Approval: id}}})
			continue
		}
		w.step(driver, w.plain(w.pending[0]))
	}
	if s := w.state(); s.Active == nil {
		w.ask("go on")
	}
	s := w.state()
	require.Equal(t, session.TurnInFlight, s.Active.Turn.Status)
	results := 0
	for _, e := range s.Context.Entries {
		if e.Turn == 1 && e.Role == session.RoleResults {
			results = len(e.Results)
		}
	}
	require.Equal(t, n, results)
}

// TestLargestStepFitsOneCommit plays what makes the most events that one input
// can: a turn with sixteen steers to deliver that asks for forty calls, of
// which thirty-two are of a gated tool that is remembered and act on thirty-two
// promises; and then a forced close of a session with all its bounds reached.
func TestLargestStepFitsOneCommit(t *testing.T) {
	t.Parallel()
	tools := served("")
	for i := range tools {
		if tools[i].def.Name == "detach" {
			tools[i].def.Gate = session.Gate{Ask: true, Remember: true}
		}
	}
	w := playing(t, tools)
	w.ask("go")
	for range 4 {
		w.says("later", "1", "later", "2", "later", "3", "later", "4", "later", "5", "later", "6", "later", "7", "later", "8")
		for len(w.pending) > 0 && w.pending[0].claim.Kind == session.ClaimTool {
			c := w.pending[0].claim
			w.done(c)
			w.step(driver, &session.ToolOutcome{Call: ident.CallID{Turn: c.Turn, Index: c.Call}, Attempt: 1, Accepted: true})
		}
	}
	w.says("detach", `{"promises":["promise_32"]}`)
	w.step(driver, &session.DecideApprovals{Decisions: []session.Decision{{Approval: 1, Approve: true, Remember: true}}})
	w.step(driver, &session.ForgetRemembered{Tool: "nothing"})
	for range session.SteersMax {
		w.step(driver, &session.SteerRun{Run: 1, Text: []session.Part{{Text: blob.Inline("faster")}}})
	}
	var calls []string
	for i := range session.CallsKept {
		calls = append(calls, "detach", fmt.Sprintf(`{"promises":["promise_%d"]}`, min(i+1, 31)))
	}
	w.says("read", "1") // carries no steer yet
	w.step(driver, w.plain(w.pending[0]))
	before := len(w.log)
	w.says(calls...)
	require.Greater(t, len(w.log)-before, 200)
	require.LessOrEqual(t, len(w.log)-before, session.BatchEventsMax)

	closing(t)
}

func closing(t *testing.T) {
	t.Helper()
	w := playing(t, served(""))
	w.ask("go")
	w.says("later", "1", "later", "2")
	for len(w.pending) > 0 && w.pending[0].claim.Kind == session.ClaimTool {
		c := w.pending[0].claim
		w.done(c)
		w.step(driver, &session.ToolOutcome{Call: ident.CallID{Turn: c.Turn, Index: c.Call}, Attempt: 1, Accepted: true})
	}
	w.says("detach", `{"promises":["promise_1","promise_2"]}`)
	for range session.QueueMax {
		w.ask("queued")
	}
	for range session.SteersMax {
		w.step(driver, &session.SteerRun{Run: 1, Text: []session.Part{{Text: blob.Inline("faster")}}})
	}
	var calls []string
	for i := range session.CallsMax {
		name := []string{"sleep", "send", "ask", "jobs"}[i%4]
		args := `{"seconds":100}`
		if name == "ask" {
			args = `{"items":[{"id":"a","prompt":"Sure?","freeText":true,"defaults":["yes"]}]}`
		}
		calls = append(calls, name, args)
	}
	w.says(calls...)
	before := len(w.log)
	w.step(driver, &session.CloseSession{Force: true})
	require.Equal(t, session.Closed, w.state().Status)
	require.Greater(t, len(w.log)-before, 100)
}
