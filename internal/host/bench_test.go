package host_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	sqlite3 "github.com/ncruces/go-sqlite3"
	_ "github.com/ncruces/go-sqlite3/vfs"
	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/internal/adapter/gosched"
	"github.com/perdure/perdure/internal/adapter/sqlite"
	"github.com/perdure/perdure/internal/host"
	"github.com/perdure/perdure/internal/tool"
	"github.com/perdure/perdure/internal/tool/control"
)

// instant is a model that answers at once: a tool call each turn, and an
// answer after turns of them.
type instant struct {
	turns int
	tool  string
	final *sync.Map // session → chan struct{}: its last answer is on the way
}

func (m instant) finalOf(s ident.SessionID) chan struct{} {
	v, _ := m.final.LoadOrStore(s, make(chan struct{}, 100))
	c, _ := v.(chan struct{})
	return c
}

func (m instant) Model(context.Context, ident.TenantID, session.Model) (host.ModelPort, error) {
	return m, nil
}

func (instant) Info(session.Model) host.ModelInfo { return host.ModelInfo{} }

func (m instant) Generate(_ context.Context, req host.ModelRequest, _ func(host.Delta)) (host.ModelResult, error) {
	n := 0
	for i := len(req.Messages) - 1; i >= 0 && req.Messages[i].Role != host.RoleUser; i-- {
		if req.Messages[i].Role == host.RoleAssistant {
			n++
		}
	}
	res := host.ModelResult{Text: "a few words of an answer", Finish: host.FinishStop, Usage: session.Usage{Input: 100, Output: 20}}
	if n < m.turns {
		res.Calls = []host.ModelCall{call("c", m.tool, `{"x":"some argument of usual length"}`)}
	} else {
		m.finalOf(req.Session) <- struct{}{}
	}
	return res, nil
}

// rig is an engine on SQLite with an instant model and an instant tool.
type rig struct {
	b      *testing.B
	store  *sqlite.Store
	engine *host.Engine
	model  instant
	window int64 // messages; 0 is 1,000
}

// instantRead is a tool that answers at once.
func instantRead() tool.Spec {
	return tool.Spec{
		Name: "t.read", Kind: tool.KindRead, Parallel: true, RetrySafe: true, Description: "reads", Parameters: anything,
		Run: func(context.Context, host.ToolCall) (host.ToolResult, error) {
			return host.ToolResult{Text: strings.Repeat("result ", 20)}, nil
		},
	}
}

func newRig(b *testing.B, turns int, name string, specs ...tool.Spec) *rig {
	b.Helper()
	store, err := sqlite.Open(b.TempDir(), sqlite.Options{})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, store.Close()) })
	tools, err := tool.New(nil, append(specs, instantRead()), control.Tools())
	require.NoError(b, err)
	m := instant{turns, name, &sync.Map{}}
	e := host.New(host.Deps{
		Log: store, Blobs: store, Checkpoints: store, Stash: store, Models: m, Tools: tools, Sched: gosched.New(),
	}, host.Options{})
	ctx, cancel := context.WithCancel(context.Background())
	require.NoError(b, e.Start(ctx))
	b.Cleanup(cancel)
	b.Cleanup(func() { require.NoError(b, e.Stop(context.Background())) })
	return &rig{b, store, e, m, 0}
}

func (r *rig) do(k host.Key, c session.Command) host.Done {
	d, err := r.engine.Do(context.Background(), k, host.Prepared{Command: c})
	if err != nil {
		panic(err)
	}
	return d
}

func (r *rig) open(k host.Key) {
	c := config("t.*")
	c.Limits.MaxTurns = 1 << 40
	c.Context.Window.MaxMessages = 1000
	if r.window > 0 {
		c.Context.Window.MaxMessages = r.window
	}
	r.do(k, &session.OpenSession{Inc: "inc", Config: c, Asked: asked("")})
}

// run plays one run to its end.
func (r *rig) run(k host.Key) {
	r.do(k, &session.RequestRun{Input: text("go"), Asked: asked("")})
	<-r.model.finalOf(k.Session)
	r.idle(k, func(s *session.State) bool { return s.Active == nil })
}

func (r *rig) idle(k host.Key, ok func(*session.State) bool) {
	for {
		d, err := r.engine.View(context.Background(), k)
		if err != nil {
			panic(err)
		}
		if ok(&d.State) {
			return
		}
		if _, err := r.engine.WaitAny(context.Background(), -1, r.engine.Watch(k, d.State.Seq)); err != nil {
			panic(err)
		}
	}
}

// raw commits the same number of bytes through the driver, as one insert per
// commit, synchronous=FULL.
type raw struct {
	db   *sqlite3.Conn
	stmt *sqlite3.Stmt
	n    int64
}

func newRaw(b *testing.B) *raw {
	b.Helper()
	db, err := sqlite3.Open("file:" + b.TempDir() + "/raw.db")
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, db.Close()) })
	for _, s := range []string{"PRAGMA journal_mode=WAL", "PRAGMA synchronous=FULL", "CREATE TABLE t (id INTEGER PRIMARY KEY, data BLOB)"} {
		require.NoError(b, db.Exec(s))
	}
	stmt, _, err := db.Prepare("INSERT INTO t VALUES (?, ?)")
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, stmt.Close()) })
	return &raw{db: db, stmt: stmt}
}

func (r *raw) commit(data []byte) {
	r.n++
	if err := r.stmt.BindInt64(1, r.n); err != nil {
		panic(err)
	}
	if err := r.stmt.BindBlob(2, data); err != nil {
		panic(err)
	}
	if err := r.stmt.Exec(); err != nil {
		panic(err)
	}
}

// BenchmarkTurn measures one session's turn (a model and a tool call, both
// durable) against two raw commits of the same bytes, side by side.
func BenchmarkTurn(b *testing.B) {
	const turns = 40
	r, raw := newRig(b, turns, "t.read"), newRaw(b)
	k := key("s1")
	r.open(k)
	r.run(k)
	before := r.store.Stats()
	var ours, theirs time.Duration
	data := make([]byte, 1500)
	b.ResetTimer()
	n := 0
	for b.Loop() {
		t0 := time.Now()
		r.run(k)
		ours += time.Since(t0)
		n += turns
		s := r.store.Stats()
		per := int((s.Bytes - before.Bytes) / int64(n) / 2)
		if per != len(data) {
			data = make([]byte, per)
		}
		t0 = time.Now()
		for range 2 * turns {
			raw.commit(data)
		}
		theirs += time.Since(t0)
	}
	s := r.store.Stats()
	b.ReportMetric(float64(ours.Microseconds())/float64(n), "µs/turn")
	b.ReportMetric(float64(theirs.Microseconds())/float64(n), "µs/2raw")
	b.ReportMetric(float64(ours)/float64(theirs), "ratio")
	b.ReportMetric(float64(s.Transactions-before.Transactions)/float64(n), "syncs/turn")
	b.ReportMetric(float64(s.Bytes-before.Bytes)/float64(n), "B/turn")
}

// BenchmarkManySessions measures turns per second of 200 sessions at once
// against one session's.
func BenchmarkManySessions(b *testing.B) {
	const turns, sessions = 20, 200
	r := newRig(b, turns, "t.read")
	keys := make([]host.Key, sessions)
	for i := range keys {
		keys[i] = key(fmt.Sprint("s", i))
		r.open(keys[i])
	}
	var one, many time.Duration
	n := 0
	b.ResetTimer()
	for b.Loop() {
		t0 := time.Now()
		for range 5 {
			r.run(keys[0])
		}
		one += time.Since(t0) / 5
		t0 = time.Now()
		var wg sync.WaitGroup
		for _, k := range keys {
			wg.Go(func() { r.run(k) })
		}
		wg.Wait()
		many += time.Since(t0)
		n++
	}
	perOne := float64(n*turns) / one.Seconds()
	perMany := float64(n*turns*sessions) / many.Seconds()
	b.ReportMetric(perOne, "turns/s-1")
	b.ReportMetric(perMany, "turns/s-200")
	b.ReportMetric(perMany/perOne, "ratio")
}

// BenchmarkWake measures the time from a decision to the start of the approved
// call.
func BenchmarkWake(b *testing.B) {
	began := make(chan time.Time, 1)
	write := tool.Spec{
		Name: "t.write", Kind: tool.KindAction, Description: "writes", Parameters: anything,
		Run: func(context.Context, host.ToolCall) (host.ToolResult, error) {
			began <- time.Now()
			return host.ToolResult{Text: "ok"}, nil
		},
	}
	r := newRig(b, 1<<40, "t.write", write)
	k := key("s1")
	r.open(k)
	r.do(k, &session.RequestRun{Input: text("go"), Asked: asked("")})
	var waits []time.Duration
	id := ident.ApprovalID(0)
	for b.Loop() {
		id++
		r.idle(k, func(s *session.State) bool {
			return s.Cursors.Approval == id && s.Active.RunStatus() == session.RunWaits
		})
		t0 := time.Now()
		r.do(k, decide(true, "", id))
		waits = append(waits, (<-began).Sub(t0))
	}
	slices.Sort(waits)
	at := func(p int) float64 { return float64(waits[(len(waits)-1)*p/100].Microseconds()) / 1000 }
	b.ReportMetric(at(50), "ms-p50")
	b.ReportMetric(at(99), "ms-p99")
	r.do(k, &session.CloseSession{Force: true, Asked: asked("")})
}
