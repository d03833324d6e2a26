package sfn

import (
	"fmt"
	"time"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/host"
)

// driveEvent is what the states Model and Recover send to the function drive.
type driveEvent struct {
	Data    Data      `json:"data"`
	Began   time.Time `json:"began"`
	Recover bool      `json:"recover,omitempty"`
}

// DriveEvent reads the event of the function drive: the step that it is to do.
// When the process is cut off is for the function to add.
func DriveEvent(raw []byte) (host.Step, error) {
	var e driveEvent
	if err := decode(raw, &e); err != nil {
		return host.Step{}, err
	}
	if err := e.Data.check(); err != nil {
		return host.Step{}, err
	}
	if e.Began.IsZero() {
		return host.Step{}, fmt.Errorf("%w: began is missing", ErrData)
	}
	step := e.Data.stepOf()
	step.Began, step.Recover = ident.Instant(e.Began.UnixMilli()), e.Recover
	return step, nil
}

// Parking is what the function park is to do: register the token of an
// activation that waits, if the plan still holds.
type Parking struct {
	Key   host.Key
	Inc   string
	Epoch uint64
	Wait  host.Wait
	Token string
}

// parkEvent is what the state Wait sends to the function park.
type parkEvent struct {
	Data  Data   `json:"data"`
	Token string `json:"token"`
}

// ParkEvent reads the event of the function park.
func ParkEvent(raw []byte) (Parking, error) {
	var e parkEvent
	if err := decode(raw, &e); err != nil {
		return Parking{}, err
	}
	if err := e.Data.check(); err != nil {
		return Parking{}, err
	}
	if e.Data.Wait == nil {
		return Parking{}, fmt.Errorf("%w: next is %q and not %q", ErrData, e.Data.Next, host.NextWait)
	}
	if len(e.Token) < 1 || len(e.Token) > tokenBytesMax {
		return Parking{}, fmt.Errorf("%w: the token has %d bytes, allowed are 1 to %d", ErrData, len(e.Token), tokenBytesMax)
	}
	step := e.Data.stepOf()
	return Parking{Key: step.Key, Inc: step.Inc, Epoch: step.Epoch, Wait: e.Data.Wait.plan(), Token: e.Token}, nil
}

// toolEvent is what an item of the state Tools sends to the function tool.
type toolEvent struct {
	V       int    `json:"v"`
	Tenant  string `json:"tenant"`
	Session string `json:"session"`
	Inc     string `json:"inc"`
	Epoch   uint64 `json:"epoch"`
	Step    uint64 `json:"step"`
	Call    Call   `json:"call"`
}

// ToolEvent reads the event of the function tool: one call, and the step after
// the one that claimed it.
func ToolEvent(raw []byte) (host.Step, host.CallRef, error) {
	var e toolEvent
	if err := decode(raw, &e); err != nil {
		return host.Step{}, host.CallRef{}, err
	}
	d := Data{V: e.V, Tenant: e.Tenant, Session: e.Session, Inc: e.Inc, Epoch: e.Epoch, Step: e.Step}
	if err := d.check(); err != nil {
		return host.Step{}, host.CallRef{}, err
	}
	ref, err := e.Call.ref()
	if err != nil {
		return host.Step{}, host.CallRef{}, err
	}
	return d.stepOf(), ref, nil
}

func (d *Data) stepOf() host.Step {
	return host.Step{
		Key: host.Key{Tenant: ident.TenantID(d.Tenant), Session: ident.SessionID(d.Session)},
		Inc: d.Inc, Epoch: d.Epoch, Number: d.Step,
	}
}
