package chat

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/perdure/perdure/internal/api"
	"github.com/perdure/perdure/internal/client"
)

// Chat is one conversation with a person.
type Chat struct {
	Client  *client.Client
	Session string
	In      io.Reader
	Out     io.Writer
	// Interrupts are presses of Ctrl-C: each ends a wait, or the chat. It may
	// be nil.
	Interrupts <-chan os.Signal
}

// Bounds.
const (
	lineMax     = 1 << 20 // bytes of a line that is typed
	historyMax  = 200     // events that are shown of what was before
	pollSeconds = 20      // the longest that the server lets a poll wait
	retryAfter  = time.Second
)

// talk is a chat under way. All of it belongs to one goroutine; lines and pages
// of events reach it through channels.
type talk struct {
	*Chat
	now  api.Session // as it was when the last page came, or the last command was sent
	seen uint64      // the last event that was printed
	// held is a command that waits for something to happen: it is asked after
	// every page, until it says that it is done.
	held  func(ctx context.Context) (done bool, err error)
	calls map[string]string // tools by call, of calls that are not over
	over  bool              // quit
	lost  bool              // the server does not answer
}

// page is what came of one poll.
type page struct {
	events api.Events
	err    error
}

// Run talks until the person quits, the input ends and nothing is in progress,
// or the session is closed. What is in progress goes on without the chat.
func (c *Chat) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	t := &talk{Chat: c, calls: map[string]string{}}
	if err := t.open(ctx); err != nil {
		return err
	}
	pages, lines := make(chan page), make(chan string)
	go c.poll(ctx, t.seen, pages)
	go read(ctx, c.In, lines)
	for !t.over {
		typed := lines
		if t.held != nil {
			typed = nil // one thing after the other
		}
		var err error
		select {
		case p := <-pages:
			err = t.page(ctx, p)
		case line, more := <-typed:
			if !more {
				lines = nil
				t.held = t.untilSettled(true)
				break
			}
			err = t.line(ctx, line)
		case <-c.Interrupts:
			t.interrupted()
		case <-ctx.Done():
			return ctx.Err()
		}
		if err == nil {
			err = t.again(ctx)
		}
		if err := t.complain(err); err != nil {
			return err
		}
	}
	return nil
}

// open shows where the session stands: the newest run, and what waits.
func (t *talk) open(ctx context.Context) (err error) {
	if t.now, err = t.Client.Session(ctx, t.Session); err != nil {
		return err
	}
	if t.now.Status != "open" {
		return fmt.Errorf("session %s is closed: it can be read, not talked to", t.Session)
	}
	t.sayf("session %s · %s · %s/%s · /help", t.Session, OneLine(t.now.Title, labelColumns), t.now.Config.Model.Provider, t.now.Config.Model.Model)
	before, err := t.Client.EventsBefore(ctx, t.Session, 0, historyMax)
	if err != nil {
		return err
	}
	t.seen = before.Head
	from, earlier := 0, !before.Complete
	for i, e := range before.Events {
		if e.Kind == "run.accepted" && (t.now.ActiveRun == nil || e.Run == t.now.ActiveRun.ID) {
			from, earlier = i, earlier || hasRun(before.Events[:i])
		}
	}
	if earlier {
		t.sayf("… earlier: perdure events %s", t.Session)
	}
	for _, e := range before.Events[from:] {
		t.show(e)
	}
	return nil
}

// hasRun says whether any of the events belongs to a run.
func hasRun(events []api.Event) bool {
	return slices.ContainsFunc(events, func(e api.Event) bool { return e.Run != "" })
}

// poll fetches what comes. A server that is gone for a while is waited for: the
// session is still there when it comes back.
func (c *Chat) poll(ctx context.Context, after uint64, to chan<- page) {
	for wait := pollSeconds; ctx.Err() == nil; {
		events, err := c.Client.Events(ctx, c.Session, after, 0, wait)
		if n := len(events.Events); n > 0 {
			after = events.Events[n-1].Seq
		} else if err == nil && wait > 0 {
			continue
		}
		select {
		case to <- page{events, err}:
		case <-ctx.Done():
			return
		}
		if wait = pollSeconds; err == nil {
			continue
		}
		// The next answer, whatever it holds, says that the server is back.
		wait = 0
		timer := time.NewTimer(retryAfter)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
	}
}

// read hands over lines until the input ends.
func read(ctx context.Context, in io.Reader, to chan<- string) {
	defer close(to)
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, lineMax)
	for lines.Scan() {
		select {
		case to <- lines.Text():
		case <-ctx.Done():
			return
		}
	}
}

// page prints what came and looks again where the session stands.
func (t *talk) page(ctx context.Context, p page) error {
	if p.err != nil {
		return p.err
	}
	if t.lost {
		t.lost = false
		t.sayf("- the server answers again")
	}
	if err := t.look(ctx); err != nil {
		return err
	}
	for _, e := range p.events.Events {
		if e.Seq > t.seen {
			t.show(e)
			t.seen = e.Seq
		}
	}
	return nil
}

// look asks where the session stands.
func (t *talk) look(ctx context.Context) error {
	now, err := t.Client.Session(ctx, t.Session)
	if err == nil {
		t.now = now
	}
	return err
}

// again asks the held command whether its time has come.
func (t *talk) again(ctx context.Context) error {
	if t.held == nil {
		return nil
	}
	done, err := t.held(ctx)
	if done || err != nil {
		t.held = nil
	}
	return err
}

// complain shows an error that the chat survives, and returns any other.
func (t *talk) complain(err error) error {
	if err == nil {
		return nil
	}
	if _, gone := errors.AsType[*client.UnreachableError](err); gone {
		if !t.lost {
			t.sayf("- the server does not answer; the session is kept, and the chat goes on when it does")
		}
		t.lost = true
		return nil
	}
	p, refused := errors.AsType[*client.ProblemError](err)
	if _, typed := errors.AsType[typedError](err); !typed && (!refused || p.Status == 401 || p.Status == 404 && p.Code == "not_found" && t.gone()) {
		return err
	}
	t.sayf("! %s", err)
	return nil
}

// gone says whether the session is not there any more.
func (t *talk) gone() bool { return t.now.ID == "" }

// typedError is what the chat itself says to a line that it cannot take.
type typedError string

func (e typedError) Error() string { return string(e) }

func typedf(format string, args ...any) error { return typedError(fmt.Sprintf(format, args...)) }

// interrupted ends a wait, or the chat. The session is not touched.
func (t *talk) interrupted() {
	if t.held != nil && !t.over {
		t.held = nil
		t.sayf("- not waiting any more")
		return
	}
	t.leave()
}

func (t *talk) leave() {
	if r := t.now.ActiveRun; r != nil {
		t.sayf("- %s is %s and goes on without the chat", r.ID, r.Status)
	}
	t.over = true
}

// settled says that nothing moves before a person or the outside world does,
// and that all of it is printed.
func (t *talk) settled() bool {
	if t.lost || t.seen < t.now.Head {
		return false
	}
	r := t.now.ActiveRun
	if r == nil {
		return len(t.now.QueuedRuns) == 0
	}
	if r.Status != "waiting" {
		return false
	}
	for _, w := range r.WaitingOn {
		if w.Kind != "timer" && w.Kind != "retry" {
			return true
		}
	}
	return false
}

// untilSettled waits until nothing moves; then, at the end of the input, it
// leaves.
func (t *talk) untilSettled(end bool) func(context.Context) (bool, error) {
	return func(context.Context) (bool, error) {
		if !t.settled() {
			return false, nil
		}
		if end {
			t.leave()
		}
		return true, nil
	}
}

// sayf prints a line.
func (t *talk) sayf(format string, args ...any) {
	fmt.Fprintln(t.Out, strings.TrimRight(fmt.Sprintf(format, args...), "\n"))
}
