package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/replay"
	"github.com/perdure/perdure/internal/api"
	"github.com/perdure/perdure/internal/client"
	"github.com/perdure/perdure/internal/env"
	"github.com/perdure/perdure/internal/local"
)

// counter is the outside tools' server: it counts how often each operation was
// carried out. It belongs to the test, so it survives every kill.
type counter struct {
	mu    sync.Mutex
	times map[string]int
	seed  *rand.Rand
}

// ServeHTTP does the work after a moment, so that kills fall into it.
func (c *counter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body) // what it says does not matter
	c.mu.Lock()
	c.times[r.Header.Get("Idempotency-Key")]++
	moment := time.Duration(c.seed.IntN(200)) * time.Millisecond
	c.mu.Unlock()
	timer := time.NewTimer(moment)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.Context().Done():
		return
	}
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprint(w, `{"result":"done"}`)
}

// often is the number of operations of a tool that were carried out n times or
// more.
func (c *counter) often(n int) (ops []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for op, times := range c.times {
		if times >= n {
			ops = append(ops, op)
		}
	}
	return ops
}

// plan is what one run of the test does: steps of the scripted model, and what
// the run must come to.
type plan struct {
	name  string
	steps string
}

// plans are all that can be in flight when the power goes.
func plans() []plan {
	return []plan{
		{"text", `[{"text":"a slow answer","delayMs":300}]`},
		{"parallel", `[{"calls":[{"tool":"files.list","arguments":{}},{"tool":"safe","arguments":{}},{"tool":"files.glob","arguments":{"pattern":"*"}}]},{"text":"done","delayMs":120}]`},
		{"once", `[{"calls":[{"tool":"once","arguments":{}}],"delayMs":120},{"calls":[{"tool":"once","arguments":{"again":true}}]},{"text":"done"}]`},
		{"approval", `[{"calls":[{"tool":"files.write","arguments":{"path":"notes.md","content":"one\n"}},{"tool":"safe","arguments":{}}]},{"text":"done"}]`},
		{"sleep", `[{"calls":[{"tool":"sleep","arguments":{"seconds":0.3}}]},{"text":"done","delayMs":120}]`},
		{"edit", `[{"calls":[{"tool":"files.edit","arguments":{"path":"list.md","old":"end\n","new":"line\nend\n"}}]},{"text":"done","delayMs":120}]`},
		{"twice", `[{"text":"first","calls":[{"tool":"once","arguments":{}},{"tool":"safe","arguments":{}}],"delayMs":150},{"text":"done"}]`},
	}
}

// crash is the state of one crash test.
type crash struct {
	*testing.T
	data  string
	rng   *rand.Rand
	once  *counter // the tool that must not run twice
	safe  *counter
	where string // the server's address, which changes with each start
	mu    sync.Mutex
	acked map[string]string // submission → run, of every answer that came
	runs  int               // that were submitted
	said  map[string]bool   // session and approval, of every acknowledged decision
}

// TestKillMinusNine starts twenty runs on a real server, kills it again and
// again, and looks at what has become of them.
func TestKillMinusNine(t *testing.T) {
	t.Parallel()
	seed := number(t, env.CrashSeed, rand.Uint64())
	kills := int(number(t, env.CrashKills, 3))
	t.Logf("%s=%d", env.CrashSeed, seed)
	c := &crash{
		T: t, data: t.TempDir(), rng: rand.New(rand.NewPCG(seed, 1)), acked: map[string]string{}, said: map[string]bool{},
		once: &counter{times: map[string]int{}, seed: rand.New(rand.NewPCG(seed, 2))},
		safe: &counter{times: map[string]int{}, seed: rand.New(rand.NewPCG(seed, 3))},
	}
	server := c.start()
	c.prepare(server)
	ctx, cancel := context.WithTimeout(t.Context(), hang)
	defer cancel()
	var callers sync.WaitGroup
	for kill := range kills {
		if kill%killsPerWave == 0 {
			for range wave {
				callers.Go(c.submit(ctx, c.runs))
				c.runs++
			}
		}
		c.moment(700)
		server.kill()
		server = c.start()
		if kill > 0 {
			callers.Go(func() { c.approve(ctx) })
		}
	}
	callers.Wait()
	require.NoError(t, ctx.Err(), "not every run was acknowledged: %s", server.log)
	c.finish(ctx, server)
	c.check()
	server.signal(t, syscall.SIGTERM)
	require.NoError(t, server.wait(t))
}

const (
	wave         = 20 // runs that are submitted at once
	sessions     = 10
	killsPerWave = 5
)

func number(t *testing.T, name string, otherwise uint64) uint64 {
	t.Helper()
	if text := os.Getenv(name); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		require.NoError(t, err)
		return n
	}
	return otherwise
}

func (c *crash) start() *child {
	server := startChild(c.T, c.data)
	c.mu.Lock()
	c.where = server.url
	c.mu.Unlock()
	return server
}

// moment lets a random time pass, in which anything may be under way.
func (c *crash) moment(mostMS int) {
	timer := time.NewTimer(time.Duration(c.rng.IntN(mostMS)) * time.Millisecond)
	defer timer.Stop()
	<-timer.C
}

// client is one of the server that is there now.
func (c *crash) client() *client.Client {
	c.mu.Lock()
	defer c.mu.Unlock()
	return (&child{url: c.where}).client(c.T, c.data)
}

func session(i int) string { return "s" + strconv.Itoa(i%sessions) }

// prepare sets tools and sessions up, before the first kill.
func (c *crash) prepare(server *child) {
	cl := server.client(c.T, c.data)
	for name, tool := range map[string]*counter{"once": c.once, "safe": c.safe} {
		outside := httptest.NewServer(tool)
		c.Cleanup(outside.Close)
		require.NoError(c, cl.PutTool(c.Context(), name, map[string]any{
			"target": "http", "url": outside.URL, "description": "Counts.", "kind": "read", "retrySafe": name == "safe", "parallel": true,
			"completion": "joined", "parameters": map[string]any{"type": "object"},
		}))
	}
	for i := range sessions {
		_, err := cl.CreateSession(c.Context(), map[string]any{"id": session(i), "config": map[string]any{
			"model": map[string]any{"provider": "scripted", "model": "script"}, "tools": []string{"files.*", "sleep", "once", "safe"},
			"approvals": map[string]any{"tools": map[string]any{"files.edit": map[string]any{"require": false}}},
		}})
		require.NoError(c, err)
		seedFile(c.T, c.data, session(i), "list.md", "end\n")
	}
}

// seedFile puts a file into a session's private workspace, as a tool would.
func seedFile(t *testing.T, data, session, name, text string) {
	t.Helper()
	folder := filepath.Join(data, "workspaces", "local", "own", session, "files")
	require.NoError(t, os.MkdirAll(folder, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600))
}

// submit asks for a run until the server says that it has it: an answer that
// never came may have been given.
func (c *crash) submit(ctx context.Context, i int) func() {
	r := request(i)
	return func() {
		for ctx.Err() == nil {
			run, err := c.client().StartRun(ctx, session(i), r, 0)
			if err == nil {
				c.mu.Lock()
				c.acked[r.SubmissionID] = run.ID
				c.mu.Unlock()
				return
			}
			// A full queue is emptied by and by.
			if code := client.Code(err); code != "" && code != "unavailable" && code != "limit_reached" {
				c.Errorf("submission %s: %s", r.SubmissionID, err)
				return
			}
		}
	}
}

// request is the i-th run.
func request(i int) api.RequestRun {
	p := plans()[i%len(plans())]
	return api.RequestRun{
		Input: api.Input{{Type: "text", Text: api.Text{Text: p.name}}}, SubmissionID: fmt.Sprintf("%s-%d", p.name, i),
		Config: &api.RunConfig{Params: api.Object(`{"steps":` + p.steps + `}`)},
	}
}

// finish approves what waits until every run is over.
func (c *crash) finish(ctx context.Context, server *child) {
	cl := c.client()
	for i := range c.runs {
		for {
			run, err := cl.Run(ctx, session(i), c.acked[request(i).SubmissionID], 1)
			require.NoError(c, err, "%s", server.log)
			if run.Status == "completed" || run.Status == "failed" || run.Status == "cancelled" {
				break
			}
			c.approve(ctx)
		}
	}
}

// approve approves what waits now, as far as the server lives long enough.
func (c *crash) approve(ctx context.Context) {
	cl := c.client()
	page, err := cl.Approvals(ctx, nil)
	if err != nil {
		return
	}
	for _, a := range page.Items {
		if a.SessionID == local.DemoSession {
			continue
		}
		_, err := cl.Decide(ctx, a.SessionID, a.ID, api.DecideApproval{Verdict: api.Verdict{Decision: "approve"}})
		if code := client.Code(err); code != "" && code != "unavailable" {
			c.Errorf("%s of %s in %s: %s", a.ID, a.RunID, a.SessionID, err)
		}
		if err == nil {
			c.mu.Lock()
			c.said[a.SessionID+" "+a.ID] = true
			c.mu.Unlock()
		}
	}
}

// check holds what the server says against what the outside saw.
func (c *crash) check() {
	ctx, cl := c.Context(), c.client()
	require.Empty(c, c.once.often(2), "a tool that is not retry-safe ran twice")
	lines, unknown, edits := map[string]int{}, 0, 0
	for i := range c.runs {
		r := request(i)
		id := r.SubmissionID
		again, err := cl.StartRun(ctx, session(i), r, 0)
		require.NoError(c, err)
		require.Equal(c, c.acked[id], again.ID, "an acknowledged submission is another run now")
		require.Equal(c, "completed", again.Status, "%s: %+v", id, again.Failure)
		for _, a := range again.Approvals {
			require.Equal(c, "approved", a.Status, "%s of %s", a.ID, id)
			delete(c.said, session(i)+" "+a.ID)
		}
		calls, err := cl.Calls(ctx, session(i), again.ID)
		require.NoError(c, err)
		for _, call := range calls.Items {
			switch {
			case call.Status == "completed":
				if call.Tool == "files.edit" {
					lines[session(i)]++
				}
			case call.Status == "unknown" && (call.Tool == "once" || call.Tool == "files.edit"):
				unknown++
				if call.Tool == "files.edit" {
					edits++
				}
			default:
				c.Errorf("%s: call of %s is %s: %s", id, call.Tool, call.Status, call.Error.Text)
			}
		}
	}
	require.Empty(c, c.said, "an acknowledged decision is not there")
	interrupted := 0
	for i := range sessions {
		log, err := cl.Log(ctx, session(i), 0)
		require.NoError(c, err)
		data, err := io.ReadAll(log)
		require.NoError(c, err)
		_, err = replay.Fold(data, 0)
		require.NoError(c, err, "the log of %s does not fold", session(i))
		for _, line := range replay.Lines(data) {
			if strings.Contains(line, "reason=interrupted") || strings.Contains(line, "reason=lookup") || strings.Contains(line, "status=unknown") {
				interrupted++
			}
		}
	}
	c.Logf("kills cut %d attempt(s) off; %d outcome(s) unknown, %d edit(s) among them", interrupted, unknown, edits)
	c.checkEdits(lines, edits)
}

// checkEdits counts lines: an edit adds one, so two would show. One of unknown
// outcome may have added its own.
func (c *crash) checkEdits(completed map[string]int, unknown int) {
	for i := range sessions {
		data, err := os.ReadFile(filepath.Join(c.data, "workspaces", "local", "own", session(i), "files", "list.md"))
		require.NoError(c, err)
		got := 0
		for _, b := range data {
			if b == '\n' {
				got++
			}
		}
		require.GreaterOrEqual(c, got, completed[session(i)]+1, "lines of list.md in %s", session(i))
		require.LessOrEqual(c, got, completed[session(i)]+1+unknown, "lines of list.md in %s", session(i))
	}
}

// TestManyStopsDuringOneTurn: a deploy is no failure. Ten graceful stops fall
// into one slow model call, and the run completes.
func TestManyStopsDuringOneTurn(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	server := startChild(t, data)
	cl := server.client(t, data)
	_, err := cl.CreateSession(t.Context(), map[string]any{"id": "s", "config": map[string]any{
		"model": map[string]any{"provider": "scripted", "model": "script", "params": json.RawMessage(`{"steps":[{"text":"at last it is said","delayMs":1500}]}`)},
	}, "input": "say it"})
	require.NoError(t, err)
	for range 10 {
		_, err := server.client(t, data).Run(t.Context(), "s", "run_1", 0)
		require.NoError(t, err)
		server.signal(t, syscall.SIGTERM)
		require.NoError(t, server.wait(t), "%s", server.log)
		server = startChild(t, data)
	}
	cl = server.client(t, data)
	run, err := cl.Run(t.Context(), "s", "run_1", 20)
	require.NoError(t, err)
	require.Equal(t, "completed", run.Status, "%+v", run.Failure)
	require.Equal(t, "at last it is said", run.Output.Text)
}
