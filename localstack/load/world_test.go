package load

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	awssfn "github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/adapter/dynamo"
	"github.com/perdure/perdure/internal/adapter/openai/openaitest"
	"github.com/perdure/perdure/internal/api"
	"github.com/perdure/perdure/internal/client"
	"github.com/perdure/perdure/internal/cloud"
	"github.com/perdure/perdure/internal/host"
	"github.com/perdure/perdure/localstack/target"
)

const (
	// connections are those that everything comes over.
	connections = 8
	// hang is a ceiling for what must come; nothing is held to it. tick is between
	// two looks at what nobody tells.
	hang = 10 * time.Minute
	tick = 200 * time.Millisecond
	// poll is how long the API waits for a run, in seconds.
	poll = 20
)

// object is JSON in the making.
type object = map[string]any

// world is one test's view of the stack. All its sessions ask one model.
type world struct {
	testing.TB

	stack *target.Stack
	doors []*client.Client // each is asked one thing at a time, so it is one connection
	table *dynamo.Store
	sfn   *awssfn.Client
	model string // its URL
	name  string // what the names of all its sessions begin with

	repeated atomic.Int64 // requests that no client got an answer to in all its tries
}

// visit is a world whose model plays by answer.
func visit(tb testing.TB, answer func(openaitest.Request) openaitest.Reply) *world {
	tb.Helper()
	stack := target.Deployed(tb)
	stack.Need(tb, target.Reach)
	model := openaitest.New(tb)
	model.Rules.Keyless, model.Fallback = true, answer
	w := &world{
		TB: tb, stack: stack, model: model.URL, name: "load-" + strings.ToLower(rand.Text()[:12]) + "-",
		table: dynamo.New(dynamo.NewClient(stack.Config.Copy()), stack.Outputs["Table"], dynamo.Options{}),
		sfn:   awssfn.NewFromConfig(stack.Config),
	}
	for range connections {
		w.doors = append(w.doors, client.New(stack.API, stack.Key))
	}
	return w
}

// each does n things over all connections, and returns when they are done.
func (w *world) each(n int, do func(door *client.Client, i int) error) {
	w.Helper()
	var next atomic.Int64
	var busy sync.WaitGroup
	errs := make([]error, connections)
	for c, door := range w.doors {
		busy.Go(func() {
			for errs[c] == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				errs[c] = do(door, i)
			}
		})
	}
	busy.Wait()
	require.NoError(w, errors.Join(errs...))
}

// insist sends a command until it is answered. The client has tried several
// times when it gives up, as the contract says of 429 and 503; a machine that is
// busy with all this at once may need more.
func (w *world) insist(send func() error) error {
	for end := time.Now().Add(hang); ; {
		err := send()
		_, unreachable := errors.AsType[*client.UnreachableError](err)
		if again := unreachable || slices.Contains([]string{"unavailable", "rate_limited"}, client.Code(err)); !again || time.Now().After(end) {
			return err
		}
		w.repeated.Add(1)
		select {
		case <-time.After(tick):
		case <-w.Context().Done():
			return err
		}
	}
}

// id is a session's.
func (w *world) id(i int) string { return w.name + strconv.Itoa(i) }

// open makes a session and its first run in one command.
func (w *world) open(door *client.Client, id, input string) error {
	return w.insist(func() error {
		_, err := door.CreateSession(w.Context(), object{"id": id, "input": input, "config": object{
			"model": object{"provider": "openai-compatible", "model": "m", "baseUrl": w.model},
			"tools": []string{"files.*"}, "approvals": object{"default": "action"},
		}})
		return err
	})
}

// until waits for a run to have a status.
func (w *world) until(door *client.Client, session, run, status string) (r api.Run, err error) {
	for end := time.Now().Add(hang); ; {
		err = w.insist(func() (err error) {
			r, err = door.Run(w.Context(), session, run, poll)
			return err
		})
		over := slices.Contains([]string{"completed", "failed", "cancelled"}, r.Status)
		if err != nil || r.Status == status {
			return r, err
		}
		if over || time.Now().After(end) {
			text, _ := json.Marshal(r) // it came as JSON
			return r, errors.New(session + " does not come to be " + status + ": " + string(text))
		}
	}
}

// firstRun is the run that a session is opened with.
const firstRun = "run_1"

// approve decides what a session's first run waits for.
func (w *world) approve(door *client.Client, session string) error {
	r, err := w.until(door, session, firstRun, "waiting")
	if err == nil && len(r.Approvals) != 1 {
		err = fmt.Errorf("%s asks for %d approvals", session, len(r.Approvals))
	}
	if err != nil {
		return err
	}
	decision := api.DecideApproval{Verdict: api.Verdict{Decision: "approve"}, SubmissionID: "decision"}
	return w.insist(func() error {
		_, err := door.Decide(w.Context(), session, r.Approvals[0].ID, decision)
		return err
	})
}

func (w *world) head(session string) (host.Head, error) {
	return w.table.Head(w.Context(), host.Key{Tenant: cloud.Tenant, Session: ident.SessionID(session)})
}

// eventually looks until it is so.
func (w *world) eventually(what string, so func() bool) {
	w.Helper()
	again := time.NewTicker(tick)
	defer again.Stop()
	for end := time.Now().Add(hang); !so(); <-again.C {
		require.True(w, time.Now().Before(end), what)
	}
}

// lastRole says whose the last message of a request is.
func lastRole(r openaitest.Request) string {
	var messages []struct{ Role string }
	if json.Unmarshal([]byte(r.Messages()), &messages) != nil || len(messages) == 0 {
		return ""
	}
	return messages[len(messages)-1].Role
}

// asks is the turn in which a model wants to write a file, which asks first.
func asks() openaitest.Reply {
	return openaitest.Calls(openaitest.Call{ID: "a", Name: "files_write", Arguments: `{"path":"a.md","content":"A"}`})
}
