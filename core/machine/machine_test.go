package machine_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/machine"
	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/core/wire"
)

// TestStateMovesOnlyOnCommit: until its entries are durable a step is nothing,
// however often it is taken, and a commit of another head is refused.
func TestStateMovesOnlyOnCommit(t *testing.T) {
	t.Parallel()
	p := filled(t, 50)
	before := wire.StateSum(p.m.State())
	env := session.Env{At: p.at, Driver: true, Offer: offer()}
	first, err := p.m.Step(env, nil, asks(p.turn()))
	require.NoError(t, err)
	require.Equal(t, before, wire.StateSum(p.m.State()))

	second, err := p.m.Step(env, nil, asks(p.turn()))
	require.NoError(t, err)
	require.Equal(t, first.Entries, second.Entries)
	require.Equal(t, before, wire.StateSum(p.m.State()))

	head := second.Entries[len(second.Entries)-1].Seq
	require.Error(t, p.m.Commit(head+1))
	require.NoError(t, p.m.Commit(head))
	require.Equal(t, head, p.m.Head())
	require.NoError(t, p.m.Commit(head), "to commit again is nothing")
}

// TestTimeDoesNotGoBack: an instant before the last entry's is refused.
func TestTimeDoesNotGoBack(t *testing.T) {
	t.Parallel()
	p := open(t)
	_, err := p.m.Step(session.Env{At: p.at - 1}, nil)
	require.ErrorIs(t, err, machine.ErrTime)
	_, err = p.m.Step(session.Env{At: p.at}, nil)
	require.NoError(t, err)
}

// TestTwoMachinesOnOneState step at the same time, as two admissions of one
// process do that hold the same cached state. Neither writes where the other
// reads or writes; the race detector looks on.
func TestTwoMachinesOnOneState(t *testing.T) {
	t.Parallel()
	p := filled(t, 50)
	s := p.m.State()
	sum, turn := wire.StateSum(s), p.turn()
	var sums [2]string
	var wg sync.WaitGroup
	for i := range sums {
		wg.Go(func() {
			m := machine.New(s)
			env := session.Env{At: p.at, Driver: true, Offer: offer()}
			for _, in := range []session.Command{asks(turn), answers(turn)} {
				rd, err := m.Step(env, nil, in)
				if err != nil || m.Commit(rd.Entries[len(rd.Entries)-1].Seq) != nil {
					return
				}
			}
			sums[i] = wire.StateSum(m.State())
		})
	}
	wg.Wait()
	require.NotEmpty(t, sums[0])
	require.Equal(t, sums[0], sums[1])
	require.Equal(t, sum, wire.StateSum(s))
}

// TestEffectsAreOfTheStep: what was in flight before is not started again, what
// nobody waits for is stopped, and after a driver was lost all is to be done.
func TestEffectsAreOfTheStep(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.ask()
	rd := p.step(asks(1))
	require.Equal(t, []session.Effect{&session.RunTool{Run: 1, Call: ident.CallID{Turn: 1, Index: 1}, Attempt: 1}}, rd.Effects)
	require.Empty(t, rd.Cancels)

	rd = p.step(&session.SteerRun{Run: 1, Text: []session.Part{{MediaType: "image/png", Blob: "sha256:0", Size: 1}}})
	require.Empty(t, rd.Effects)
	require.Empty(t, rd.Cancels)

	rd = p.step(&session.Resume{})
	require.Equal(t, []session.Effect{&session.RunTool{Run: 1, Call: ident.CallID{Turn: 1, Index: 1}, Attempt: 2}}, rd.Effects)
	require.Empty(t, rd.Cancels)

	rd = p.step(&session.CancelRun{Run: 1})
	require.Empty(t, rd.Effects)
	require.Equal(t, []session.Claim{{Kind: session.ClaimTool, Turn: 1, Call: 1, Attempt: 2}}, rd.Cancels)
}
