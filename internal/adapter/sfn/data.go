package sfn

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/internal/host"
)

// Version is the version of machine data that this build writes. It is raised
// one release after the next one can be read, because an execution lives for
// weeks and goes through every build on its way.
const Version = 1

// Bounds of machine data. With them the largest is known, whatever a session
// holds; a test computes it.
const (
	// DataBytesMax is what machine data stays under.
	DataBytesMax = 4 << 10
	// callsMax is how many calls of a session run at once.
	callsMax = session.InFlightMax
	// numberMax is the largest integer that a state machine keeps: its numbers
	// are JavaScript's.
	numberMax = 1<<53 - 1
	// waitSecondsMax is the longest wait, 30 days; one without a deadline is
	// looked at after that.
	waitSecondsMax = 30 * 24 * 60 * 60
	// tokenBytesMax is the longest task token.
	tokenBytesMax = 2048
)

// ErrData is wrapped by the error about machine data that this build cannot
// have written. What a newer one wrote is session.ErrNewer instead.
var ErrData = errors.New("bad machine data")

// Data is what moves between the states of the machine: which step of which
// activation comes next, and what it is. Texts, arguments and results stay in
// the session's log.
type Data struct {
	V       int    `json:"v"`
	Tenant  string `json:"tenant"`
	Session string `json:"session"`
	// Inc is the session's incarnation: one that was deleted and made again
	// under the same name has another.
	Inc   string `json:"inc"`
	Epoch uint64 `json:"epoch"`
	// Step is the number of the step to do next.
	Step uint64 `json:"step"`
	// Next is what to do before that, one of the host's words; the input of an
	// execution has none.
	Next  string `json:"next,omitempty"`
	Calls []Call `json:"calls,omitempty"`
	Wait  *Wait  `json:"wait,omitempty"`
}

// Call names one attempt of a tool call.
type Call struct {
	Run     uint64 `json:"run"`
	Call    string `json:"call"`
	Attempt int    `json:"attempt"`
}

// Wait is what a driver planned to wait on, and for how long at most.
type Wait struct {
	Rev     uint64 `json:"rev"`
	Number  uint64 `json:"number"`
	Attempt int    `json:"attempt"`
	Until   int64  `json:"until,omitempty"`
	Seconds int64  `json:"seconds"`
}

// Input is the input of the execution that is an activation: the same bytes for
// the same activation, for ever, because starting it again is harmless only
// with the same input.
func Input(key host.Key, inc string, epoch uint64) ([]byte, error) {
	return seal(Data{
		V: Version, Tenant: string(key.Tenant), Session: string(key.Session), Inc: inc, Epoch: epoch, Step: 1,
	})
}

// Answer is what a slice hands to the machine: what follows from the step.
func Answer(step host.Step, next host.Next, now ident.Instant) ([]byte, error) {
	if next.Do == "" {
		return nil, fmt.Errorf("%w: nothing follows", ErrData)
	}
	d := Data{
		V: Version, Tenant: string(step.Key.Tenant), Session: string(step.Key.Session), Inc: step.Inc,
		Epoch: step.Epoch, Step: next.Number, Next: next.Do,
	}
	switch next.Do {
	case host.NextTools:
		for _, c := range next.Calls {
			d.Calls = append(d.Calls, Call{Run: uint64(c.Run), Call: c.Call.String(), Attempt: c.Attempt})
		}
	case host.NextWait:
		w := next.Wait
		d.Wait = &Wait{Rev: w.Rev, Number: w.Number, Attempt: w.Attempt, Until: int64(w.Until), Seconds: waitSeconds(w.Until, now)}
	case host.NextDone:
		// Nobody asks for another step; the number says which was the last.
		d.Step = max(d.Step, step.Number)
	}
	return seal(d)
}

// waitSeconds is how long the machine waits for a deadline: to the first full
// second after it, so that whoever then looks finds it passed.
func waitSeconds(until, now ident.Instant) int64 {
	if until == 0 {
		return waitSecondsMax
	}
	left := int64(until - now)
	return min(max((left+999)/1000+1, 1), waitSecondsMax)
}

func seal(d Data) ([]byte, error) {
	if err := d.check(); err != nil {
		return nil, err
	}
	raw, err := json.Marshal(d)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrData, err)
	}
	return raw, nil
}

// Decode reads machine data and holds it to its bounds.
func Decode(raw []byte) (Data, error) {
	var d Data
	if err := decode(raw, &d); err != nil {
		return Data{}, err
	}
	return d, d.check()
}

// decode reads one JSON value with no unknown fields. The version is judged
// before anything else: a newer build's data may well look broken to this one.
func decode(raw []byte, into any) error {
	var said struct {
		V    int `json:"v"`
		Data struct {
			V int `json:"v"`
		} `json:"data"`
	}
	if err := json.Unmarshal(raw, &said); err != nil {
		return fmt.Errorf("%w: %w", ErrData, err)
	}
	if v := max(said.V, said.Data.V); v > Version {
		return fmt.Errorf("%w: machine data of version %d, this build knows up to %d; deploy the newer build again, or wait for it", session.ErrNewer, v, Version)
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return fmt.Errorf("%w: %w", ErrData, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: something follows it", ErrData)
	}
	return nil
}

func (d *Data) check() error {
	if d.V != Version {
		return fmt.Errorf("%w: version %d", ErrData, d.V)
	}
	if err := checkName(d.Tenant, d.Session, d.Inc, d.Epoch); err != nil {
		return err
	}
	if err := number("step", d.Step); err != nil {
		return err
	}
	if (d.Next == host.NextTools) != (len(d.Calls) > 0) || (d.Next == host.NextWait) != (d.Wait != nil) {
		return fmt.Errorf("%w: next is %q with %d calls, wait given is %t", ErrData, d.Next, len(d.Calls), d.Wait != nil)
	}
	switch d.Next {
	case "", host.NextAgain, host.NextDone:
		return nil
	case host.NextTools:
		if len(d.Calls) > callsMax {
			return fmt.Errorf("%w: %d calls, allowed are %d", ErrData, len(d.Calls), callsMax)
		}
		for i := range d.Calls {
			if _, err := d.Calls[i].ref(); err != nil {
				return err
			}
		}
		return nil
	case host.NextWait:
		return d.Wait.check()
	}
	return fmt.Errorf("%w: next is %q", ErrData, clip(d.Next))
}

func checkName(tenant, name, inc string, epoch uint64) error {
	if _, err := ident.ParseTenantID(tenant); err != nil {
		return fmt.Errorf("%w: %w", ErrData, err)
	}
	if _, err := ident.ParseSessionID(name); err != nil {
		return fmt.Errorf("%w: %w", ErrData, err)
	}
	if err := number("epoch", epoch); err != nil {
		return err
	}
	if _, err := ExecutionName(inc, epoch); err != nil {
		return err
	}
	return nil
}

func (w *Wait) check() error {
	for _, f := range []struct {
		what string
		n    uint64
	}{{"wait.rev", w.Rev}, {"wait.number", w.Number}} {
		if err := number(f.what, f.n); err != nil {
			return err
		}
	}
	if err := attempt(w.Attempt); err != nil {
		return err
	}
	if w.Until < 0 || w.Until > numberMax {
		return fmt.Errorf("%w: wait.until is %d", ErrData, w.Until)
	}
	if w.Seconds < 1 || w.Seconds > waitSecondsMax {
		return fmt.Errorf("%w: wait.seconds is %d, allowed are 1 to %d", ErrData, w.Seconds, waitSecondsMax)
	}
	return nil
}

func (c Call) ref() (host.CallRef, error) {
	if err := number("run", c.Run); err != nil {
		return host.CallRef{}, err
	}
	if err := attempt(c.Attempt); err != nil {
		return host.CallRef{}, err
	}
	id, err := ident.ParseCallID(c.Call)
	if err != nil {
		return host.CallRef{}, fmt.Errorf("%w: %w", ErrData, err)
	}
	if err := number("turn", uint64(id.Turn)); err != nil {
		return host.CallRef{}, err
	}
	return host.CallRef{Run: ident.RunID(c.Run), Call: id, Attempt: c.Attempt}, nil
}

func (w *Wait) plan() host.Wait {
	return host.Wait{Rev: w.Rev, Number: w.Number, Attempt: w.Attempt, Until: ident.Instant(w.Until)}
}

func number(what string, n uint64) error {
	if n < 1 || n > numberMax {
		return fmt.Errorf("%w: %s is %d, allowed are 1 to 2^53-1", ErrData, what, n)
	}
	return nil
}

// attemptMax is far beyond what a step or a call may be tried.
const attemptMax = 1 << 20

func attempt(n int) error {
	if n < 1 || n > attemptMax {
		return fmt.Errorf("%w: attempt is %d, allowed are 1 to %d", ErrData, n, attemptMax)
	}
	return nil
}

// clip keeps what somebody sent short enough for a message.
func clip(s string) string {
	const most = 40
	if len(s) <= most {
		return s
	}
	return s[:most] + "…"
}
