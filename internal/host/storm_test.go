package host_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/core/wire"
	"github.com/perdure/perdure/internal/adapter/memory"
	"github.com/perdure/perdure/internal/adapter/simsched"
	"github.com/perdure/perdure/internal/host"
	"github.com/perdure/perdure/internal/tool"
)

var (
	storms   = flag.Int("storms", stormsPlayed, "how many seeds the storm is played under")
	oneStorm = flag.Uint64("storm", 0, "play the storm under this seed alone")
)

// storm is a process over one store that is killed again and again, among
// faults of the store, while people, an outside world and tools work with it.
type storm struct {
	*labWorld
	rng  *rand.Rand
	seed uint64

	front  *host.Engine // people's, where it is not the process itself
	pick   func()       // chooses that, where there are several
	kill   func()       // what a kill is
	twins  bool         // processes may be at the same work, and only one is heard
	dead   bool
	over   bool // no more kills and faults
	killIn int  // at this operation of the store, from now
	kills  int
	full   ident.Instant // until when the disk is full

	sessions []host.Key
	acks     []ack
	tokens   []string // of joined calls, to be settled from outside
	ran      map[string]int
	by       map[string]host.ToolCall // operations that must not run twice
	answered map[string]int           // by which process, of turns
	wrong    []string
	sent     map[string]bool // writes that were tried
	decided  map[string]bool // approvals that were answered, by their session and id
	people   []host.Signal
}

// ack is a command that was acknowledged.
type ack struct {
	key     host.Key
	command func() session.Command
	reply   session.Reply
}

func (s *storm) choose(n int) int { return s.rng.IntN(n) }

func (s *storm) chance(percent int) bool { return s.rng.IntN(100) < percent }

// inject makes the store's faults, and kills the process at a chosen operation.
func (s *storm) inject(_ context.Context, op memory.Op, when memory.When) error {
	if s.rng == nil || s.over {
		return nil
	}
	if s.killIn--; s.killIn == 0 && !s.dead {
		s.kill()
	}
	commit := op.Name == "log.commit"
	if commit {
		defer func() { s.sent[op.Commit.Head.Write] = true }()
	}
	switch {
	case commit && when == memory.Before && s.sim.Now() < s.full:
		return host.ErrFull
	case commit && when == memory.Before && !s.sent[op.Commit.Head.Write] && s.chance(4):
		// Never after a try: a write that has landed is known by its id.
		return memory.ErrInjectConflict
	case commit && s.chance(3): // before: not written; after: the answer is lost
		return errIO
	case !commit && when == memory.Before && s.chance(1):
		return errIO
	}
	return nil
}

// generate is a model that chooses by what it reads alone: the same request
// gets the same answer, as a retry should.
func (s *storm) generate(ctx context.Context, req host.ModelRequest, sink func(host.Delta)) (host.ModelResult, error) {
	turn, input := 0, ""
	for _, m := range slices.Backward(req.Messages) {
		if m.Role == host.RoleAssistant {
			turn++
		} else if m.Role == host.RoleUser {
			input = m.Parts[0].Text
			break
		}
	}
	h := fnv.New64a()
	fmt.Fprint(h, s.seed, req.Session, input, turn, len(req.Messages))
	pick := rand.New(rand.NewPCG(h.Sum64(), 1))
	// I11: what this process has answered already it must not ask again.
	name := string(req.Session) + " " + req.Attempt[:strings.LastIndex(req.Attempt, "/")]
	if s.answered[name] == s.process && !s.twins {
		s.wrong = append(s.wrong, name+" is generated again")
	}
	sink(host.Delta{Part: "text", Text: "hm "})
	if err := s.sim.Sleep(ctx, 5+int64(pick.IntN(60))); err != nil {
		return host.ModelResult{}, err
	}
	switch {
	case s.chance(3) && !s.over:
		return host.ModelResult{}, &host.Fault{Class: host.ClassServer, Message: "503", Sent: true}
	case turn >= 3 || req.NoTools:
		s.answered[name] = s.process
		return said("enough")
	}
	x := fmt.Sprintf(`{"x":"%d"}`, pick.IntN(1000))
	s.answered[name] = s.process
	switch pick.IntN(8) {
	case 0:
		return said("reading", call("a", "t.read", x), call("b", "t.read", x), call("c", "t.once", x))
	case 1:
		return said("", call("a", "t.write", x))
	case 2:
		return said("", call("a", "t.write", x), call("b", "t.write", x), call("c", "t.read", x))
	case 3:
		return said("", call("a", "t.joined", x), call("b", "t.read", x))
	case 4:
		return said("", call("a", "sleep", `{"seconds":1.5}`), call("b", "t.once", x))
	case 5:
		return said("", call("a", "t.once", x), call("b", "t.once", x))
	}
	return said("done")
}

func (s *storm) specs(sim *simsched.Sim) []tool.Spec {
	run := func(once bool) func(context.Context, host.ToolCall) (host.ToolResult, error) {
		return func(ctx context.Context, c host.ToolCall) (host.ToolResult, error) {
			s.ran[c.Operation]++
			if once {
				s.by[c.Operation] = c
			}
			if err := sim.Sleep(ctx, int64(s.choose(150))); err != nil {
				return host.ToolResult{}, err
			}
			if s.chance(5) && !s.over {
				return host.ToolResult{}, &host.Fault{Class: host.ClassNetwork, Message: "connection lost", Sent: true}
			}
			return host.ToolResult{Text: c.Tool + " " + c.Arguments}, nil
		}
	}
	later := func(_ context.Context, c host.ToolCall) (host.ToolResult, error) {
		s.tokens = append(s.tokens, c.Token)
		return host.ToolResult{Accepted: true}, nil
	}
	return []tool.Spec{
		{Name: "t.read", Kind: tool.KindRead, Parallel: true, RetrySafe: true, Description: "reads", Parameters: anything, Run: run(false)},
		{Name: "t.once", Kind: tool.KindRead, Parallel: true, Description: "must not run twice", Parameters: anything, Run: run(true)},
		{Name: "t.write", Kind: tool.KindAction, Description: "asks first, and must not run twice", Parameters: anything, Run: run(true)},
		{Name: "t.joined", Kind: tool.KindRead, Class: session.ClassJoined, Parallel: true, RetrySafe: true, DeadlineMs: 60_000, Description: "answers from outside", Parameters: anything, Run: later},
	}
}

// ask sends a command as a client does: what is not answered in time, or not
// known, is sent again under the same key.
func (s *storm) ask(ctx context.Context, k host.Key, command func() session.Command) {
	for range 4000 {
		if s.pick != nil {
			s.pick()
		}
		// Who asks the process itself dies with it: his request does.
		e, group := s.front, "world"
		if e == nil {
			e, group = s.engine, fmt.Sprint("process", s.process)
		}
		actx, cancel := context.WithCancel(simsched.WithGroup(ctx, group))
		done := s.sim.NewSignal()
		var d host.Done
		var err error
		s.sim.Go(actx, "ask", func(ctx context.Context) {
			if s.front == nil && (s.dead || e != s.engine) {
				return // nobody listens
			}
			d, err = e.Do(ctx, k, host.Prepared{Command: command()})
			done.Fire()
		})
		at, waitErr := s.sim.WaitAny(ctx, 3000, done)
		cancel()
		if waitErr != nil {
			return
		}
		var rej *session.Rejection
		switch {
		case at == 0 && err == nil:
			s.acks = append(s.acks, ack{k, command, d.Replies[0]})
			return
		case at == 0 && errors.As(err, &rej):
			return
		}
		if s.sim.Sleep(ctx, int64(50+s.choose(200))) != nil {
			return
		}
	}
	s.wrong = append(s.wrong, fmt.Sprintf("a command on %s was never answered", k))
}

// person works with one session.
func (s *storm) person(ctx context.Context, k host.Key) {
	n := 0
	key := func() session.Asked {
		n++
		return asked(fmt.Sprint(k.Session, "-", n))
	}
	s.ask(ctx, k, func() session.Command {
		c := config("t.*", "sleep")
		c.Limits.MaxTurns = 2 + int64(s.choose(4))
		return &session.OpenSession{Inc: "i-" + string(k.Session), Config: c, Asked: asked("")}
	})
	for range 7 {
		if s.sim.Sleep(ctx, int64(s.choose(900))) != nil {
			return
		}
		a, words := key(), fmt.Sprint("do ", s.choose(1000))
		run := ident.RunID(1 + s.choose(4))
		switch s.choose(10) {
		case 0, 1, 2, 3:
			s.ask(ctx, k, func() session.Command { return &session.RequestRun{Input: text(words), Asked: a} })
		case 4, 5:
			s.ask(ctx, k, func() session.Command {
				return &session.RequestRun{Input: text(words), Mode: session.ModeSteer, Asked: a}
			})
		case 6:
			s.ask(ctx, k, func() session.Command {
				return &session.RequestRun{Input: text(words), Mode: session.ModeInterrupt, Asked: a}
			})
		case 7, 8:
			s.ask(ctx, k, func() session.Command { return &session.SteerRun{Run: run, Text: text(words), Asked: a} })
		default:
			s.ask(ctx, k, func() session.Command { return &session.CancelRun{Run: run, Asked: a} })
		}
	}
}

// approver answers what waits for a person, whichever way.
func (s *storm) approver(ctx context.Context) {
	for s.sim.Sleep(ctx, 150) == nil {
		todo, err := s.store.Todo(ctx, "t1", "apr#", nil, 20)
		if err != nil {
			continue
		}
		for _, row := range todo {
			name := string(row.Session) + row.Row.Key
			if s.decided[name] {
				continue
			}
			s.decided[name] = true
			var n int
			_, err := fmt.Sscanf(row.Row.Key[strings.LastIndex(row.Row.Key, "#")+1:], "%d", &n)
			check(err)
			yes, k := s.chance(70), key(string(row.Session))
			s.ask(ctx, k, func() session.Command {
				return &session.DecideApprovals{
					Decisions: []session.Decision{{Approval: ident.ApprovalID(n), Approve: yes}}, Asked: asked("apr-" + strconv.Itoa(n)),
				}
			})
		}
	}
}

// outside settles the promises of joined calls, some of them twice.
func (s *storm) outside(ctx context.Context) {
	for s.sim.Sleep(ctx, 120) == nil {
		for len(s.tokens) > 0 {
			token := s.tokens[0]
			s.tokens = s.tokens[1:]
			claim, ok := s.deps.Keys.Open(token)
			if !ok {
				s.wrong = append(s.wrong, "a token does not open: "+token)
				continue
			}
			for range 1 + s.choose(2) {
				s.ask(ctx, claim.Key, func() session.Command {
					return &session.SettlePromise{Promise: claim.Promise, Status: session.Resolved, Value: blob.Inline("from outside"), Asked: asked("")}
				})
			}
		}
	}
}

// supervise kills the process at random moments, and starts it again.
func (s *storm) supervise(ctx context.Context) {
	for {
		if s.over && !s.dead {
			return
		}
		if s.dead {
			s.kills++
			check(s.sim.Sleep(ctx, int64(s.choose(300))))
			e := host.New(s.deps, s.options)
			if e.Start(s.group(ctx)) != nil {
				s.crash(ctx)
				continue
			}
			s.engine, s.dead = e, false
			s.killIn = 20 + s.choose(400)
			continue
		}
		if s.sim.Sleep(ctx, int64(20+s.choose(60))) != nil {
			return
		}
		switch dice := s.choose(100); {
		case s.over || s.dead:
		case dice < 2:
			s.dead = true
			s.crash(ctx)
		case dice < 4:
			s.full = s.sim.Now().Add(int64(200 + s.choose(3000)))
		}
	}
}

// rage plays the storm and returns when it is over and all is at rest.
func (s *storm) rage(ctx context.Context) {
	s.over = true
	if s.seed%3 == 0 {
		s.options.WatchMs = 200
		s.crash(ctx)
		s.start(s.group(ctx))
		o := s.options
		o.AdmitOnly = true
		s.front = host.New(s.deps, o)
		check(s.front.Start(simsched.WithGroup(ctx, "front")))
	}
	s.over, s.killIn = false, 50+s.choose(300)
	world := simsched.WithGroup(ctx, "world")
	for i := range 3 {
		k, done := key(fmt.Sprint("s", i)), s.sim.NewSignal()
		s.sessions, s.people = append(s.sessions, k), append(s.people, done)
		s.sim.Go(world, "person", func(ctx context.Context) {
			s.person(ctx, k)
			done.Fire()
		})
	}
	s.sim.Go(world, "approver", s.approver)
	s.sim.Go(world, "outside", s.outside)
	s.sim.Go(world, "supervisor", s.supervise)
	for _, p := range s.people {
		at, err := s.sim.WaitAny(ctx, ident.Hour, p)
		check(err)
		if at < 0 {
			s.wrong = append(s.wrong, "a person is still waiting")
		}
	}
	check(s.sim.Sleep(ctx, int64(s.choose(2000))))
	s.over = true
	for s.dead {
		check(s.sim.Sleep(ctx, 100))
	}
	// Nobody asks any more: it must come to rest by itself (I9).
	for range 600 {
		check(s.sim.Sleep(ctx, 1000))
		resting := true
		for _, k := range s.sessions {
			resting = resting && s.head(ctx, k).Drive.Status == host.DriveIdle
		}
		if resting {
			return
		}
	}
	for _, k := range s.sessions {
		require.Equal(s.t, host.DriveIdle, s.head(ctx, k).Drive.Status, "%s does not come to rest\n%s", k, s.dump(ctx, k))
	}
}

// calm checks what must hold after any storm.
func (s *storm) calm(ctx context.Context) {
	t := s.t
	require.Empty(t, s.wrong)
	for _, k := range s.sessions {
		h := s.head(ctx, k)
		require.Nil(t, h.Quarantine)
		require.Equal(t, host.DriveIdle, h.Drive.Status)
		require.Zero(t, h.DueAt)
		// I1, I2: the log is dense, and folds to the state that is in hand.
		var state session.State
		var at ident.Instant
		for i, en := range s.entries(ctx, k) {
			require.EqualValues(t, i+1, en.Seq)
			require.GreaterOrEqual(t, en.At, at)
			at = en.At
			require.NoError(t, session.Apply(&state, en))
		}
		d, err := s.engine.View(ctx, k)
		require.NoError(t, err)
		require.Equal(t, wire.StateSum(state), wire.StateSum(d.State))
		s.ended(ctx, k, state.Cursors.Run)
	}
	// I6, I7: what must not run twice did not, and what asks first was approved.
	for _, op := range slices.Sorted(maps.Keys(s.by)) {
		c := s.by[op]
		require.Equal(t, 1, s.ran[op], "%s %s of %s", c.Tool, c.Call, c.Key)
		if c.Tool == "t.write" {
			require.True(t, s.approved(ctx, c), "%s of %s ran without a word", c.Call, c.Key)
		}
	}
	// Acknowledged commands hold: sent once more they come to the same.
	for _, a := range s.acks {
		d, err := s.do(ctx, a.key, a.command())
		require.NoError(t, err)
		r := d.Replies[0]
		require.True(t, r.Same, "%T on %s", a.command(), a.key)
		switch a.command().(type) {
		case *session.RequestRun, *session.SteerRun, *session.CancelRun:
			require.Equal(t, a.reply.Run, r.Run)
			require.Equal(t, a.reply.Steering, r.Steering)
		}
	}
}

// ended checks that every accepted run came to an end, and every steer (I10).
func (s *storm) ended(ctx context.Context, k host.Key, runs ident.RunID) {
	for id := ident.RunID(1); id <= runs; id++ {
		v := s.run(ctx, k, id)
		require.NotZero(s.t, v.CompletedAt, "%s of %s is %s", id, k, v.Status)
		for _, st := range v.Steering {
			require.NotEqual(s.t, host.SteerPending, st.Status)
			switch st.Status {
			case host.SteerUndelivered:
				require.NotEqual(s.t, session.RunDone, v.Status, "a completed run has no undelivered steer")
				require.False(s.t, v.Failure != nil && v.Failure.Kind == session.FailLimit, "one ended by a limit neither")
			case host.SteerRequeued:
				require.NotZero(s.t, s.run(ctx, k, st.Next).CompletedAt)
			}
		}
	}
}

func (s *storm) approved(ctx context.Context, c host.ToolCall) bool {
	v := s.run(ctx, c.Key, c.Run)
	for _, a := range v.Approvals {
		if a.Call == c.Call && a.Status == session.Approved && a.Arguments.Text == c.Arguments {
			return true
		}
	}
	return false
}

func newStorm(seed uint64) *storm {
	return &storm{seed: seed, ran: map[string]int{}, by: map[string]host.ToolCall{}, decided: map[string]bool{}, sent: map[string]bool{}, answered: map[string]int{}}
}

// playStorm plays one storm and returns what is left of it.
func playStorm(t *testing.T, seed uint64) *storm {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Logf("this was storm %d; again with: go test -run TestStorm ./internal/host -storm %d", seed, seed)
		}
	}()
	s := newStorm(seed)
	s.kill = func() {
		s.dead = true
		s.crash(context.Background())
	}
	lab{
		seed: seed, reports: true, specs: s.specs, options: host.Options{IdleMs: 400, SweepMs: 500, CheckpointAt: 8 << 10},
		model:  func(*simsched.Sim) generate { return s.generate },
		inject: func(*simsched.Sim) memory.Injector { return s.inject },
	}.play(t, func(ctx context.Context, w *labWorld) {
		s.labWorld, s.rng = w, rand.New(rand.NewPCG(seed, 9))
		s.rage(ctx)
		s.calm(ctx)
		for _, r := range w.reports {
			require.NotContains(t, r, "panic")
			require.NotContains(t, r, "quarantine")
		}
		require.NoError(t, s.engine.Stop(ctx))
		require.Zero(t, s.engine.Live())
		if s.front != nil {
			require.NoError(t, s.front.Stop(ctx))
			require.Zero(t, s.front.Live())
		}
	})
	return s
}

// I1, I2, I6-I10, I12: a process killed at any point, again and again, among
// conflicts, lost answers, faults and a full disk, loses nothing that it has
// acknowledged and does nothing twice that must not be.
func TestStorm(t *testing.T) {
	t.Parallel()
	if *oneStorm != 0 {
		playStorm(t, *oneStorm)
		return
	}
	kills := 0
	for seed := range uint64(*storms) {
		kills += playStorm(t, seed).kills
	}
	// A storm that is found can be looked at: it is the same again.
	trace := playStorm(t, 3).sim.Trace()
	require.Equal(t, trace, playStorm(t, 3).sim.Trace())
	t.Logf("%d kills in %d storms", kills, *storms)
	require.Greater(t, kills, *storms)
}
