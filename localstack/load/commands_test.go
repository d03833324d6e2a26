package load

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/internal/adapter/openai/openaitest"
	"github.com/perdure/perdure/internal/api"
	"github.com/perdure/perdure/internal/client"
	"github.com/perdure/perdure/localstack/target"
)

// What is sent: commands to sessions, so many to each that none has to be refused
// (a session has room for 32 queued runs, a run for 16 steers), and some of them
// twice.
const (
	commands   = 2000
	sessions   = 80
	workOf     = 10 // one session in so many is at work meanwhile
	steersEach = 10 // to each of the others
	twinOf     = 10 // one command in so many comes twice
)

// TestManyCommandsOverSomeConnections: some sessions are at work all the while, so
// that commands meet commits of their drivers; the others are parked, and are
// steered as well. What was acknowledged is in its session's feed, once. Sessions
// at work come to the end of all of it; the others are closed.
func TestManyCommandsOverSomeConnections(t *testing.T) {
	t.Parallel()
	began := time.Now()
	f := open(t)
	opened := time.Now()
	f.send()
	sent := time.Now()
	f.found()
	f.end()
	t.Logf("opened in %v, sent in %v, at the end after %v more", opened.Sub(began), sent.Sub(opened), time.Since(sent))
}

// BenchmarkCommands is the same with a clock on the sending alone.
func BenchmarkCommands(b *testing.B) {
	var sending time.Duration
	var at memory
	target.Deployed(b) // which is not measured
	for b.Loop() {
		f := open(b)
		began := time.Now()
		f.send()
		sending += time.Since(began)
		at = footprint(b, f.stack.Endpoint)
		f.found()
		f.end()
	}
	b.ReportMetric(commands*float64(b.N)/sending.Seconds(), "commands/s")
	at.report(b)
}

// flood is a number of commands.
type flood struct {
	*world

	mu  sync.Mutex
	got map[string]string // by submission: the run or the steer that was acknowledged
}

// waiting says whether a session is one of those that wait.
func waiting(session int) bool { return session%workOf > 0 }

// open opens the sessions; those that wait do so when it returns.
func open(tb testing.TB) *flood {
	tb.Helper()
	f := &flood{got: map[string]string{}, world: visit(tb, func(r openaitest.Request) openaitest.Reply {
		if strings.Contains(r.Messages(), "Wait.") && !strings.Contains(r.Messages(), `"role":"tool"`) {
			return asks()
		}
		return openaitest.Text("Done.", 1)
	})}
	f.each(sessions, func(door *client.Client, s int) error {
		if !waiting(s) {
			return f.open(door, f.id(s), "Work.")
		}
		if err := f.open(door, f.id(s), "Wait."); err != nil {
			return err
		}
		_, err := f.until(door, f.id(s), firstRun, "waiting")
		return err
	})
	return f
}

// send sends all commands. Neighbours go to different sessions, so that each
// session gets its own over all connections, and twins come one after the other,
// so that they meet.
func (f *flood) send() {
	f.Helper()
	var list []int
	for c := range commands {
		if list = append(list, c); c%twinOf == 0 {
			list = append(list, c)
		}
	}
	f.each(len(list), func(door *client.Client, i int) error { return f.command(door, list[i]) })
	require.Len(f, f.got, commands)
	f.Logf("%d commands, %d of them twice; after 6 tries of a client, %d requests were sent anew", commands, len(list)-commands, f.repeated.Load())
}

// submission is a command's idempotency key, and the text that it brings.
func submission(command int) string { return fmt.Sprintf("command-%04d", command) }

// command sends one.
func (f *flood) command(door *client.Client, c int) error {
	session, key := c%sessions, submission(c)
	input := api.Input{{Type: "text", Text: api.Text{Text: key}}}
	var acknowledged string
	err := f.insist(func() error {
		if waiting(session) && c/sessions < steersEach {
			steered, err := door.SteerRun(f.Context(), f.id(session), firstRun, api.SteerRun{Input: input, SubmissionID: key})
			acknowledged = steered.SteeringID
			return err
		}
		run, err := door.StartRun(f.Context(), f.id(session), api.RequestRun{Input: input, SubmissionID: key}, 0)
		acknowledged = run.ID
		return err
	})
	if err != nil {
		return fmt.Errorf("%s to %s: %w", key, f.id(session), err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if before, twin := f.got[key]; twin && before != acknowledged {
		return fmt.Errorf("%s was acknowledged as %s and as %s", key, before, acknowledged)
	}
	f.got[key] = acknowledged
	return nil
}

// found looks for each command in its session's feed.
func (f *flood) found() {
	f.Helper()
	f.each(sessions, func(door *client.Client, s int) error {
		times := map[string]int{}
		for after, complete := uint64(0), false; !complete; {
			var page api.Events
			if err := f.insist(func() (err error) {
				page, err = door.Events(f.Context(), f.id(s), after, 512, 0)
				return err
			}); err != nil {
				return err
			}
			for _, e := range page.Events {
				if e.Kind == "run.accepted" || e.Kind == "run.steered" {
					times[textOf(e)]++
				}
			}
			after, complete = page.Next, page.Complete
		}
		for c := s; c < commands; c += sessions {
			if n := times[submission(c)]; n != 1 {
				return fmt.Errorf("%s is in the feed of %s %d times", submission(c), f.id(s), n)
			}
		}
		if len(times) != 1+commands/sessions {
			return fmt.Errorf("%s was asked for something else: %v", f.id(s), times)
		}
		return nil
	})
}

// textOf is the text that a command brought, as its event has it.
func textOf(e api.Event) string {
	type parts []struct{ Text string }
	var data struct{ Input, Text parts }
	if json.Unmarshal(e.Data, &data) != nil || len(data.Input)+len(data.Text) != 1 {
		return fmt.Sprintf("%s %s", e.Kind, e.Data)
	}
	return append(data.Input, data.Text...)[0].Text
}

// end closes the sessions that wait, which cancels what they hold, and waits until
// all runs of the others have completed.
func (f *flood) end() {
	f.Helper()
	f.each(sessions, func(door *client.Client, s int) error {
		if waiting(s) {
			var closed api.Session
			err := f.insist(func() (err error) {
				closed, err = door.CloseSession(f.Context(), f.id(s), true)
				return err
			})
			if err == nil && closed.Status != "closed" {
				err = fmt.Errorf("%s is %s", f.id(s), closed.Status)
			}
			return err
		}
		for run := range 1 + commands/sessions {
			if _, err := f.until(door, f.id(s), fmt.Sprintf("run_%d", 1+run), "completed"); err != nil {
				return err
			}
		}
		return nil
	})
}
