package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/session"
)

// rowPark holds the token of the activation that is parked.
const rowPark = "park"

// parkedOn is that row.
type parkedOn struct {
	Token string `json:"token"`
}

// duties is how often a start or a wake is tried before it is left to the
// sweep, which is never far: the head says what is owed, and by when. Somebody
// waits meanwhile for an answer that is durable already: a Waker that has tried
// for long is not asked again.
const (
	duties = 3
	dutyMs = 1500
)

// discharge does what a commit of this admission owes: it starts a driver, or
// wakes the one that is parked. A process that dies here loses nothing: the
// head is overdue in a moment, and the sweep does it.
func (d *driver) discharge(ctx context.Context) {
	if !d.duty || d.e.d.Waker == nil {
		return
	}
	d.duty = false
	if err := d.e.call(ctx, d.key, &d.head); err != nil {
		d.e.d.Report(d.key, "wake", err)
	}
}

// call starts or wakes the driver that a head says is owed.
func (e *Engine) call(ctx context.Context, key Key, head *Head) error {
	var err error
	began := e.Now()
	for try := range duties {
		if try > 0 && (int64(e.Now()-began) > dutyMs || e.d.Sched.Sleep(ctx, int64(50)<<(2*try)) != nil) {
			break
		}
		switch head.Drive.Status {
		case DriveStarting:
			if err = e.d.Waker.Start(ctx, key, head.Inc, head.Drive.Epoch); errors.Is(err, ErrEnded) {
				// An activation of this name is over: the next epoch has it.
				_, err = e.supersede(ctx, Step{Key: key, Inc: head.Inc, Epoch: head.Drive.Epoch}, false)
			}
		case DriveWaking:
			if err = e.complete(ctx, key); lostToken(err) {
				// Its wait has just ended by itself, or it is gone: the first finds
				// what is to be done, the second the sweep does.
				err = nil
			}
		default:
			return nil
		}
		if err == nil {
			return nil
		}
	}
	return err
}

// complete completes the token that a session is parked on. ErrTokenLost if
// there is none.
func (e *Engine) complete(ctx context.Context, key Key) error {
	row, err := e.d.Log.Row(ctx, key, rowPark)
	if errors.Is(err, ErrNotFound) {
		return ErrTokenLost
	}
	if err != nil {
		return err
	}
	var p parkedOn
	if err := json.Unmarshal(row.Data, &p); err != nil {
		return err
	}
	return e.d.Waker.Complete(ctx, p.Token)
}

func lostToken(err error) bool {
	return errors.Is(err, ErrTokenDone) || errors.Is(err, ErrTokenTimedOut) || errors.Is(err, ErrTokenLost)
}

// bare is a session's head in hand, for who moves the head alone: what is in
// the log is not read, because it may be what drivers do not survive.
func (e *Engine) bare(ctx context.Context, key Key) (*driver, error) {
	d := newDriver(e, key)
	var err error
	d.head, d.meta, err = e.d.Log.Open(ctx, key)
	if errors.Is(err, ErrNotFound) {
		err = nil
	}
	return d, err
}

// supersede gives an activation up for the next one: rollover, or (lost) because
// its driver did not survive. Too many lost ones freeze the session.
func (e *Engine) supersede(ctx context.Context, st Step, lost bool) (Next, error) {
	for try := 0; ; try++ {
		d, err := e.bare(ctx, st.Key)
		if err != nil {
			return Next{}, unavailable(err)
		}
		if st.foreign(&d.head) {
			return Next{Do: NextDone}, nil
		}
		head := d.head
		if lost {
			head.Failures++
		}
		if head.Failures >= failuresMax {
			return Next{Do: NextDone}, d.lostTooMany(ctx)
		}
		head.Drive = Drive{Epoch: st.Epoch + 1, Status: DriveStarting}
		head.DueAt = max(e.Now(), head.At).Add(startingDueMs)
		err = d.writeHead(ctx, head, nil)
		if err == nil {
			e.succeed(ctx, d, st.Recover)
			return Next{Do: NextDone}, nil
		}
		if _, conflict := errors.AsType[*Conflict](err); !conflict || try >= sends {
			return Next{}, unavailable(err)
		}
		if err := e.d.Sched.Sleep(ctx, d.jitter(try)); err != nil {
			return Next{}, unavailable(err)
		}
	}
}

// backOffMost bounds how long the next activation waits for after lost ones.
const backOffMost = 8 * ident.Second

// succeed starts the activation that a head was just moved to. After a lost one
// it waits a little, unless that was found by the sweep, which has many to look
// after and comes late enough: what took it down may pass.
func (e *Engine) succeed(ctx context.Context, d *driver, pauses bool) {
	if n := d.head.Failures; n > 0 && pauses {
		_ = e.d.Sched.Sleep(ctx, min(ident.Second<<(n-1), backOffMost)) // cut short, it starts at once
	}
	if err := e.call(ctx, d.key, &d.head); err != nil {
		e.d.Report(d.key, "start", err)
	}
}

func (d *driver) lostTooMany(ctx context.Context) error {
	d.quarantine(ctx, &session.Divergence{
		Seq: d.head.Seq, Code: "failures", Detail: fmt.Sprintf("%d drivers were lost over this session, with no result between", failuresMax),
	})
	return d.broken
}

// Park registers the token of an activation that waits, if nothing has come
// since its driver planned to. If something has, or the session is gone, it
// completes the token, so that the driver looks again.
func (e *Engine) Park(ctx context.Context, key Key, inc string, epoch uint64, w Wait, token string) (parked bool, err error) {
	d, err := e.bare(ctx, key)
	if err != nil {
		return false, unavailable(err)
	}
	planned := Drive{Epoch: epoch, Step: w.Number, Attempt: w.Attempt, Status: DriveRunning}
	if h := d.head; h.Inc == inc && h.Rev == w.Rev && h.Drive == planned && h.Status != StatusDeleting && h.Quarantine == nil {
		data, err := json.Marshal(parkedOn{token})
		if err != nil {
			return false, err
		}
		h.Rev++
		h.Write, h.Drive.Status, h.DueAt = d.writeID(), DriveParked, 0
		if w.Until != 0 {
			h.DueAt = w.Until.Add(ident.Minute)
		}
		err = d.send(ctx, Commit{Key: key, Expect: w.Rev, Claim: &planned, Head: h, Rows: []Row{{Key: rowPark, Data: data}}}, sends)
		if _, conflict := errors.AsType[*Conflict](err); !conflict {
			return err == nil, err
		}
	}
	err = e.d.Waker.Complete(ctx, token)
	if lostToken(err) {
		err = nil // it waits no more
	}
	return false, err
}
