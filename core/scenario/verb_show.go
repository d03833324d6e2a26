package scenario

import (
	"fmt"
	"strings"

	"github.com/perdure/perdure/core/session"
)

// verbRequest shows the model request that state comes to, a line a message.
func verbRequest(w *world, _ *args) string {
	s := w.state()
	return strings.Join(request(&s), "\n") + "\n"
}

// verbStatus shows what clients would see of the session.
func verbStatus(w *world, a *args) string {
	s := w.state()
	var b strings.Builder
	fmt.Fprintf(&b, "session %s %s\n", s.Status, s.Activity())
	if r := s.Active; r != nil {
		statusRun(&b, w, r)
	}
	for _, q := range s.Queue {
		fmt.Fprintf(&b, "queued %s: %s\n", q.ID, parts(q.Input))
	}
	for _, p := range s.Promises {
		fmt.Fprintf(&b, "%s of %s %s\n", p.ID, p.Tool, p.Status)
	}
	for _, g := range s.Remembered {
		fmt.Fprintf(&b, "remembered %s by %s\n", g.Tool, g.By)
	}
	if c := s.Context.Compaction; c.Phase != "" {
		fmt.Fprintf(&b, "compaction %s\n", c.Phase)
	}
	if a.flag("usage") {
		fmt.Fprintf(&b, "usage %d/%d, %d model calls, %d tool calls, %d runs, prompt %d\n", s.Totals.Usage.Input, s.Totals.Usage.Output, s.Totals.ModelCalls, s.Totals.ToolCalls, s.Totals.Runs, s.PromptTokens())
	}
	return b.String()
}

func statusRun(b *strings.Builder, w *world, r *session.Run) {
	fmt.Fprintf(b, "%s %s", r.ID, r.RunStatus())
	if len(r.Wait.On) > 0 {
		fmt.Fprintf(b, " on %s", strings.Join(r.Wait.On, " "))
	}
	fmt.Fprintf(b, ", %d turns\n", r.Turns)
	if r.Turn.ID != 0 {
		fmt.Fprintf(b, "  %s %s attempt %d", r.Turn.ID, r.Turn.Status, r.Turn.Attempt)
		if r.Turn.RetryAt != 0 {
			fmt.Fprintf(b, ", again %s", w.when(r.Turn.RetryAt))
		}
		b.WriteString("\n")
	}
	if r.Batch != nil && r.Batch.Open > 0 {
		for i := range r.Batch.Calls {
			c := &r.Batch.Calls[i]
			status := c.Status
			if status == session.CallCalled {
				status = "called"
			}
			fmt.Fprintf(b, "  call %d %s %s", c.Index, c.Tool, status)
			if c.Approval != 0 {
				fmt.Fprintf(b, " %s", c.Approval)
			}
			b.WriteString("\n")
		}
	}
	for _, ap := range r.Approvals {
		fmt.Fprintf(b, "  %s of call %d %s\n", ap.ID, ap.Call, ap.Status)
	}
	for _, q := range r.Questions {
		fmt.Fprintf(b, "  %s pending\n", q.ID)
	}
	for _, st := range r.Steers {
		fmt.Fprintf(b, "  %s pending: %s\n", st.ID, parts(st.Text))
	}
}
