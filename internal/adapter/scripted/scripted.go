package scripted

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/internal/host"
)

// Models that there are.
const (
	Demo    = "demo"
	ByParam = "script"
)

// Family of the models. They make no items of their own.
const Family = "scripted"

// inputLimit is what a scripted model takes when nothing says otherwise.
const inputLimit = 128_000

// Config sets a Model up.
type Config struct {
	// Pace is the time between two words of the demo, so that a person can see
	// it think. 0 is none.
	Pace time.Duration
}

// Model is a host.ModelPort with the models Demo and ByParam. It is safe for
// concurrent use.
type Model struct{ pace time.Duration }

var _ host.ModelPort = (*Model)(nil)

// New makes a Model.
func New(cfg Config) *Model { return &Model{pace: cfg.Pace} }

// Info implements host.ModelPort. A scripted model is free, and known to be.
func (m *Model) Info(model session.Model) host.ModelInfo {
	info := host.ModelInfo{InputLimit: inputLimit, Family: Family, Priced: true}
	if model.Model != ByParam {
		return info
	}

	// Params that cannot be read are reported when they are used.
	if p, err := parseParams(model.Params); err == nil {
		if p.InputLimit > 0 {
			info.InputLimit = p.InputLimit
		}

		info.OutputLimit = p.OutputLimit
		info.InputPrice, info.OutputPrice = p.Prices.Input, p.Prices.Output
	}

	return info
}

// Generate implements host.ModelPort.
func (m *Model) Generate(ctx context.Context, req host.ModelRequest, sink func(host.Delta)) (host.ModelResult, error) {
	if err := ctx.Err(); err != nil {
		return host.ModelResult{}, stopped(err)
	}

	if found := Violations(req); len(found) > 0 {
		return host.ModelResult{}, refuse("%s", strings.Join(found, "; "))
	}

	var (
		say  reply
		err  error
		pace time.Duration
	)

	switch req.Model.Model {
	case Demo:
		say, pace = demo(req), m.pace
	case ByParam:
		say, err = byParams(req)
	default:
		err = &host.Fault{
			Class:   host.ClassNotFound,
			Message: fmt.Sprintf("scripted: there is no model %q; there are %q and %q", clip(req.Model.Model, nameBytes), Demo, ByParam),
		}
	}

	if err != nil {
		return host.ModelResult{}, err
	}

	return say.play(ctx, req, pace, sink)
}

// refuse is the fault for a request that a real provider would refuse.
func refuse(format string, args ...any) *host.Fault {
	return &host.Fault{
		Class: host.ClassInvalid, Message: clip("scripted: "+fmt.Sprintf(format, args...), messageBytes), Sent: true,
	}
}

// stopped is the end of a call whose ctx is done: a deadline that has passed is
// a timeout, a cancel is nobody's fault.
func stopped(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return &host.Fault{Class: host.ClassTimeout, Message: "scripted: no whole answer before the deadline of the call", Sent: true, Err: err}
	}

	return err
}
