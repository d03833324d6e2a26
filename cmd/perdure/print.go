package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/perdure/perdure/internal/api"
	"github.com/perdure/perdure/internal/chat"
	"github.com/perdure/perdure/internal/client"
)

// call makes a client, calls it, and prints what it answered: as it came with
// --json, else by show.
func (a *app) call(do func(c *client.Client) error, show func()) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	var raw json.RawMessage
	c.Tap = func(answer json.RawMessage) { raw = answer }
	if err := do(c); err != nil {
		return a.explain(err)
	}
	if !a.grammar.JSON {
		show()
		return nil
	}
	if len(raw) > 0 {
		a.println(strings.TrimSpace(string(raw)))
	}
	return nil
}

func (a *app) println(parts ...any) { fmt.Fprintln(a.out, parts...) }

func (a *app) printf(format string, args ...any) { fmt.Fprintf(a.out, format, args...) }

// clock shows an instant in the person's own time.
func clock(t api.Time) string {
	if t == 0 {
		return "-"
	}
	return time.UnixMilli(int64(t)).Local().Format("2006-01-02 15:04:05")
}

func (a *app) showSession(s *api.Session) {
	a.printf("%s  %s\n", s.ID, chat.OneLine(s.Title, titleWidth))
	a.printf("  status    %s, %s\n", s.Status, s.Activity)
	a.printf("  model     %s/%s\n", s.Config.Model.Provider, s.Config.Model.Model)
	if tools := toolNames(s.Config.Tools); tools != "" {
		a.printf("  tools     %s\n", tools)
	}
	a.printf("  opened    %s\n", clock(s.CreatedAt))
	a.printf("  usage     %d run(s), %d model call(s), %d tool call(s), %d tokens in, %d out\n",
		s.Usage.Runs, s.Usage.ModelCalls, s.Usage.ToolCalls, s.Usage.InputTokens, s.Usage.OutputTokens)
	a.printf("  events    %d\n", s.Head)
	if q := s.Quarantine; q != nil {
		a.printf("  frozen    at event %d: %s, %s\n", q.Seq, q.Code, q.Detail)
	}
	if s.ActiveRun != nil {
		a.showRun(s.ActiveRun)
	}
	for i := range s.QueuedRuns {
		a.showRun(&s.QueuedRuns[i])
	}
}

// titleWidth is how much of a text stands on a line of a list.
const titleWidth = 60

func toolNames(grants []api.ToolGrant) string {
	names := make([]string, len(grants))
	for i, g := range grants {
		names[i] = g.Name
	}
	return strings.Join(names, " ")
}

// showRun prints a run: what it is asked, what it waits for, what it came to.
func (a *app) showRun(r *api.Run) {
	a.printf("%s  %s  %s\n", r.ID, r.Status, chat.OneLine(chat.InputText(r.Input), titleWidth))
	for i := range r.Approvals {
		if r.Approvals[i].Status == "pending" {
			a.showApproval(&r.Approvals[i])
		}
	}
	for i := range r.Questions {
		if r.Questions[i].Status == "pending" {
			a.showQuestion(&r.Questions[i])
		}
	}
	for _, s := range r.Steering {
		a.printf("  %s  %s  %s\n", s.ID, s.Status, chat.OneLine(s.Text, titleWidth))
	}
	for _, w := range r.WaitingOn {
		if w.Kind != "approval" && w.Kind != "question" {
			a.printf("  waits for %s %s\n", w.Kind, w.ID)
		}
	}
	if f := r.Failure; f != nil {
		a.printf("  %s: %s\n", f.Kind, chat.OneLine(f.Message, wideWidth))
	}
	if r.Output != nil && r.Output.Text != "" {
		a.println(chat.Safe(strings.TrimRight(r.Output.Text, "\n")))
	}
}

// wideWidth is how much of a text stands on a line of its own.
const wideWidth = 200

func (a *app) showApproval(p *api.Approval) {
	a.printf("  %s  %s  %s %s\n", p.ID, p.Status, p.Tool, chat.Arguments(json.RawMessage(p.Arguments), wideWidth))
	switch {
	case p.Status == "pending":
		a.printf("    perdure approve %s %s   or   perdure reject %s %s --note \"why\"\n", p.SessionID, p.ID, p.SessionID, p.ID)
	case p.DecidedBy != "":
		a.printf("    by %s\n", p.DecidedBy)
	}
}

func (a *app) showQuestion(q *api.Question) {
	a.printf("  %s  %s\n", q.ID, q.Status)
	for _, it := range q.Items {
		a.printf("    %s\n", chat.QuestionLine(it))
	}
	if q.Status == "pending" {
		a.printf("    perdure answer %s %s %s=…\n", q.SessionID, q.ID, q.Items[0].ID)
	}
}
