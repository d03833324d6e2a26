package host

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/machine"
	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/core/wire"
)

// runningDueMs is how long after its last commit a running session is looked
// at by the sweeper.
const runningDueMs = 120 * ident.Second

func (d *driver) writeID() string { return hex.EncodeToString(d.e.d.Sched.Entropy(16)) }

// sends is how often a commit whose outcome is not known is sent again.
const sends = 6

// commit makes a step durable, and only then lets it be true: the machine
// moves, effects start, watchers are told.
func (d *driver) commit(ctx context.Context, rd machine.Ready, pr *projector, blobs []Blob) error {
	c, bytes, err := d.build(rd, pr, blobs)
	if err != nil {
		return err
	}
	if err := d.send(ctx, c); err != nil {
		return err
	}
	if err := d.m.Commit(c.Head.Seq); err != nil {
		return err
	}
	d.head, d.claimed = c.Head, !d.e.o.AdmitOnly
	if c.Meta != nil {
		d.meta = *c.Meta
	}
	d.tail += bytes
	for _, cl := range rd.Cancels {
		d.abort(cl)
	}
	for _, eff := range rd.Effects {
		d.start(ctx, eff)
	}
	d.plan(rd)
	d.tellWatchers()
	d.save(ctx)
	return nil
}

// plan takes over when the session is to be woken.
func (d *driver) plan(rd machine.Ready) { d.wakeAt = rd.WakeAt }

// send writes a commit, the same bytes again while its outcome is not known: a
// landed write is recognised by its id. When it stays unknown this task no
// longer knows what is true, and ends as if the process had died.
func (d *driver) send(ctx context.Context, c Commit) error {
	var err error
	for i := range sends {
		if err = d.e.d.Log.Commit(ctx, c); err == nil {
			return nil
		}
		var conflict *Conflict
		if errors.As(err, &conflict) || errors.Is(err, ErrFull) {
			return err
		}
		if d.e.d.Sched.Sleep(ctx, int64(20)<<i) != nil {
			break
		}
	}
	d.broken = errors.Join(ErrUnavailable, err)
	return d.broken
}

// build turns a step into the one write that makes it durable.
func (d *driver) build(rd machine.Ready, pr *projector, blobs []Blob) (Commit, int64, error) {
	s := rd.State
	head := d.head
	head.Rev++
	head.Write = d.writeID()
	head.Seq, head.At, head.Inc = s.Seq, s.At, s.Inc
	head.Status = s.Status
	if pr.progress {
		head.Failures = 0
	}
	d.drive(&head, rd, s)
	c := Commit{Key: d.key, Expect: d.head.Rev, Head: head, Rows: pr.rows, Blobs: blobs}
	if d.claimed && !d.e.o.AdmitOnly {
		claim := d.head.Drive
		c.Claim = &claim
	}
	var bytes int64
	for _, en := range rd.Entries {
		data, err := wire.Encode(en)
		if err != nil {
			return Commit{}, 0, &session.Divergence{Seq: en.Seq, Code: "encode", Detail: err.Error()}
		}
		bytes += int64(len(data))
		c.Entries = append(c.Entries, StoredEntry{Seq: en.Seq, Data: data})
		if _, ok := en.Event.(*session.ToolsPublished); ok && d.offer.body != nil {
			c.Blobs = append(c.Blobs, Blob{Ref: blob.Ref(d.offer.offer.Ref), Data: d.offer.body})
		}
	}
	if pr.list || len(d.metaEdits) > 0 {
		m := d.meta
		pr.apply(&m, s)
		for _, edit := range d.metaEdits {
			edit(&m)
		}
		c.Meta = &m
	}
	return c, bytes, nil
}

// drive moves the claim on the session's work. A driver takes it with its first
// commit and says how things stand with each; an admission elsewhere only says
// that a driver is owed.
func (d *driver) drive(head *Head, rd machine.Ready, s *session.State) {
	if !d.e.o.AdmitOnly {
		if !d.claimed {
			head.Drive = Drive{Epoch: head.Drive.Epoch + 1, Step: 1, Attempt: 1}
		}
		head.Drive.Status, head.DueAt = d.driveStatus(rd, s)
		return
	}
	if !rd.Work {
		return
	}
	switch head.Drive.Status {
	case DriveIdle, "":
		head.Drive = Drive{Epoch: head.Drive.Epoch + 1, Status: DriveStarting}
	case DriveParked:
		head.Drive.Status = DriveWaking
	default:
		return
	}
	head.DueAt = s.At.Add(startingDueMs)
}

// startingDueMs is how long a driver that was started or woken has to claim.
const startingDueMs = 20 * ident.Second

// driveStatus says what the head says of the work after a step: who owes the
// session something, and by when.
func (d *driver) driveStatus(rd machine.Ready, s *session.State) (string, ident.Instant) {
	switch {
	case rd.Work:
		return DriveStarting, s.At
	case len(s.InFlight()) > 0:
		// Moved only when half of it is gone: the stores index it.
		if due := d.head.DueAt; d.head.Drive.Status == DriveRunning && int64(due-s.At) > runningDueMs/2 {
			return DriveRunning, due
		}
		return DriveRunning, s.At.Add(runningDueMs)
	case s.Active != nil || len(s.Queue) > 0 || s.Context.Compaction.Phase == session.CompactionRuns || rd.WakeAt != 0 || s.HasPending():
		return DriveParked, rd.WakeAt
	}
	return DriveIdle, 0
}

// stashed is a model result on its way to a commit that did not go through.
type stashed struct {
	Outcome *session.ModelOutcome `json:"outcome"`
	Blobs   []Blob                `json:"blobs,omitempty"`
}

// stash keeps model results whose commit did not go through at the first try,
// so that a crash before the next one does not cost a generation (I11).
func (d *driver) stash(ctx context.Context, outs []outcome) {
	for _, o := range outs {
		m, ok := o.Command.(*session.ModelOutcome)
		if !ok || m.Fault != nil || m.Aborted {
			continue
		}
		data, err := json.Marshal(stashed{Outcome: m, Blobs: o.Blobs})
		if err == nil {
			_, err = d.e.d.Stash.PutStash(ctx, d.key, stashName(d.head.Inc, o.claim), data, d.e.Now().Add(ident.Day), false)
		}
		if err != nil {
			d.e.d.Report(d.key, "stash", err)
			continue
		}
		d.stashed = true
	}
}

// unstash forgets what is committed now.
func (d *driver) unstash(ctx context.Context, outs []outcome) {
	if !d.stashed {
		return
	}
	d.stashed = false
	for _, o := range outs {
		if o.claim.Kind != session.ClaimModel {
			continue
		}
		if err := d.e.d.Stash.DropStash(ctx, d.key, stashName(d.head.Inc, o.claim)); err != nil {
			d.e.d.Report(d.key, "stash", err)
		}
	}
}

func stashName(inc string, c session.Claim) string {
	return "outcome/" + inc + "/" + c.String()
}

// freeze ends a step that diverged: the session is quarantined with its
// evidence, nothing loops. What a newer build wrote is left to it.
func (d *driver) freeze(ctx context.Context, err error) error {
	d.m.Drop()
	if errors.Is(err, session.ErrNewer) {
		d.broken = errors.Join(ErrUnavailable, err)
		return d.broken
	}
	var div *session.Divergence
	if !errors.As(err, &div) {
		return errors.Join(ErrUnavailable, err)
	}
	d.quarantine(ctx, div)
	return d.mayCommand([]Prepared{{Command: &session.Wake{}}})
}

// quarantine freezes the session: the head says why, and the log notes it.
func (d *driver) quarantine(ctx context.Context, div *session.Divergence) {
	d.e.d.Report(d.key, "quarantine", div)
	detail := blob.Cut(div.Detail, 200)
	head := d.head
	head.Rev++
	head.Write = d.writeID()
	head.Quarantine = &Quarantine{Seq: div.Seq, Code: div.Code, Detail: detail}
	head.Seq++
	head.At = max(d.e.Now(), head.At)
	head.Drive.Status, head.DueAt = DriveIdle, 0
	en := session.Entry{Seq: head.Seq, At: head.At, Event: &session.SessionQuarantined{Failed: div.Seq, Code: div.Code, Detail: detail}}
	data, err := wire.Encode(en)
	if err == nil {
		m := d.meta
		m.Activity = "quarantined"
		err = d.send(ctx, Commit{Key: d.key, Expect: d.head.Rev, Head: head, Entries: []StoredEntry{{Seq: en.Seq, Data: data}}, Meta: &m})
		if err == nil {
			d.head, d.meta = head, m
		}
	}
	if err != nil {
		d.e.d.Report(d.key, "quarantine", err)
		d.broken = errors.Join(ErrUnavailable, err)
	}
	for _, f := range d.flights {
		f.cancel()
	}
	d.flights, d.wakeAt = nil, 0
	d.tellWatchers()
}
