package host

import (
	"context"
	"errors"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/machine"
	"github.com/perdure/perdure/core/session"
)

// runningDueMs is how long after its last commit a running session is looked
// at by the sweeper.
const runningDueMs = 120 * ident.Second

// startingDueMs is how long a driver that was started or woken has to claim.
const startingDueMs = 20 * ident.Second

// drive moves the claim on the session's work. A driver takes it with its first
// commit and says how things stand with each; an admission elsewhere only says
// that a driver is owed.
func (d *driver) drive(head *Head, rd machine.Ready, env session.Env) {
	switch {
	case d.e.o.AdmitOnly:
		d.owe(head, rd, env)
		return
	case d.claimed:
	case d.slice != nil:
		head.Drive = d.slice.claim
	default:
		head.Drive = Drive{Epoch: head.Drive.Epoch + 1, Step: 1, Attempt: 1}
	}
	head.Drive.Status, head.DueAt = d.driveStatus(rd)
}

// owe says that the session needs a driver, or that the one that is parked must
// look: it has something to do that it was not waiting for, an earlier deadline,
// or nothing left to wait for at all. One that starts, runs or wakes finds out
// by itself, because its next commit fails on rev.
func (d *driver) owe(head *Head, rd machine.Ready, env session.Env) {
	s := rd.State
	switch head.Drive.Status {
	case DriveIdle, "":
		// What is in flight or waited for on an idle head nobody performs, and
		// nobody wakes it: its session was frozen, and is released.
		if status, _ := d.driveStatus(rd); status == DriveIdle {
			head.Drive.Status = DriveIdle
			return
		}
		head.Drive = Drive{Epoch: head.Drive.Epoch + 1, Status: DriveStarting}
	case DriveParked:
		before := d.m.State()
		was := before.NextWake(env)
		sooner := rd.WakeAt != 0 && (was == 0 || rd.WakeAt < was)
		if status, _ := d.driveStatus(rd); !rd.Work && !sooner && status != DriveIdle {
			return
		}
		head.Drive.Status = DriveWaking
	default:
		return
	}
	head.DueAt = s.At.Add(startingDueMs)
}

// driveStatus says what the head says of the work after a step: who owes the
// session something, and by when.
func (d *driver) driveStatus(rd machine.Ready) (string, ident.Instant) {
	s := rd.State
	waits := s.Active != nil || len(s.Queue) > 0 || s.Context.Compaction.Phase == session.CompactionRuns || rd.WakeAt != 0 || s.HasPending()
	switch {
	case rd.Work && d.slice == nil:
		return DriveStarting, s.At
	// A slice's machine goes on by itself: with what is left to do too, and to
	// the parking, which another process does.
	case len(s.InFlight()) > 0, d.slice != nil && (rd.Work || waits):
		// Moved only when half of it is gone: the stores index it.
		if due := d.head.DueAt; d.head.Drive.Status == DriveRunning && int64(due-s.At) > runningDueMs/2 {
			return DriveRunning, due
		}
		return DriveRunning, s.At.Add(runningDueMs)
	case waits:
		due := rd.WakeAt
		if look := s.At.Add(d.e.o.LookMs); waitsForTool(s) && (due == 0 || look < due) {
			due = look
		}
		return DriveParked, due
	}
	return DriveIdle, 0
}

// park answers an admission that woke a driver, or ended what it was at, where
// that finds nothing to write: the head says how things stand, or it would be
// owed a driver for ever.
func (d *driver) park(ctx context.Context, rd machine.Ready, env session.Env, c *choice) {
	owed := false
	switch d.head.Drive.Status {
	case DriveStarting, DriveWaking:
		owed = true
	case DriveRunning:
		// To a slice the parking is not its own; to come to rest is.
		status, _ := d.driveStatus(rd)
		owed = len(rd.State.InFlight()) == 0 && (d.slice == nil || status == DriveIdle)
	}
	owed = owed || d.slice != nil && !d.claimed
	if !owed || !env.Driver || c.person || d.head.Rev == 0 || d.owes {
		return
	}
	head := d.head
	d.drive(&head, rd, env)
	err := d.writeHead(ctx, head, nil)
	if err == nil {
		if !d.claimed {
			d.resume(ctx) // with the work it took what a twin had begun meanwhile
		}
		d.claimed = true
		return
	}
	if _, ok := errors.AsType[*Conflict](err); ok {
		err = errors.Join(err, d.reload(ctx))
	}
	d.later("park", err)
}

// waitsForTool says that a call could start and did not: nobody serves its tool
// now. Nobody tells when somebody does, so it is looked for.
func waitsForTool(s *session.State) bool {
	r := s.Active
	if r == nil || r.Ending != nil || r.Batch == nil || r.Batch.Open == 0 {
		return false
	}
	for i := range r.Batch.Calls {
		if c := &r.Batch.Calls[i]; c.NotBefore <= s.At && s.Ready(c) {
			return true
		}
	}
	return false
}

// plan takes over when the session is to be woken.
func (d *driver) plan(rd machine.Ready, env session.Env) {
	d.wakeAt = rd.WakeAt
	if !d.drives() {
		return
	}
	if waitsForTool(rd.State) {
		if look := env.At.Add(d.e.o.LookMs); d.wakeAt == 0 || look < d.wakeAt {
			d.wakeAt = look
		}
	}
	if d.wakeAt == 0 {
		return
	}
	if !env.Driver {
		d.wakeAt = max(d.wakeAt, d.retryAt)
	}
	if d.wakeAt <= env.At && len(rd.Entries) == 0 && d.woken {
		// Time has passed and changes nothing: not again at once.
		d.wakeAt = env.At.Add(ident.Second)
	}
}
