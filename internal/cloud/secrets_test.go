package cloud

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/host"
)

type entries struct {
	texts map[string]string
	asked int
	err   error
}

func (e *entries) Secret(_ context.Context, name string) (string, error) {
	e.asked++
	if e.err != nil {
		return "", e.err
	}
	text, there := e.texts[name]
	if !there {
		return "", host.ErrNotFound
	}
	return text, nil
}

func TestSecretsAreRememberedForAWhile(t *testing.T) {
	t.Parallel()
	now := ident.Instant(1_000_000)
	from := &entries{texts: map[string]string{"a": "1"}}
	c := newCachedSecrets(from, func() ident.Instant { return now })
	read := func(name, want string) {
		t.Helper()
		got, err := c.Secret(t.Context(), name)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	read("a", "1")
	from.texts["a"] = "2"
	now = now.Add(secretFresh - 1)
	read("a", "1")
	require.Equal(t, 1, from.asked)
	now = now.Add(1)
	read("a", "2")

	// That there is none is not remembered: whoever makes it is in a hurry.
	_, err := c.Secret(t.Context(), "b")
	require.ErrorIs(t, err, host.ErrNotFound)
	from.texts["b"] = "3"
	read("b", "3")

	// One that cannot be read again is not good for ever.
	now = now.Add(secretFresh)
	from.err = errors.New("no right any more")
	_, err = c.Secret(t.Context(), "a")
	require.Error(t, err)
}

func TestSigningKeysAreDerivedEachForItself(t *testing.T) {
	t.Parallel()
	root := stackSecret{ID: "1", Secret: "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"}
	a, err := root.signing()
	require.NoError(t, err)
	again, err := root.signing()
	require.NoError(t, err)
	require.Equal(t, a, again, "tokens are good over restarts")
	require.Len(t, a.cursors, derivedBytes)
	require.Len(t, a.promises[0].Key, derivedBytes)
	require.NotEqual(t, a.cursors, a.promises[0].Key)
	root.ID = "2"
	b, err := root.signing()
	require.NoError(t, err)
	require.NotEqual(t, a.promises[0].Key, b.promises[0].Key)
	require.Equal(t, "2", b.promises[0].ID)
}
