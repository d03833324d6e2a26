package porttest

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/host"
)

// WakerWorld is a Waker with nothing started, and its clock.
type WakerWorld struct {
	Waker host.Waker
	// Park makes an activation wait with a token, good until the deadline (0:
	// without limit).
	Park func(ctx context.Context, key host.Key, inc string, epoch uint64, deadline ident.Instant) (token string, err error)
	Now  func() ident.Instant
	// Advance lets time pass: at once where it is simulated, and elsewhere until
	// it is seen that the deadlines before then have passed.
	Advance func(ms int64)
	// TokensBlur says that the engine gives no reliable reason why a token is no
	// good: any of the errors of a token will do.
	TokensBlur bool
	// NeedRefusals, if it is given, begins the cases that need the engine to
	// refuse a token that is no good any more while its activation lives, and
	// skips them where it does not.
	NeedRefusals func(tb testing.TB)
	// IncAlone says that activations are named by incarnation and epoch alone,
	// which is enough because no two sessions ever share an incarnation.
	IncAlone bool
}

type wakerCase struct {
	name string
	run  func(t *testing.T, w WakerWorld)
}

// Waker checks a host.Waker.
//
// Where the port leaves a choice the suite decides: parking under a name that
// was never started is ErrNotFound, under one that has ended ErrEnded; parking
// again makes the older token lost, unless it was completed; ending what was
// never started, or has ended, is harmless and starts nothing.
func Waker(t *testing.T, factory func(t *testing.T) WakerWorld) {
	t.Helper()
	for _, c := range []wakerCase{
		{"AnActivationLivesFromStartToEnd", wakerLife},
		{"StartingAgainIsHarmless", wakerStartAgain},
		{"AnEndedNameDoesNotStartAgain", wakerEnded},
		{"NamesAreSeparate", wakerNames},
		{"ATokenIsCompletedOnce", wakerOnce},
		{"ATokenTimesOut", wakerTimeout},
		{"ATokenThatTimedOutIsNoGood", wakerTimedOut},
		{"ATokenWithoutDeadlineWaits", wakerNoDeadline},
		{"AnUnknownTokenIsLost", wakerUnknown},
		{"TheTokenOfAnEndedActivationIsLost", wakerTokenEnded},
		{"ParkingAgainGivesANewToken", wakerParkAgain},
		{"AnOlderTokenIsNoGood", wakerOlder},
		{"OnlyWhatRunsCanPark", wakerParkNothing},
		{"ACancelledContextDoesNothing", wakerCancelled},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.run(t, factory(t))
		})
	}
}

func requireAlive(t *testing.T, w WakerWorld, key host.Key, epoch uint64, want bool) {
	t.Helper()
	alive, err := w.Waker.Alive(t.Context(), key, inc, epoch)
	require.NoError(t, err)
	require.Equal(t, want, alive)
}

func started(t *testing.T, w WakerWorld) host.Key {
	t.Helper()
	require.NoError(t, w.Waker.Start(t.Context(), keyOf("s1"), inc, 1))
	return keyOf("s1")
}

func park(t *testing.T, w WakerWorld, key host.Key, deadline ident.Instant) string {
	t.Helper()
	token, err := w.Park(t.Context(), key, inc, 1, deadline)
	require.NoError(t, err)
	require.NotEmpty(t, token)
	return token
}

func wakerLife(t *testing.T, w WakerWorld) {
	_, err := w.Waker.Alive(t.Context(), keyOf("s1"), inc, 1)
	require.ErrorIs(t, err, host.ErrNotFound)
	key := started(t, w)
	requireAlive(t, w, key, 1, true)
	for range 2 {
		require.NoError(t, w.Waker.End(t.Context(), key, inc, 1))
		requireAlive(t, w, key, 1, false)
	}
}

func wakerStartAgain(t *testing.T, w WakerWorld) {
	key := started(t, w)
	require.NoError(t, w.Waker.Start(t.Context(), key, inc, 1))
	requireAlive(t, w, key, 1, true)
	token := park(t, w, key, 0)
	require.NoError(t, w.Waker.Start(t.Context(), key, inc, 1))
	require.NoError(t, w.Waker.Complete(t.Context(), token))
}

func wakerEnded(t *testing.T, w WakerWorld) {
	key := started(t, w)
	require.NoError(t, w.Waker.End(t.Context(), key, inc, 1))
	require.ErrorIs(t, w.Waker.Start(t.Context(), key, inc, 1), host.ErrEnded)
	requireAlive(t, w, key, 1, false)
	require.NoError(t, w.Waker.Start(t.Context(), key, inc, 2))
	requireAlive(t, w, key, 2, true)

	// Ending what never started leaves the name free.
	require.NoError(t, w.Waker.End(t.Context(), key, inc, 3))
	require.NoError(t, w.Waker.Start(t.Context(), key, inc, 3))
}

func wakerNames(t *testing.T, w WakerWorld) {
	key := started(t, w)
	type name struct {
		key   host.Key
		inc   string
		epoch uint64
	}
	names := []name{
		{key, inc, 2},
		{key, "01J00000000000000000000002", 1},
		{keyOf("s2"), inc, 1},
		{host.Key{Tenant: "other", Session: key.Session}, inc, 1},
	}
	if w.IncAlone {
		names[2].inc, names[3].inc = "01J00000000000000000000003", "01J00000000000000000000004"
	}
	for _, n := range names {
		require.NoError(t, w.Waker.Start(t.Context(), n.key, n.inc, n.epoch))
	}
	require.NoError(t, w.Waker.End(t.Context(), key, inc, 1))
	requireAlive(t, w, key, 1, false)
	for _, n := range names {
		alive, err := w.Waker.Alive(t.Context(), n.key, n.inc, n.epoch)
		require.NoError(t, err)
		require.True(t, alive, "%v", n)
	}
}

// requireNoGood completes a token that must be refused as want says, or as any
// token is where the engine blurs it.
func requireNoGood(t *testing.T, w WakerWorld, token string, want error) {
	t.Helper()
	err := w.Waker.Complete(t.Context(), token)
	if w.TokensBlur && (errors.Is(err, host.ErrTokenDone) || errors.Is(err, host.ErrTokenTimedOut) || errors.Is(err, host.ErrTokenLost)) {
		return
	}
	require.ErrorIs(t, err, want)
}

func (w WakerWorld) needRefusals(t *testing.T) {
	t.Helper()
	if w.NeedRefusals != nil {
		w.NeedRefusals(t)
	}
}

func wakerOnce(t *testing.T, w WakerWorld) {
	w.needRefusals(t)
	token := park(t, w, started(t, w), w.Now().Add(ident.Hour))
	require.NoError(t, w.Waker.Complete(t.Context(), token))
	for range 2 {
		requireNoGood(t, w, token, host.ErrTokenDone)
	}
}

func wakerTimeout(t *testing.T, w WakerWorld) {
	key := started(t, w)
	first := park(t, w, key, w.Now().Add(ident.Second))
	w.Advance(2 * ident.Second)
	requireAlive(t, w, key, 1, true)
	second := park(t, w, key, 0)
	require.NotEqual(t, first, second)
	require.NoError(t, w.Waker.Complete(t.Context(), second))
}

func wakerTimedOut(t *testing.T, w WakerWorld) {
	w.needRefusals(t)
	token := park(t, w, started(t, w), w.Now().Add(ident.Second))
	w.Advance(2 * ident.Second)
	for range 2 {
		requireNoGood(t, w, token, host.ErrTokenTimedOut)
	}
}

func wakerNoDeadline(t *testing.T, w WakerWorld) {
	token := park(t, w, started(t, w), 0)
	w.Advance(2 * ident.Second)
	require.NoError(t, w.Waker.Complete(t.Context(), token))
}

func wakerUnknown(t *testing.T, w WakerWorld) {
	started(t, w)
	requireNoGood(t, w, "nobody gave this", host.ErrTokenLost)
	require.ErrorIs(t, w.Waker.Complete(t.Context(), ""), host.ErrTokenLost)
}

func wakerTokenEnded(t *testing.T, w WakerWorld) {
	key := started(t, w)
	token := park(t, w, key, 0)
	require.NoError(t, w.Waker.End(t.Context(), key, inc, 1))
	requireNoGood(t, w, token, host.ErrTokenLost)
}

// wakerParkAgain: whatever is said of an older token, it wakes nothing.
func wakerParkAgain(t *testing.T, w WakerWorld) {
	key := started(t, w)
	first := park(t, w, key, 0)
	require.NoError(t, w.Waker.Complete(t.Context(), first))
	second := park(t, w, key, 0)
	require.NotEqual(t, first, second)
	_ = w.Waker.Complete(t.Context(), first)
	third := park(t, w, key, 0)
	require.NotEqual(t, second, third)
	_ = w.Waker.Complete(t.Context(), second)
	require.NoError(t, w.Waker.Complete(t.Context(), third))
	requireAlive(t, w, key, 1, true)
}

func wakerOlder(t *testing.T, w WakerWorld) {
	w.needRefusals(t)
	key := started(t, w)
	first := park(t, w, key, 0)
	require.NoError(t, w.Waker.Complete(t.Context(), first))
	second := park(t, w, key, 0)
	requireNoGood(t, w, first, host.ErrTokenDone)
	third := park(t, w, key, 0)
	requireNoGood(t, w, second, host.ErrTokenLost)
	require.NoError(t, w.Waker.Complete(t.Context(), third))
}

func wakerParkNothing(t *testing.T, w WakerWorld) {
	_, err := w.Park(t.Context(), keyOf("s1"), inc, 1, 0)
	require.ErrorIs(t, err, host.ErrNotFound)
	key := started(t, w)
	require.NoError(t, w.Waker.End(t.Context(), key, inc, 1))
	_, err = w.Park(t.Context(), key, inc, 1, 0)
	require.ErrorIs(t, err, host.ErrEnded)
}

func wakerCancelled(t *testing.T, w WakerWorld) {
	key := started(t, w)
	token := park(t, w, key, 0)
	ctx := cancelled(t)
	require.ErrorIs(t, w.Waker.Start(ctx, key, inc, 2), ctx.Err())
	require.ErrorIs(t, w.Waker.Complete(ctx, token), ctx.Err())
	require.ErrorIs(t, w.Waker.End(ctx, key, inc, 1), ctx.Err())
	_, err := w.Park(ctx, key, inc, 1, 0)
	require.ErrorIs(t, err, ctx.Err())
	_, err = w.Waker.Alive(t.Context(), key, inc, 2)
	require.ErrorIs(t, err, host.ErrNotFound)
	require.NoError(t, w.Waker.Complete(t.Context(), token))
}
