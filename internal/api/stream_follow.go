package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/host"
)

// stream follows one session for one client. Its order: what a frame says comes
// after the events that were there when it was said.
type stream struct {
	s    *server
	key  host.Key
	out  *sse
	live host.FrameWatch
	bell bell
	d    host.Done
	inc  string // of the session that the client asked for
	sent ident.Seq
	// floor is the lowest attempt that is not over by the events sent; announced
	// says that they have named it.
	floor     host.Frame
	announced bool
	// said is what was taken of live and not sent; whole as Take says.
	said  []host.Frame
	whole bool
	until ident.Instant // 0: there is no limit
	last  ident.Instant // when something was sent
}

// Ends of a stream beside errors.
var (
	errLimit = errors.New("the stream has lasted long enough")
	errOver  = errors.New("the session is closed, and all of it was sent")
	errGone  = errors.New("the session is deleted, and another has its id")
)

// limit sets when the client is asked to come again: in time before the server,
// or whatever runs it, would break the stream off.
func (st *stream) limit(ctx context.Context) {
	now := st.s.Engine.Now()
	st.last = now
	if d := st.s.Streams.For; d > 0 {
		st.until = now.Add(d.Milliseconds())
	}
	if deadline, ok := ctx.Deadline(); ok {
		at := now.Add(max(time.Until(deadline)-limitReserve, 0).Milliseconds())
		if st.until == 0 || at < st.until {
			st.until = at
		}
	}
}

// serve writes the stream until it ends.
func (st *stream) serve(ctx context.Context) {
	st.limit(ctx)
	err := st.follow(ctx)
	var gone *writeError
	switch {
	case errors.As(err, &gone):
		return
	case errors.Is(err, errOver):
		err = st.out.send("end", 0, ending{"closed"})
	case notFound(err), errors.Is(err, errGone):
		err = st.out.send("end", 0, ending{"deleted"})
	default:
		if ctx.Err() == nil && !errors.Is(err, errLimit) && !errors.Is(err, host.ErrStopping) {
			st.s.Log.WarnContext(ctx, "a stream broke off", "error", err)
		}
		err = st.out.send("reconnect", 0, comeAgain{uint64(st.sent)})
	}
	if err == nil {
		_ = st.out.flush() // who is gone needs no answer
	}
}

type ending struct {
	Reason string `json:"reason"`
}

type comeAgain struct {
	After uint64 `json:"after"`
}

// follow sends what is there and then what comes. It always ends with an error.
func (st *stream) follow(ctx context.Context) error {
	st.take()
	// The state after what was said: else it would not know who said it.
	if err := st.view(ctx); err != nil {
		return err
	}
	if err := st.begin(); err != nil {
		return err
	}
	moved := st.s.Engine.Watch(st.key, st.d.Head.Seq)
	defer func() { moved.Fire() }() // nobody waits for it any more
	if err := st.events(ctx); err != nil {
		return err
	}
	for {
		news := st.bell.hang(st.s.Engine.NewSignal())
		if !st.take() {
			if err := st.wait(ctx, moved, news); err != nil {
				return err
			}
		}
		moves := moved.Fired() || st.ahead()
		if moves {
			if err := st.view(ctx); err != nil {
				return err
			}
			moved.Fire()
			moved = st.s.Engine.Watch(st.key, st.d.Head.Seq)
		}
		// All that was said before these events.
		st.take()
		if err := st.say(); err != nil {
			return err
		}
		if !moves {
			continue
		}
		if err := st.events(ctx); err != nil {
			return err
		}
	}
}

// view looks at the session anew.
func (st *stream) view(ctx context.Context) (err error) {
	if st.d, err = st.s.Engine.View(ctx, st.key); err == nil && st.d.Head.Inc != st.inc {
		return errGone // its events are none that this client asked for
	}
	return err
}

// take takes what was said; false is nothing.
func (st *stream) take() bool {
	frames, whole := st.live.Take()
	if whole {
		st.said, st.whole = frames, len(frames) > 0
	} else {
		st.said = append(st.said, frames...)
	}
	return len(frames) > 0
}

// wait waits for something to send. It sends a ping when there was nothing for
// long.
func (st *stream) wait(ctx context.Context, signals ...host.Signal) error {
	ping := st.s.Streams.Ping
	if ping <= 0 {
		ping = pingEvery
	}
	now := st.s.Engine.Now()
	next := st.last.Add(ping.Milliseconds())
	if st.until != 0 {
		next = min(next, st.until)
	}
	if _, err := st.s.Engine.WaitAny(ctx, max(int64(next-now), 0), signals...); err != nil {
		return err
	}
	now = st.s.Engine.Now()
	switch {
	case st.until != 0 && now >= st.until:
		return errLimit
	case now >= st.last.Add(ping.Milliseconds()):
		if err := st.out.send("ping", 0, struct{}{}); err != nil {
			return err
		}
		return st.flush()
	}
	return nil
}

func (st *stream) flush() error {
	st.last = st.s.Engine.Now()
	return st.out.flush()
}

// begin sends the first bytes, so that the client knows of the stream at once:
// with what the turn in flight has said, if there is one.
func (st *stream) begin() error {
	if err := st.out.comment(); err != nil {
		return err
	}
	if now, ok := host.TurnInFlight(&st.d.State); ok {
		st.floor, st.announced = now, true
		if err := st.out.send("partial", 0, partialOf(now, st.due())); err != nil {
			return err
		}
	}
	// What else was said before the state was looked at is over.
	st.said, st.whole = nil, false
	return st.flush()
}

// ahead says whether something was said by an attempt that no event sent so far
// has announced.
func (st *stream) ahead() bool {
	n := len(st.said)
	return n > 0 && (st.floor.Before(st.said[n-1]) || !st.announced && !st.said[n-1].Before(st.floor))
}

// due takes what was said by the attempt in flight, drops what was said by one
// that is over and leaves what was said by one that is to be announced.
func (st *stream) due() []host.Frame {
	for len(st.said) > 0 && st.said[0].Before(st.floor) {
		st.said = st.said[1:]
	}
	n := 0
	for st.announced && n < len(st.said) && !st.floor.Before(st.said[n]) {
		n++
	}
	frames := st.said[:n]
	if st.said = st.said[n:]; len(st.said) == 0 {
		st.said = nil
	}
	return frames
}

// say sends what was said by the attempt in flight.
func (st *stream) say() error {
	frames := st.due()
	if len(frames) == 0 {
		return nil
	}
	if st.whole {
		st.whole = false
		if err := st.out.send("partial", 0, partialOf(frames[0], frames)); err != nil {
			return err
		}
		return st.flush()
	}
	for _, f := range joined(frames) {
		if err := st.out.send("delta", 0, deltaOf(f)); err != nil {
			return err
		}
	}
	return st.flush()
}

// events sends the events up to the head. They are read as they are sent: a slow
// client costs no memory.
func (st *stream) events(ctx context.Context) error {
	head := st.d.Head
	for st.sent < head.Seq {
		page, err := st.s.Engine.Feed(ctx, st.key, st.sent, head.Seq, eventsMost, eventBytes)
		if err != nil {
			return err
		}
		if len(page) == 0 {
			return errors.Join(host.ErrUnavailable, errors.New("the log ends before its head"))
		}
		for _, e := range page {
			if err := st.out.send("event", e.Seq, event(e)); err != nil {
				return err
			}
			st.sent = e.Seq
			if err := st.note(e); err != nil {
				return err
			}
		}
		if err := st.flush(); err != nil {
			return err
		}
		if st.until != 0 && st.last >= st.until {
			return errLimit
		}
	}
	if head.Status == host.StatusClosed {
		return errOver
	}
	return nil
}

// note learns from an event which attempt is in flight or over.
func (st *stream) note(e host.FeedEvent) error {
	over := 0
	switch e.Kind {
	case "turn.requested":
	case "turn.completed", "turn.failed", "turn.cancelled":
		over = 1
	default:
		return nil
	}
	var of struct {
		Turn    ident.TurnID `json:"turn"`
		Attempt int          `json:"attempt"`
	}
	if err := json.Unmarshal(e.Data, &of); err != nil {
		return fmt.Errorf("event %d: %w", e.Seq, err)
	}
	next := host.Frame{Turn: of.Turn, Attempt: of.Attempt + over}
	if next.Before(st.floor) {
		return nil
	}
	st.announced = over == 0 || st.announced && !st.floor.Before(next)
	st.floor = next
	return st.say()
}

// delta is a piece of what a turn in flight says.
type delta struct {
	Run     string `json:"run"`
	Turn    string `json:"turn"`
	Attempt int    `json:"attempt"`
	piece
}

// partial is what a turn in flight has said so far.
type partial struct {
	Run     string  `json:"run"`
	Turn    string  `json:"turn"`
	Attempt int     `json:"attempt"`
	Parts   []piece `json:"parts"`
}

type piece struct {
	Part   string `json:"part"`
	Call   string `json:"call,omitempty"`
	Offset int64  `json:"offset"`
	Text   string `json:"text"`
}

// goesOn says that a piece begins where p ends.
func (p piece) goesOn(next piece) bool {
	return p.Part == next.Part && p.Call == next.Call && p.Offset+int64(len(p.Text)) == next.Offset
}

func pieceOf(f host.Frame) piece {
	p := piece{Part: f.Part, Offset: f.Offset, Text: f.Text}
	if f.Call > 0 {
		p.Call = ident.CallID{Turn: f.Turn, Index: f.Call}.String()
	}
	return p
}

func deltaOf(f host.Frame) delta {
	return delta{Run: f.Run.String(), Turn: f.Turn.String(), Attempt: f.Attempt, piece: pieceOf(f)}
}

func partialOf(of host.Frame, frames []host.Frame) partial {
	p := partial{Run: of.Run.String(), Turn: of.Turn.String(), Attempt: of.Attempt, Parts: []piece{}}
	for _, f := range frames {
		i := slices.IndexFunc(p.Parts, func(have piece) bool { return have.goesOn(pieceOf(f)) })
		if i < 0 {
			p.Parts = append(p.Parts, pieceOf(f))
			continue
		}
		p.Parts[i].Text += f.Text
	}
	return p
}

// joinMax is how much text one delta carries that is made of several pieces.
const joinMax = 32 << 10

// joined makes one frame of neighbours that go on where the one before ends: a
// client that reads slowly gets fewer and larger ones.
func joined(frames []host.Frame) []host.Frame {
	out := make([]host.Frame, 0, len(frames))
	var text []byte
	for i, f := range frames {
		text = append(text, f.Text...)
		if next := i + 1; next < len(frames) && len(text)+len(frames[next].Text) <= joinMax && goesOn(f, frames[next]) {
			continue
		}
		f.Offset -= int64(len(text) - len(f.Text))
		f.Text, text = string(text), text[:0]
		out = append(out, f)
	}
	return out
}

func goesOn(a, b host.Frame) bool {
	return !a.Before(b) && !b.Before(a) && pieceOf(a).goesOn(pieceOf(b))
}
