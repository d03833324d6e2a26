package cloud

import (
	"context"
	"errors"
	"time"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/adapter/sfn"
	"github.com/perdure/perdure/internal/host"
)

// Drive does one slice of an activation's work: the event of the states Model
// and Recover comes in, and the next machine data goes out.
func (f *Function) Drive(ctx context.Context, request string, event []byte) (data []byte, err error) {
	err = f.invoke(ctx, request, func(ctx context.Context, p *parts) error {
		step, err := sfn.DriveEvent(event)
		if err != nil {
			return err
		}
		step.Until = cutOff(ctx, p.sched.Now())
		next, err := p.engine.Drive(ctx, step)
		f.drain(ctx, p)
		if err != nil {
			return err
		}
		data, err = sfn.Answer(step, next, p.sched.Now())
		return err
	})
	return data, err
}

// drainWithin is what ending live frames may take. They are best effort.
const drainWithin = time.Second

func (f *Function) drain(ctx context.Context, p *parts) {
	if p.ports.Drain == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, drainWithin)
	defer cancel()
	if err := p.ports.Drain(ctx); err != nil {
		f.log.WarnContext(ctx, "live frames are left behind, and expire", "error", err)
	}
}

// Park registers the task token of an activation that waits. What it answers
// nobody reads: the state waits for the token.
func (f *Function) Park(ctx context.Context, request string, event []byte) error {
	return f.invoke(ctx, request, func(ctx context.Context, p *parts) error {
		w, err := sfn.ParkEvent(event)
		if err != nil {
			return err
		}
		_, err = p.engine.Park(ctx, w.Key, w.Inc, w.Epoch, w.Wait, w.Token)
		return err
	})
}

// Tool runs one call.
func (f *Function) Tool(ctx context.Context, request string, event []byte) error {
	return f.invoke(ctx, request, func(ctx context.Context, p *parts) error {
		step, call, err := sfn.ToolEvent(event)
		if err != nil {
			return err
		}
		step.Until = cutOff(ctx, p.sched.Now())
		err = p.engine.RunCall(ctx, step, call)
		if rej, ok := errors.AsType[*host.Rejection](err); ok && rej.Code == host.CodeNotFound {
			return nil // the session is gone, and the call with it
		}
		return err
	})
}

const (
	// lastWords is what is left of an invocation's time when its engine is to be
	// done: for the answer to go out.
	lastWords = 2 * ident.Second
	// longest is how long an invocation lasts that does not say how long it may.
	longest = 14 * ident.Minute
)

// cutOff is when the engine must be done.
func cutOff(ctx context.Context, now ident.Instant) ident.Instant {
	until, ok := ctx.Deadline()
	if !ok {
		return now.Add(longest)
	}
	return ident.Instant(until.UnixMilli()) - ident.Instant(lastWords)
}
