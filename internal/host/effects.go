package host

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"unicode/utf8"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/session"
)

// performance is one effect being done, outside the session's task. It works
// on a copy of the state that claimed it, and hands its end to the mailbox.
type performance struct {
	e     *Engine
	key   Key
	s     session.State
	offer offerCache
	late  *atomic.Bool
	began ident.Instant
	rev   uint64 // of the head that was last looked at, by who performs it aside
	// rendered is the window as turns before have rendered it.
	rendered *rendering
}

// deadline is when an attempt is cut off, by the clock of this process.
func (p *performance) deadline(eff session.Effect) ident.Instant {
	now := p.began
	switch eff := eff.(type) {
	case *session.CallModel, *session.Compact:
		return now.Add(p.e.o.ModelMs)
	case *session.RunTool:
		ms := p.e.o.ToolMs
		if c, def := p.call(eff.Call); c != nil && def != nil && def.Class == session.ClassInline && def.DeadlineMs > 0 {
			ms = def.DeadlineMs
		}
		return max(now, eff.NotBefore).Add(ms)
	}
	return now.Add(p.e.o.ToolMs)
}

// call finds a call of the open batch and the tool's definition as it was
// published.
func (p *performance) call(id ident.CallID) (*session.Call, *session.ToolDef) {
	r := p.s.Active
	if r == nil || r.Batch == nil || r.Batch.Turn != id.Turn || id.Index > len(r.Batch.Calls) {
		return nil, nil
	}
	c := &r.Batch.Calls[id.Index-1]
	return c, p.s.Toolset.Find(c.Tool)
}

// perform does an effect and says how it ended. A panic of a model port or a
// tool is that effect's failure, not the end of the process and of every other
// session in it.
func (p *performance) perform(ctx context.Context, eff session.Effect) (o *outcome) {
	defer func() {
		if err := caught(recover()); err != nil {
			claim := eff.Claim()
			p.e.d.Report(p.key, claim.String(), err)
			p.rendered = nil // it may be half done
			o = lost(&p.s, claim, &session.FaultInfo{Class: ClassOther, Message: "the call failed unexpectedly on this side; it may have been answered"})
		}
	}()
	switch eff := eff.(type) {
	case *session.CallModel:
		return p.callModel(ctx, eff)
	case *session.RunTool:
		return p.runTool(ctx, eff)
	case *session.LookupTool:
		return p.lookup(ctx, eff)
	case *session.Compact:
		return p.compact(ctx, eff)
	}
	return nil
}

// stream gathers what reaches the stream, so that an aborted call leaves its
// text behind.
type stream struct {
	text    strings.Builder
	offsets map[string]int64
	publish func(Frame)
	frame   Frame
}

// frameMax is how many bytes one live piece carries.
const frameMax = 8 << 10

func (st *stream) sink(dl Delta) {
	if dl.Part == "text" {
		st.text.WriteString(dl.Text)
	}
	if st.publish == nil {
		return
	}
	key := dl.Part + uitoa(uint64(max(dl.Call, 0)))
	rest := dl.Text
	for {
		f := st.frame
		f.Delta, f.Offset = dl, st.offsets[key]
		f.Text = rest
		if len(rest) > frameMax {
			n := frameMax
			for n > frameMax-utf8.UTFMax && !utf8.RuneStart(rest[n]) {
				n--
			}
			f.Text = rest[:n]
		}
		rest = rest[len(f.Text):]
		st.offsets[key] += int64(len(f.Text))
		st.publish(f)
		if rest == "" {
			return
		}
	}
}

func (p *performance) newStream(f Frame) *stream {
	st := &stream{frame: f, offsets: map[string]int64{}}
	if p.e.d.Frames != nil {
		st.publish = func(f Frame) { p.e.d.Frames.PublishFrame(p.key, f) }
	}
	return st
}

func (p *performance) callModel(ctx context.Context, eff *session.CallModel) *outcome {
	out := &session.ModelOutcome{Turn: eff.Turn, Attempt: eff.Attempt}
	st := p.newStream(Frame{Run: eff.Run, Turn: eff.Turn, Attempt: eff.Attempt})
	var sp Spill
	res, info, err := p.generate(ctx, eff, st)
	out.DurationMs = max(int64(p.e.Now()-p.began), 0)
	if err != nil {
		out.Fault, out.Aborted = p.fault(ctx, err)
		out.Usage = usageOf(err)
		if out.Aborted {
			sp.Text(&out.Text, st.text.String())
		}
		if out.Usage.IsZero() && ctx.Err() != nil {
			// Cut off on this side, it is paid for all the same.
			out.Usage = session.Usage{Input: p.s.Active.Turn.Estimate, Output: tokens(st.text.Len()), Estimated: true}
		}
		out.Usage = price(out.Usage, info)
		return &outcome{Prepared: sp.Prepare(out)}
	}
	sp.Text(&out.Text, res.Text)
	out.Finish, out.Model, out.ResponseID = blob.Cut(res.Finish, 64), blob.Cut(res.Model, 200), blob.Cut(res.ResponseID, 200)
	out.Usage = price(res.Usage, info)
	if res.Item != nil {
		out.Item = &session.Item{Kind: res.Item.Kind, Family: res.Item.Family}
		sp.Text(&out.Item.Data, res.Item.Data)
	}
	out.Calls = make([]session.ProposedCall, len(res.Calls))
	for i, c := range res.Calls {
		sc := p.screen(ctx, p.s.Active.Actor, c.Name, c.Arguments)
		tool := sc.Tool
		if tool == "" {
			tool = blob.Cut(c.Name, 128)
		}
		out.Calls[i] = session.ProposedCall{
			ProviderID: blob.Cut(c.ID, 200), Tool: tool, WireName: blob.Cut(c.Name, 128),
			Verdict: sc.Verdict, Problem: blob.Cut(sc.Problem, blob.InlineMax), Control: sc.Control,
		}
		sp.Text(&out.Calls[i].Arguments, c.Arguments)
	}
	return &outcome{Prepared: sp.Prepare(out)}
}

func (p *performance) generate(ctx context.Context, eff *session.CallModel, st *stream) (ModelResult, ModelInfo, error) {
	m := p.s.Active.Turn.Model
	port, err := p.e.d.Models.Model(ctx, p.key.Tenant, m)
	if err != nil {
		return ModelResult{}, ModelInfo{}, noProvider(m, err)
	}
	info := port.Info(m)
	defs, err := p.e.definitions(ctx, p.key, p.s.Toolset.Ref, p.offer)
	if err != nil {
		return ModelResult{}, info, local(err)
	}
	req, err := p.render(ctx, m, info, defs)
	if err != nil {
		return ModelResult{}, info, local(err)
	}
	req.Attempt = eff.Run.String() + "/" + eff.Turn.String() + "/" + uitoa(uint64(eff.Attempt))
	req.NoTools = p.s.Active.Turn.Closing
	res, err := port.Generate(ctx, req, st.sink)
	return res, info, err
}

// screen judges a call. What the model has answered must not be lost to a bug
// in the judging.
func (p *performance) screen(ctx context.Context, actor session.Actor, name, arguments string) (sc Screened) {
	defer func() {
		if err := caught(recover()); err != nil {
			p.e.d.Report(p.key, "screen "+blob.Cut(name, 128), err)
			sc = Screened{Verdict: session.VerdictUnavailable, Problem: "the call could not be checked"}
		}
	}()
	return p.e.d.Tools.Screen(ctx, p.key, actor, p.s.Toolset.Tools, name, arguments)
}

// noProvider is the fault of a provider that the tenant does not have, or that
// cannot be looked up now: only the second is worth another try.
func noProvider(m session.Model, err error) error {
	if _, ok := errors.AsType[*Fault](err); ok {
		return err
	}
	name := blob.Cut(m.Provider, 80)
	if errors.Is(err, ErrNotFound) {
		return &Fault{Class: ClassNotFound, Message: "the model provider " + name + " is not set up on this server: " + err.Error(), Err: err}
	}
	return &Fault{Class: ClassServer, Message: "the model provider " + name + " could not be looked up: " + err.Error(), Err: err}
}

// local is a fault of this side: worth another try, unless what the request
// needs is not there.
func local(err error) error {
	if errors.Is(err, ErrNotFound) {
		return &Fault{Class: ClassOther, Message: "content that the request needs is missing from the session's store", Err: err}
	}
	return &Fault{Class: ClassServer, Message: "the request could not be built", Err: err}
}

// fault says what an error of an effect is to the core: a fault with a class,
// or an abort on purpose.
func (p *performance) fault(ctx context.Context, err error) (*session.FaultInfo, bool) {
	if ctx.Err() != nil {
		if p.late.Load() {
			return &session.FaultInfo{Class: ClassTimeout, Message: "no answer within the time allowed"}, false
		}
		return nil, true
	}
	var f *Fault
	switch {
	case errors.As(err, &f):
		return &session.FaultInfo{
			Class: blob.Cut(f.Class, 64), Message: blob.Cut(f.Message, 2000), RetryAfterMs: max(f.RetryAfterMs, 0), NotSent: !f.Sent,
		}, false
	case errors.Is(err, context.DeadlineExceeded):
		// A deadline of the port's own.
		return &session.FaultInfo{Class: ClassTimeout, Message: blob.Cut(err.Error(), 2000)}, false
	}
	return &session.FaultInfo{Class: ClassOther, Message: blob.Cut(err.Error(), 2000)}, false
}

func usageOf(err error) session.Usage {
	if f, ok := errors.AsType[*Fault](err); ok {
		return f.Usage
	}
	return session.Usage{}
}

func tokens(bytes int) int64 { return int64(bytes+3) / 4 }

// price puts a cost on usage where the model has prices and the provider named
// none: each kind of token at its own rate.
func price(u session.Usage, info ModelInfo) session.Usage {
	if u.Priced || !info.Priced || u.IsZero() {
		return u
	}
	rate := func(r int64) int64 {
		if r == 0 {
			return info.InputPrice
		}
		return r
	}
	fresh := max(u.Input-u.CacheRead-u.CacheWrite, 0)
	sum := fresh*info.InputPrice + u.CacheRead*rate(info.CacheReadPrice) + u.CacheWrite*rate(info.CacheWritePrice) + u.Output*info.OutputPrice
	u.CostMicros, u.Priced = (sum+999_999)/1_000_000, true
	return u
}
