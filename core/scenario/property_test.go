package scenario

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/session"
)

// chaos draws what happens next in a world: commands of people, outcomes, the
// clock, and drivers that come and go.
type chaos struct {
	*rapid.T

	w *world
}

func (c chaos) chance(percent int, what string) bool {
	return rapid.IntRange(1, 100).Draw(c.T, what) <= percent
}

func (c chaos) n(low, high int, what string) int { return rapid.IntRange(low, high).Draw(c.T, what) }

func oneOf[T any](c chaos, what string, from ...T) T { return rapid.SampledFrom(from).Draw(c.T, what) }

// served is an offer with a tool of every kind; salt changes definitions.
func served(salt string) []tool {
	def := func(name string, change func(*session.ToolDef)) tool {
		d := session.ToolDef{Name: name, WireName: name, Kind: "action", Class: classOf(name), Definition: blob.Sum([]byte(name + salt)).Hex()}
		change(&d)
		return tool{def: d}
	}
	return []tool{
		def("ask", func(d *session.ToolDef) { d.Gate.TTLMs = 60000 }),
		def("await", func(*session.ToolDef) {}),
		def("cancel", func(d *session.ToolDef) { d.Parallel = true }),
		def("detach", func(d *session.ToolDef) { d.Parallel = true }),
		def("fetch", func(d *session.ToolDef) {
			d.RetrySafe, d.Parallel, d.Gate = true, true, session.Gate{Ask: true, TTLMs: 30000}
		}),
		def("job", func(d *session.ToolDef) { d.Class, d.DeadlineMs = session.ClassJoined, 100000 }),
		def("jobs", func(d *session.ToolDef) { d.Class, d.Parallel, d.RetrySafe = session.ClassJoined, true, true }),
		def("later", func(d *session.ToolDef) { d.Class, d.Parallel = session.ClassPromise, true }),
		def("look", func(d *session.ToolDef) { d.RetrySafe = true }),
		def("pay", func(*session.ToolDef) {}),
		def("read", func(d *session.ToolDef) { d.RetrySafe, d.Parallel = true, true }),
		def("send", func(d *session.ToolDef) { d.Gate = session.Gate{Ask: true, Remember: true} }),
		def("sleep", func(d *session.ToolDef) { d.Parallel = true }),
		def("transfer", func(d *session.ToolDef) { d.Lookup = true }),
		def("wire", func(d *session.ToolDef) { d.Gate = session.Gate{Ask: true, Role: "owner"} }),
	}
}

func (c chaos) config() session.Config {
	cfg := session.Config{
		Model:        session.Model{Provider: "scripted", Model: oneOf(c, "model", "m", "n"), MaxOutput: 10},
		Instructions: blob.Inline(oneOf(c, "instructions", "", "Be brief.")),
		Limits: session.Limits{
			MaxTurns: oneOf[int64](c, "maxTurns", 0, 1, 3), MaxToolRounds: oneOf[int64](c, "maxToolRounds", 0, 0, 2),
			MaxTokens: oneOf[int64](c, "maxTokens", 0, 0, 2000), MaxSeconds: oneOf[int64](c, "maxSeconds", 0, 30, 60),
			MaxRepeats: oneOf[int64](c, "maxRepeats", 0, -1, 2),
		},
	}
	cfg.Context.Window = oneOf(c, "window", session.Window{}, session.Window{MaxMessages: 6, Keep: 3}, session.Window{MaxTokens: 300, Keep: 150},
		session.Window{MaxMessages: 12, MaxTokens: 400, Keep: 5}, session.Window{MaxMessages: 2, Keep: 1})
	cfg.Context.Compaction = oneOf(c, "compaction", session.Compaction{}, session.Compaction{Mode: "auto", AtTokens: 120}, session.Compaction{Mode: "off"})
	if c.chance(20, "intake") {
		cfg.Intake = session.Intake{When: oneOf(c, "when", "session", "run"), TTLMs: oneOf[int64](c, "ttl", 0, 1000), Items: item()}
	}
	return cfg
}

func item() []session.QuestionItem {
	return []session.QuestionItem{{ID: "a", Prompt: "Sure?", FreeText: true, Defaults: []string{"yes"}}}
}

func (c chaos) asked() session.Asked {
	return session.Asked{
		Actor:      session.Actor{ID: oneOf(c, "actor", "ada", "bob"), Roles: oneOf(c, "roles", nil, []string{"owner"})},
		Via:        "key",
		Submission: session.Submission{ID: ident.SubmissionID(oneOf(c, "id", "", "", "", "a", "b", "c"))},
	}
}

func (c chaos) input() []session.Part {
	return []session.Part{{Text: c.text("input")}}
}

func (c chaos) text(what string) blob.Payload {
	return payload(oneOf(c, what, "go", "stop", "a text that is somewhat longer than the others are", "@5000"))
}

// command is one of a person.
func (c chaos) command() session.Command {
	s := c.w.state()
	run := ident.RunID(c.n(1, int(s.Cursors.Run)+1, "run"))
	if s.Active != nil && c.chance(70, "the active one") {
		run = s.Active.ID
	}
	switch c.n(1, 14, "command") {
	case 1, 2, 3:
		return &session.RequestRun{Input: c.input(), Mode: oneOf(c, "mode", "", "queue", "steer", "interrupt", "reject"), Asked: c.asked()}
	case 4, 5:
		return &session.SteerRun{Run: run, Text: c.input(), Asked: c.asked()}
	case 6:
		return &session.CancelRun{Run: run, Force: c.chance(20, "force"), Asked: c.asked()}
	case 7, 8:
		return c.decision(s)
	case 9:
		a := &session.AnswerQuestion{Run: run, Question: ident.QuestionID(c.n(1, int(s.Cursors.Question)+1, "question")), Skip: c.chance(30, "skip"), Asked: c.asked()}
		a.Answers = []session.Answer{{Item: "a", Values: []string{"no"}}}
		return a
	case 10, 11:
		return &session.SettlePromise{
			Promise: ident.PromiseID(c.n(1, int(s.Cursors.Promise)+1, "promise")), Status: oneOf(c, "status", session.Resolved, session.Failed),
			Value: c.text("value"), Asked: c.asked(),
		}
	case 12:
		return c.edit(s)
	case 13:
		return oneOf[session.Command](c, "rare", &session.CompactContext{Asked: c.asked()}, &session.Configure{Config: c.config(), IfRevision: -1}, &session.ForgetRemembered{Tool: "send"}, &session.CloseSession{}, &session.CloseSession{Force: c.chance(30, "force")})
	}
	if c.chance(50, "a dead one") {
		return &session.NoteDead{Source: "inbox", ID: oneOf(c, "message", "m1", "m2", "m3"), Receives: 3, Code: "unavailable", Submission: c.asked().Submission.ID}
	}
	return &session.Wake{}
}

func (c chaos) decision(s session.State) session.Command {
	d := &session.DecideApprovals{Asked: c.asked()}
	for range c.n(1, 3, "decisions") {
		one := session.Decision{
			Approval: ident.ApprovalID(c.n(1, int(s.Cursors.Approval)+1, "approval")), Approve: c.chance(60, "approve"), Remember: c.chance(20, "remember"),
		}
		if s.Active != nil && len(s.Active.Approvals) > 0 && c.chance(80, "one that is there") {
			one.Approval = oneOf(c, "which", s.Active.Approvals...).ID
		}
		if one.Approve && !one.Remember && c.chance(20, "edit") {
			p := blob.Inline(`{"n":1}`)
			one.Edited = &p
		}
		d.Decisions = append(d.Decisions, one)
	}
	return d
}

func (c chaos) edit(s session.State) session.Command {
	e := &session.EditContext{IfRevision: -1, Asked: c.asked()}
	switch c.n(1, 3, "edit") {
	case 1:
		e.Put = []session.EditPut{{Key: oneOf(c, "key", "k1", "k2"), Role: session.RoleUser, Parts: c.input()}, {Key: "instructions.x", Role: session.RoleInstructions, Parts: c.input()}}
	case 2:
		e.Remove = []string{oneOf(c, "key", "k1", "k2", "instructions.x")}
	default:
		text := blob.Inline("other")
		e.Replace = []session.EditReplace{{Entry: ident.EntryID(c.n(1, int(s.Cursors.Entry)+1, "entry")), Text: oneOf(c, "text", nil, &text)}}
	}
	return e
}

// outcome is how one of the effects that somebody performs ends, or nil.
func (c chaos) outcome() session.Command {
	if len(c.w.pending) == 0 {
		return nil
	}
	p := oneOf(c, "effect", c.w.pending...)
	if !c.chance(10, "twice") {
		c.w.done(p.claim)
	}
	usage := session.Usage{Input: int64(c.n(0, 300, "in")), Output: int64(c.n(0, 20, "out"))}
	switch p.claim.Kind {
	case session.ClaimModel:
		return c.answer(p, usage)
	case session.ClaimCompact:
		o := &session.CompactionOutcome{Through: p.claim.Through, Attempt: p.claim.Attempt, Summary: c.text("summary"), Usage: usage}
		if c.chance(40, "fault") {
			o.Fault, o.Aborted = c.fault(), c.chance(20, "aborted")
		}
		return o
	}
	o := &session.ToolOutcome{
		Call: ident.CallID{Turn: p.claim.Turn, Index: p.claim.Call}, Attempt: p.claim.Attempt, Text: c.text("result"),
		Lookup: p.claim.Kind == session.ClaimLookup, Found: c.chance(50, "found"),
	}
	if p.claim.Kind == session.ClaimTool && c.chance(50, "taken") {
		o.Accepted = true
		return o
	}
	switch c.n(1, 8, "how") {
	case 1, 2:
		o.Error = true
	case 3, 4:
		o.Fault = c.fault()
	case 5:
		o.Aborted = true
	case 6:
		o.Refused = oneOf(c, "refused", session.VerdictForbidden, session.VerdictUnavailable)
	}
	return o
}

func (c chaos) fault() *session.FaultInfo {
	return &session.FaultInfo{
		Class:   oneOf(c, "class", "server", "rate_limit", "network", "invalid_request", "context_length", "other", "stopped"),
		NotSent: c.chance(20, "not sent"), RetryAfterMs: oneOf[int64](c, "after", 0, 10000, 100000),
	}
}

func (c chaos) answer(p effect, usage session.Usage) session.Command {
	s := c.w.state()
	o := &session.ModelOutcome{Turn: p.claim.Turn, Attempt: p.claim.Attempt, Text: c.text("answer"), Usage: usage, Finish: "stop", Aborted: p.stopped && c.chance(70, "aborted")}
	if len(s.Promises) > 0 && c.chance(40, "await") {
		o.Calls = []session.ProposedCall{c.w.screen(&s, "await", fmt.Sprintf(`{"promises":["promise_%d"],"timeoutSeconds":20}`, c.promise(&s)))}
		return o
	}
	switch c.n(1, 10, "how") {
	case 1, 2:
		o.Fault = c.fault()
	case 3:
		o.Finish = oneOf(c, "finish", "length", "content_filter")
	case 4, 5, 6, 7:
		for range c.n(1, oneOf(c, "calls", 2, 4, 40), "how many") {
			one := c.call(&s)
			for range oneOf(c, "of it", 1, 1, 2, 4) {
				o.Calls = append(o.Calls, one)
			}
		}
	case 8:
		o.Fault = &session.FaultInfo{Class: "quota", NotSent: true, Refused: &session.Failure{Kind: session.FailQuota, Limit: "day", Value: 1, Used: 1}}
	}
	return o
}

func (c chaos) call(s *session.State) session.ProposedCall {
	name := oneOf(c, "tool", "read", "look", "pay", "send", "fetch", "transfer", "job", "jobs", "later", "await", "sleep", "detach", "cancel", "ask", "wire", "nothere")
	args := fmt.Sprintf(`{"n":%d}`, c.n(1, 2, "n"))
	switch name {
	case "sleep":
		args = fmt.Sprintf(`{"seconds":%d}`, c.n(0, 90, "seconds"))
	case "await", "detach", "cancel":
		args = fmt.Sprintf(`{"promises":["promise_%d","promise_%d"],"mode":%q`, c.promise(s), c.promise(s), oneOf(c, "mode", "any", "all"))
		if c.chance(50, "timed") {
			args += fmt.Sprintf(`,"timeoutSeconds":%d`, oneOf(c, "timeout", 0, 30))
		}
		args += "}"
	case "ask":
		args = `{"items":[{"id":"a","prompt":"Sure?","freeText":true,"defaults":["yes"]}]}`
	}
	if c.chance(5, "broken") {
		args = "{"
	}
	return c.w.screen(s, name, args)
}

// promise is one that can be awaited, if there is any, or whatever.
func (c chaos) promise(s *session.State) int {
	for _, p := range s.Promises {
		if p.Status == session.Pending && !p.Joined && c.chance(50, "this one") {
			return int(p.ID)
		}
	}
	return c.n(1, int(s.Cursors.Promise)+1, "promise")
}

// happen plays one thing.
func (c chaos) happen() {
	w := c.w
	w.warm = c.chance(70, "warm")
	switch c.n(1, 20, "what") {
	case 1, 2, 3, 4:
		w.step(driver, c.command())
	case 5, 6:
		w.step(api, c.command())
	case 7:
		w.at = w.at.Add(int64(oneOf(c, "later", 1, 1000, 10000, 100000, 86400000)))
		w.step(who(c.chance(80, "driver")), &session.Wake{})
	case 8:
		// The process dies, and somebody else takes over, or not yet.
		w.pending, w.m = nil, nil
		if c.chance(90, "taken over") {
			w.step(driver, &session.Resume{})
		}
	case 9:
		w.tools = oneOf(c, "offer", served(""), served(""), served("2"), served("")[:8], nil)
		w.step(driver)
	case 10:
		var several []session.Command
		for range c.n(2, 4, "several") {
			if o := c.outcome(); o != nil {
				several = append(several, o)
			}
			several = append(several, c.command())
		}
		w.step(driver, apart(several)...)
	default:
		if o := c.outcome(); o != nil {
			w.step(driver, o)
		} else {
			w.step(driver, c.command())
		}
	}
}

// apart leaves out what one step may not have beside an earlier input: rows are
// looked up before it, and a second use of a key would not be seen.
func apart(inputs []session.Command) []session.Command {
	seen := map[string]bool{}
	return slices.DeleteFunc(inputs, func(in session.Command) bool {
		key := rowKey(in)
		again := key != "" && seen[key]
		seen[key] = true
		return again
	})
}

// rest lets the session come to rest: everything is served and answered, every
// person says yes, and time passes. It must become idle.
func (c chaos) rest() {
	w := c.w
	w.tools = served("")
	w.step(driver, &session.Resume{})
	for range 3000 {
		s := w.state()
		switch {
		case len(w.pending) > 0:
			w.step(driver, w.plain(w.pending[0]))
		case s.Active == nil && len(s.Queue) == 0 && s.Context.Compaction.Phase != session.CompactionRuns:
			return
		case s.Active != nil && len(s.Active.Questions) > 0:
			w.step(driver, &session.AnswerQuestion{Run: s.Active.ID, Question: s.Active.Questions[0].ID, Skip: true})
		case w.pendingApproval(&s) != 0:
			w.step(driver, &session.DecideApprovals{
				Asked: session.Asked{Actor: session.Actor{ID: "eve", Roles: []string{"owner"}}}, Decisions: []session.Decision{{Approval: w.pendingApproval(&s), Approve: true}},
			})
		default:
			require.NotZero(w.t, w.wake, "stuck: %+v", s.Active)
			w.at = max(w.at, w.wake)
			w.step(driver, &session.Wake{})
		}
	}
	require.Fail(w.t, "the session does not come to rest")
}

func (w *world) plain(p effect) session.Command {
	w.done(p.claim)
	switch p.claim.Kind {
	case session.ClaimModel:
		return &session.ModelOutcome{Turn: p.claim.Turn, Attempt: p.claim.Attempt, Text: blob.Inline("done"), Finish: "stop", Aborted: p.stopped}
	case session.ClaimCompact:
		return &session.CompactionOutcome{Through: p.claim.Through, Attempt: p.claim.Attempt, Summary: blob.Inline("sum")}
	}
	return &session.ToolOutcome{
		Call: ident.CallID{Turn: p.claim.Turn, Index: p.claim.Call}, Attempt: p.claim.Attempt, Text: blob.Inline("ok"),
		Lookup: p.claim.Kind == session.ClaimLookup, Found: true,
	}
}

func (w *world) pendingApproval(s *session.State) ident.ApprovalID {
	if s.Active == nil {
		return 0
	}
	for _, a := range s.Active.Approvals {
		if a.Status == session.Pending && (a.ExpiresAt == 0 || a.ExpiresAt > w.at) {
			return a.ID
		}
	}
	return 0
}

// TestChaos plays random sessions and holds them to the laws after every step:
// no divergence, no panic, whatever may come next can be taken, and in the end
// rest.
func TestChaos(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(true)
		w.t = t
		c := chaos{t, w}
		w.tools = served("")
		w.step(driver, &session.OpenSession{Inc: "01INC", Config: c.config()})
		for range c.n(10, 80, "steps") {
			c.happen()
			w.probe()
		}
		w.oldCopies()
		if w.state().Status == session.Open {
			c.rest()
		}
		w.oldCopies()
	})
}
