package faults

import (
	"fmt"
	"hash/fnv"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/internal/adapter/openai/openaitest"
	"github.com/perdure/perdure/internal/client"
	"github.com/perdure/perdure/internal/cloud"
	"github.com/perdure/perdure/internal/env"
)

// Several sessions at once, each with runs of several turns and a call in each
// that must not be made twice. Drives are killed while they ask the model and
// while they call, steps are invoked twice, commands come by an API that wakes
// nobody and by one whose wakes are throttled. Everything that was acknowledged
// ends, and nothing is done twice.
func TestAStormOfFaults(t *testing.T) {
	t.Parallel()
	const sessions, runs, turns = 4, 3, 4
	for i := range sessions {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			t.Parallel()
			w := visit(t)
			w.mortal()
			once := w.outside(nil)
			w.open(once.name)
			s := &storm{w: w, seed: i, killed: map[string]bool{}}
			w.model.Fallback = func(r openaitest.Request) openaitest.Reply {
				all := r.Messages()
				run := strings.Count(all, `"role":"user"`)
				done := strings.Count(all[strings.LastIndex(all, `"role":"user"`):], `"role":"tool"`)
				if s.strikes(fmt.Sprint("model ", run, done), 3) {
					s.kill(w.model.last())
				}
				if done == turns-1 {
					return openaitest.Text("Done.", 1)
				}
				return openaitest.Calls(openaitest.Call{ID: fmt.Sprint("c", run, done), Name: once.name, Arguments: fmt.Sprintf(`{"n":"%d of %d"}`, done, run)})
			}
			once.answers(func(a arrival) (int, object) {
				if s.strikes("tool "+a.OperationID, 4) {
					s.kill(a.from)
					<-a.gone
				}
				return http.StatusOK, object{"result": "done"}
			})
			doors := []*client.Client{w.api, w.careless(), w.throttledDoor()}
			for n := range runs {
				w.runBy(doors[(n+i)%len(doors)], fmt.Sprintf("Run %d of %d.", n, i))
			}
			if i%len(doors) == 0 {
				// A twin of the first step beside its machine, wherever that is by
				// now. It may be killed as well.
				if _, err := w.invoke(t.Context(), env.FunctionDrive, w.event(1, 1)); err != nil {
					require.ErrorContains(t, err, "Runtime.ExitError")
				}
			}
			w.claimed()
			w.sound()
			require.LessOrEqual(t, len(once.done()), runs*(turns-1))
			t.Logf("%d drives were killed", len(s.killed))
		})
	}
}

// throttledDoor is one of an API that may start and wake nobody.
func (w *world) throttledDoor() *client.Client {
	w.Helper()
	p := w.process(env.FunctionAPI, func(*cloud.Ports) {})
	for _, op := range []string{"StartExecution", "SendTaskSuccess"} {
		p.calls.inject(fault{op: op, times: 1 << 20, code: "ThrottlingException"})
	}
	return p.door()
}

// storm says where the next fault is. It strikes a place once.
type storm struct {
	w    *world
	seed int

	mu     sync.Mutex
	killed map[string]bool
}

// strikes says whether a place is one of those that are struck, one in so many.
func (s *storm) strikes(at string, in uint32) bool {
	h := fnv.New32a()
	_, _ = fmt.Fprint(h, s.seed, at)
	s.mu.Lock()
	defer s.mu.Unlock()
	if h.Sum32()%in != 0 || s.killed[at] {
		return false
	}
	s.killed[at] = true
	return true
}

// kill ends a function, if it is still there.
func (s *storm) kill(from link) {
	pid, err := owner(from)
	if err == nil {
		err = kill(pid)
	}
	if err != nil {
		s.w.Logf("not killed: %v", err) // its twin has taken its place already
	}
}
