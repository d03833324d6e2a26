package host

import (
	"context"
	"errors"
	"strings"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/session"
)

// runTool performs one attempt of a call.
func (p *performance) runTool(ctx context.Context, eff *session.RunTool) *outcome {
	out := &session.ToolOutcome{Call: eff.Call, Attempt: eff.Attempt}
	var sp Spill
	if wait := int64(eff.NotBefore - p.began); wait > 0 {
		if p.e.d.Sched.Sleep(ctx, wait) != nil {
			return p.stopped(out, false)
		}
		p.began = p.e.Now()
	}
	call, err := p.toolCall(ctx, eff)
	if err != nil {
		if ctx.Err() != nil {
			return p.stopped(out, false)
		}
		out.Fault = &session.FaultInfo{Class: ClassServer, Message: "the arguments could not be read", NotSent: true}
		return &outcome{Prepared: sp.Prepare(out)}
	}
	// The world may have changed since the call was screened: existence, role
	// and schema are checked once more, and a refusal is a result.
	c, _ := p.call(eff.Call)
	if sc := p.screen(ctx, call.Actor, c.WireName, call.Arguments); sc.Verdict != session.VerdictOK {
		out.Refused = sc.Verdict
		sp.Text(&out.Text, sc.Problem)
		return &outcome{Prepared: sp.Prepare(out)}
	}
	if changed, err := p.changed(ctx, c); changed || err != nil {
		if err != nil {
			out.Fault = &session.FaultInfo{Class: ClassServer, Message: "the tools could not be listed", NotSent: true}
			return &outcome{Prepared: sp.Prepare(out)}
		}
		out.Refused = session.VerdictInvalid
		sp.Text(&out.Text, textChanged)
		return &outcome{Prepared: sp.Prepare(out)}
	}
	res, err := p.e.d.Tools.Run(ctx, call)
	out.DurationMs = max(int64(p.e.Now()-p.began), 0)
	if err != nil {
		return p.toolFailed(ctx, out, err)
	}
	p.answer(out, res, &sp)
	return &outcome{Prepared: sp.Prepare(out)}
}

const textChanged = "Not run: the tool was changed after a person had approved this call. Ask for it again if it is still wanted."

// changed says that an approved call would now meet another definition of its
// tool than the one that was approved (I7). The driver looks at that before it
// starts a call; this is the moment between.
func (p *performance) changed(ctx context.Context, c *session.Call) (bool, error) {
	if c.Approval == 0 {
		return false, nil
	}
	tools, err := p.e.d.Tools.Offer(ctx, p.key, p.s.Config)
	if err != nil {
		return false, err
	}
	for _, a := range p.s.Active.Approvals {
		if a.ID != c.Approval {
			continue
		}
		for i := range tools {
			if tools[i].Def.Name == c.Tool {
				return tools[i].Def.Definition != a.Definition, nil
			}
		}
	}
	return false, nil
}

// stopped is an attempt that was told to stop. When this process goes down it
// is said of what can be done again, or has not reached the tool, that it may
// start anew; of the rest nothing: the next start finds it in flight, and
// decides.
func (p *performance) stopped(out *session.ToolOutcome, sent bool) *outcome {
	if !p.e.stopping.Load() {
		out.Aborted = true
		return &outcome{Prepared: Prepared{Command: out}}
	}
	_, def := p.call(out.Call)
	if sent && (def == nil || !def.RetrySafe) || out.Lookup {
		return &outcome{Prepared: Prepared{Command: &session.Wake{}}}
	}
	out.Fault = &session.FaultInfo{Class: ClassStopped, Message: "the process is going down", NotSent: !sent}
	return &outcome{Prepared: Prepared{Command: out}}
}

func (p *performance) toolFailed(ctx context.Context, out *session.ToolOutcome, err error) *outcome {
	if ctx.Err() != nil && (!p.late.Load() || p.e.stopping.Load()) {
		return p.stopped(out, true)
	}
	out.Fault, _ = p.fault(ctx, err)
	if out.Fault == nil {
		out.Fault = &session.FaultInfo{Class: ClassTimeout, Message: "the tool did not answer within the time allowed"}
	}
	var f *Fault
	if !errors.As(err, &f) && out.Fault.Class == ClassOther {
		// Not a fault that the tool classified: what happened is not known.
		out.Fault.Class = ClassNetwork
	}
	return &outcome{Prepared: Prepared{Command: out}}
}

// answer takes a result over. The model reads at most ToolTextMax of it; the
// whole stays behind the reference.
func (p *performance) answer(out *session.ToolOutcome, res ToolResult, sp *Spill) {
	out.Error, out.Accepted = res.Error, res.Accepted
	out.OutputBytes = int64(len(res.Text))
	out.Truncated = len(res.Text) > session.ToolTextMax
	text := res.Text
	if res.Error {
		text = blob.Cut(text, session.ErrorTextMax)
	}
	sp.Text(&out.Text, text)
	for _, ef := range res.Effects {
		if len(out.Effects) == session.EffectsMax {
			break
		}
		out.Effects = append(out.Effects, session.ToolEffect{
			Kind: blob.Cut(ef.Kind, 64), Subject: blob.Cut(ef.Subject, 512), Detail: blob.Cut(ef.Detail, 512),
		})
	}
}

func (p *performance) toolCall(ctx context.Context, eff *session.RunTool) (ToolCall, error) {
	c, _ := p.call(eff.Call)
	if c == nil {
		return ToolCall{}, ErrNotFound
	}
	payload := c.Arguments
	if !c.Edited.IsZero() {
		payload = c.Edited
	}
	args, err := p.e.resolve(ctx, p.key, payload)
	if err != nil {
		return ToolCall{}, err
	}
	call := ToolCall{
		Key: p.key, Run: eff.Run, Call: eff.Call, Tool: c.Tool, Actor: p.s.Active.Actor, Operation: operation(p.key, p.s.Inc, eff.Call),
		Attempt: eff.Attempt, Arguments: args, Deadline: p.deadline(eff), Workspaces: p.s.Config.Workspaces, Options: options(p.s.Config.Tools, c.Tool),
	}
	if c.Promise != 0 {
		call.Token = p.e.d.Keys.Token(p.key, p.s.Inc, c.Promise)
	}
	return call, nil
}

// options are those of the grant that names the tool best.
func options(grants []session.ToolGrant, tool string) string {
	best, opts := -1, ""
	for _, g := range grants {
		prefix, wild := strings.CutSuffix(g.Name, "*")
		if g.Name == tool && len(tool)+1 > best {
			best, opts = len(tool)+1, g.Options
		} else if wild && strings.HasPrefix(tool, prefix) && len(prefix) > best {
			best, opts = len(prefix), g.Options
		}
	}
	return opts
}

// lookup asks a tool what became of a call that ended without a word.
func (p *performance) lookup(ctx context.Context, eff *session.LookupTool) *outcome {
	out := &session.ToolOutcome{Call: eff.Call, Attempt: eff.Attempt, Lookup: true}
	var sp Spill
	call, err := p.toolCall(ctx, &session.RunTool{Run: eff.Run, Call: eff.Call, Attempt: eff.Attempt})
	if err == nil {
		var res ToolResult
		if res, out.Found, err = p.e.d.Tools.Lookup(ctx, call); err == nil && out.Found {
			p.answer(out, res, &sp)
		}
	}
	if err != nil {
		if ctx.Err() != nil && p.e.stopping.Load() {
			return p.stopped(out, true)
		}
		// Whoever could have told did not: that is not knowing.
		out.Found = false
	}
	return &outcome{Prepared: sp.Prepare(out)}
}
