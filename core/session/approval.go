package session

import (
	"slices"
	"strconv"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/ident"
)

// Why an approval is asked for.
const (
	WhyTool   = "tool"
	WhyRepeat = "repeat_of_unknown"
)

// How an approval was decided.
const (
	ByPerson     = "person"
	ByRemembered = "remembered"
	ByDeadline   = "deadline"
	ByPolicy     = "policy"
)

func (e *ApprovalRequested) apply(s *State, en *Entry) error {
	r, c, err := s.call(e.Run, e.Turn, e.Call)
	if err != nil {
		return err
	}
	if err := next("approval", &s.Cursors.Approval, e.Approval); err != nil {
		return err
	}
	if c.Arguments.Content() != e.Arguments {
		return diverge("approval", "%s binds other arguments than those of its call", e.Approval)
	}
	c.Approval, c.Edited = e.Approval, blob.Payload{}
	// One asked about again has a row for what was decided before.
	r.Approvals = slices.DeleteFunc(slices.Clone(r.Approvals), func(a Approval) bool { return a.Call == e.Call })
	r.Approvals = append(r.Approvals, Approval{
		ID: e.Approval, Call: e.Call, Why: e.Why, Definition: e.Definition, Arguments: e.Arguments,
		Role: e.Role, Remember: e.Remember, Status: Pending, At: en.At, ExpiresAt: e.ExpiresAt,
	})
	return nil
}

func (e *ApprovalDecided) apply(s *State, en *Entry) error {
	r, err := s.active(e.Run)
	if err != nil {
		return err
	}
	r.Approvals = slices.Clone(r.Approvals)
	a := r.approval(e.Approval)
	if a == nil || a.Status != Pending {
		return diverge("approval", "%s is not pending", e.Approval)
	}
	a.Status, a.DecidedAt, a.By, a.Note = e.Decision, en.At, e.By, e.Note
	if !e.Edited.IsZero() {
		a.Edited = e.Edited.Content()
		c := r.batch().call(a.Call)
		c.Edited = e.Edited
		if e.Control != nil {
			c.Control = e.Control
		}
	}
	return nil
}

func (e *ApprovalRemembered) apply(s *State, en *Entry) error {
	s.Remembered = slices.DeleteFunc(slices.Clone(s.Remembered), func(g Remembered) bool { return g.Tool == e.Tool && g.Definition == e.Definition })
	s.Remembered = append(s.Remembered, Remembered{Tool: e.Tool, Definition: e.Definition, Approval: e.Approval, At: en.At, By: e.By})
	return nil
}

func (e *ApprovalForgotten) apply(s *State, _ *Entry) error {
	s.Remembered = slices.DeleteFunc(slices.Clone(s.Remembered), func(g Remembered) bool { return g.Tool == e.Tool })
	return nil
}

func (s *State) admitForget(c *ForgetRemembered) ([]Event, Reply, error) {
	if s.Status == Closed {
		return nil, Reply{}, closed()
	}
	if !slices.ContainsFunc(s.Remembered, func(g Remembered) bool { return g.Tool == c.Tool }) {
		return nil, Reply{}, rejectf(CodeNotFound, "no approval of %q is remembered in this session", blob.Cut(c.Tool, 80))
	}
	return []Event{&ApprovalForgotten{Tool: c.Tool, Who: c.who()}}, Reply{}, nil
}

// gateWhy says why a person must be asked about a call, or nothing.
func (s *State) gateWhy(r *Run, c *Call) string {
	if r.repeatsUnknown(c) {
		// Whatever the policy says: the first one may have happened.
		return WhyRepeat
	}
	if d := s.Toolset.Find(c.Tool); d != nil && d.Gate.Ask {
		return WhyTool
	}
	return ""
}

// repeatsUnknown says that the call is one whose outcome nobody knows, again.
func (r *Run) repeatsUnknown(c *Call) bool {
	return slices.ContainsFunc(r.Unknowns, func(u Repeat) bool { return u.Tool == c.Tool && u.Arguments == c.effective().Content() })
}

// asksAgain says why an approved call must be asked about once more: what was
// approved is not what would run (row 9), or meanwhile a call like it came to
// an unknown end (row 5).
func (r *Run) asksAgain(c *Call, d *ToolDef) string {
	a := r.approval(c.Approval)
	switch {
	case a == nil:
		return ""
	case a.Why != WhyRepeat && r.repeatsUnknown(c):
		return WhyRepeat
	case a.Definition != d.Definition:
		return a.Why
	}
	return ""
}

// askApprovals asks about each call that may not run without a person's word,
// all at once: decisions may come in any order.
func (s *State) askApprovals(r *Run, now ident.Instant, ids *Cursors) []Event {
	var ev []Event
	for i := range r.Batch.Calls {
		c := &r.Batch.Calls[i]
		if c.Status != CallCalled || c.Approval != 0 {
			continue
		}
		why := s.gateWhy(r, c)
		if why == "" {
			continue
		}
		d := s.Toolset.Find(c.Tool)
		if d == nil {
			continue
		}
		a := s.ask(r, c, why, d, now, ids)
		ev = append(ev, a)
		for _, g := range s.Remembered {
			if why == WhyTool && g.Tool == c.Tool && g.Definition == d.Definition {
				ev = append(ev, &ApprovalDecided{Approval: a.Approval, Run: r.ID, Decision: Approved, Decided: ByRemembered, Who: Who{By: g.By, Via: ActorSystem}})
				break
			}
		}
	}
	return ev
}

func (s *State) ask(r *Run, c *Call, why string, d *ToolDef, now ident.Instant, ids *Cursors) *ApprovalRequested {
	ids.Approval++
	a := &ApprovalRequested{
		Approval: ids.Approval, Run: r.ID, Turn: r.Batch.Turn, Call: c.Index, Why: why, Definition: d.Definition,
		Arguments: c.Arguments.Content(), Role: d.Gate.Role, Remember: d.Gate.Remember && why == WhyTool,
	}
	if d.Gate.TTLMs > 0 {
		a.ExpiresAt = now.Add(d.Gate.TTLMs)
	}
	return a
}

// admitDecisions decides each approval alone. What is refused is said per
// approval; the command itself is refused only when it is malformed.
func (s *State) admitDecisions(c *DecideApprovals, env Env) ([]Event, Reply, error) {
	if done, reply, err := c.prior(); done {
		for _, d := range c.Decisions {
			reply.Decisions = append(reply.Decisions, s.repeated(d))
		}
		return nil, reply, err
	}
	n := len(c.Decisions)
	if n == 0 {
		return nil, Reply{}, reject(CodeValidation, "there is no decision")
	}
	if n > ApprovalsMax {
		return nil, Reply{}, bound("decisions", int64(n), ApprovalsMax)
	}
	var ev []Event
	var reply Reply
	var seen []ident.ApprovalID
	for _, d := range c.Decisions {
		out := DecisionReply{Approval: d.Approval}
		if slices.Contains(seen, d.Approval) {
			out.Refused = reject(CodeInvalid, d.Approval.String()+" is there twice")
		} else {
			seen = append(seen, d.Approval)
			var e []Event
			e, out = s.decide(c, d, env)
			if len(e) > 0 && len(ev) == 0 {
				e[0].(*ApprovalDecided).Submission = c.Submission //nolint:forcetypeassert // decide puts it first
			}
			ev = append(ev, e...)
		}
		reply.Decisions = append(reply.Decisions, out)
	}
	reply.Same = len(ev) == 0
	if s.Active != nil {
		reply.Run = s.Active.ID
	}
	return ev, reply, nil
}

// repeated answers a decision of a repeated command with what is so now.
func (s *State) repeated(d Decision) DecisionReply {
	if r := s.Active; r != nil {
		if a := r.approval(d.Approval); a != nil {
			return DecisionReply{Approval: d.Approval, Status: a.Status}
		}
	}
	if d.Settled != nil {
		return DecisionReply{Approval: d.Approval, Status: d.Settled.Status}
	}
	return DecisionReply{Approval: d.Approval, Status: Pending}
}

func (s *State) decide(c *DecideApprovals, d Decision, env Env) ([]Event, DecisionReply) {
	out := DecisionReply{Approval: d.Approval}
	r := s.Active
	var a *Approval
	if r != nil && (c.Run == 0 || c.Run == r.ID) {
		a = r.approval(d.Approval)
	}
	if a == nil && d.Settled != nil && (c.Run == 0 || c.Run == d.Settled.Run) {
		a = &Approval{ID: d.Approval, Status: d.Settled.Status, By: d.Settled.By, DecidedAt: d.Settled.At, Edited: d.Settled.Edited}
	}
	if a == nil {
		out.Refused = rejectf(CodeNotFound, "there is no %s here", d.Approval)
		return nil, out
	}
	out.Status = a.Status
	if out.Refused = s.refuse(c, d, a, env.At); out.Refused != nil || a.Status != Pending {
		return nil, out
	}
	e := &ApprovalDecided{Approval: a.ID, Run: r.ID, Decision: Rejected, Decided: ByPerson, Note: d.Note, Who: c.who()}
	ev := []Event{e}
	if d.Approve {
		e.Decision = Approved
		tool := r.Batch.call(a.Call).Tool
		if d.Edited != nil {
			if problem := s.controlProblem(tool, d.EditControl); problem != "" {
				out.Refused = reject(CodeValidation, "the edited arguments are not valid: "+problem)
				return nil, out
			}
			e.Edited, e.Control = *d.Edited, d.EditControl
		}
		if d.Remember {
			ev = append(ev, &ApprovalRemembered{Tool: tool, Definition: a.Definition, Approval: a.ID, Who: c.who()})
		}
	}
	out.Status = e.Decision
	return ev, out
}

// refuse says why a decision cannot be taken; nil for a pending approval means
// that it can, and for a decided one that it was the same.
func (s *State) refuse(c *DecideApprovals, d Decision, a *Approval, now ident.Instant) *Rejection {
	switch {
	case len(d.Note) > NoteMax:
		return bound("note bytes", int64(len(d.Note)), NoteMax)
	case a.Role != "" && !slices.Contains(c.Actor.Roles, a.Role):
		return rejectf(CodeForbidden, "%s needs the role %s", d.Approval, a.Role)
	}
	var edited blob.Ref
	if d.Edited != nil {
		edited = d.Edited.Content()
	}
	want := Rejected
	if d.Approve {
		want = Approved
	}
	switch {
	case a.Status == want && a.Edited == edited:
		return nil
	case a.Status == Expired, a.Status == Pending && a.ExpiresAt != 0 && now >= a.ExpiresAt:
		return reject(CodeExpired, "the time to decide has passed; the call did not run")
	case a.Status != Pending:
		r := rejectf(CodeAlreadyDecided, "%s is %s already, by %s at %s", d.Approval, a.Status, a.By, strconv.FormatInt(int64(a.DecidedAt), 10))
		r.Decision = &Decided{Status: a.Status, By: a.By, At: a.DecidedAt}
		return r
	case s.Active.Ending != nil:
		return reject(CodeRunNotActive, "the run is being cancelled")
	case !d.Approve && (d.Edited != nil || d.Remember):
		return reject(CodeValidation, "only an approval can edit or be remembered")
	case d.Edited != nil && d.EditProblem != "":
		return reject(CodeValidation, "the edited arguments are not valid: "+d.EditProblem)
	case d.Remember && d.Edited != nil:
		return reject(CodeValidation, "an edited approval cannot be remembered")
	case d.Remember && !a.Remember:
		return reject(CodeValidation, "the policy does not let this approval be remembered")
	case d.Remember && len(s.Remembered) >= RememberedMax:
		return bound("remembered approvals", int64(len(s.Remembered)), RememberedMax)
	}
	return nil
}
