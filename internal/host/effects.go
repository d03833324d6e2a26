package host

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"

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
	// rendered is the window as turns before have rendered it.
	rendered *rendering
}

// start performs an effect. Its claim is durable.
func (d *driver) start(ctx context.Context, eff session.Effect) {
	p := &performance{e: d.e, key: d.key, s: d.m.State(), offer: d.offer, late: new(atomic.Bool), began: d.e.Now()}
	fctx, cancel := context.WithCancel(ctx)
	claim := eff.Claim()
	if claim.Kind == session.ClaimModel {
		p.rendered, d.rendered = d.rendered, nil
	}
	d.flights = append(d.flights, &flight{claim: claim, cancel: cancel, by: p.deadline(eff), late: p.late})
	inbox := d.inbox
	d.e.d.Sched.Go(fctx, claim.String(), func(ctx context.Context) {
		o := p.perform(ctx, eff)
		if o == nil {
			return
		}
		o.claim, o.rendered = claim, p.rendered
		inbox.put(message{outcome: o})
	})
}

// abort tells an effect that nobody waits for its whole result.
func (d *driver) abort(c session.Claim) {
	for _, f := range d.flights {
		if f.claim == c {
			f.cancel()
		}
	}
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

func (p *performance) perform(ctx context.Context, eff session.Effect) *outcome {
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

func (st *stream) sink(dl Delta) {
	if dl.Part == "text" {
		st.text.WriteString(dl.Text)
	}
	if st.publish == nil {
		return
	}
	key := dl.Part + uitoa(uint64(max(dl.Call, 0)))
	f := st.frame
	f.Delta, f.Offset = dl, st.offsets[key]
	st.offsets[key] += int64(len(dl.Text))
	st.publish(f)
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
	out.DurationMs = int64(p.e.Now() - p.began)
	if err != nil {
		out.Fault, out.Aborted = p.fault(ctx, err)
		out.Usage = usageOf(err)
		if out.Aborted {
			sp.Text(&out.Text, st.text.String())
			out.Usage = session.Usage{Input: p.s.Active.Turn.Estimate, Output: tokens(st.text.Len()), Estimated: true}
		}
		return &outcome{Prepared: sp.Prepare(out)}
	}
	sp.Text(&out.Text, res.Text)
	out.Finish, out.Model, out.ResponseID = res.Finish, blob.Cut(res.Model, 200), blob.Cut(res.ResponseID, 200)
	out.Usage = price(res.Usage, info)
	if res.Item != nil {
		out.Item = &session.Item{Kind: res.Item.Kind, Family: res.Item.Family}
		sp.Text(&out.Item.Data, res.Item.Data)
	}
	out.Calls = make([]session.ProposedCall, len(res.Calls))
	for i, c := range res.Calls {
		sc := p.e.d.Tools.Screen(ctx, p.key, p.s.Active.Actor, p.s.Toolset.Tools, c.Name, c.Arguments)
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

func noProvider(m session.Model, err error) error {
	var f *Fault
	if errors.As(err, &f) {
		return err
	}
	return &Fault{Class: ClassNotFound, Message: "the model provider " + blob.Cut(m.Provider, 80) + " is not set up on this server: " + err.Error(), Err: err}
}

// local is a fault of this side: worth another try.
func local(err error) error {
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
	if errors.As(err, &f) {
		return &session.FaultInfo{
			Class: f.Class, Message: blob.Cut(f.Message, 2000), RetryAfterMs: f.RetryAfterMs, NotSent: !f.Sent,
		}, false
	}
	return &session.FaultInfo{Class: ClassOther, Message: blob.Cut(err.Error(), 2000)}, false
}

func usageOf(err error) session.Usage {
	var f *Fault
	if errors.As(err, &f) {
		return f.Usage
	}
	return session.Usage{}
}

func tokens(bytes int) int64 { return int64(bytes+3) / 4 }

// price puts a cost on usage where the model has prices and the provider named
// none: each kind of token at its own rate.
func price(u session.Usage, info ModelInfo) session.Usage {
	if u.Priced || !info.Priced {
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
