package porttest

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/internal/host"
)

// Blobs checks a host.Blobs beside its Log.
func Blobs(t *testing.T, factory Factory, caps Capabilities) {
	t.Helper()
	runCases(t, factory, caps, []logCase{
		{"ABlobIsReadBack", blobsReadBack},
		{"PuttingAgainIsHarmless", blobsTwice},
		{"ABlobThatIsNotThereIsNotFound", blobsAbsent},
		{"ABlobBelongsToItsSession", blobsOwner},
		{"ABlobOfACommitIsThereWithIt", blobsOfCommit},
		{"ContentThatIsNotItsAddressIsRefused", blobsWrong},
		{"AChangedBlobIsNotReturned", blobsTampered},
		{"ACancelledContextPutsNothing", blobsCancelled},
		{"BlobsOutliveAReopen", blobsReopened},
	})
}

func requireBlob(t *testing.T, s Stores, key host.Key, b host.Blob) {
	t.Helper()
	got, err := s.Blobs.GetBlob(t.Context(), key, b.Ref)
	require.NoError(t, err)
	require.Len(t, got, len(b.Data))
	require.Equal(t, b.Ref, blob.Sum(got))
}

// sizes of blobs round the borders where adapters change how they store one.
func sizes() []int { return []int{1, 4097, 256 << 10, 256<<10 + 1, 1 << 20} }

func blobsReadBack(t *testing.T, s Stores, _ Capabilities) {
	a := create(t, s, keyOf("s1"))
	for _, n := range sizes() {
		b := content("bytes \x00\xff", n)
		require.NoError(t, s.Blobs.PutBlob(t.Context(), a.key, b))
		requireBlob(t, s, a.key, b)
	}
}

func blobsTwice(t *testing.T, s Stores, _ Capabilities) {
	a := create(t, s, keyOf("s1"))
	for _, n := range sizes() {
		b := content("twice", n)
		for range 3 {
			require.NoError(t, s.Blobs.PutBlob(t.Context(), a.key, b))
		}
		c := a.next(1)
		c.Blobs = []host.Blob{b, b}
		a.land(c)
		requireBlob(t, s, a.key, b)
	}
}

func blobsAbsent(t *testing.T, s Stores, _ Capabilities) {
	a := create(t, s, keyOf("s1"))
	_, err := s.Blobs.GetBlob(t.Context(), a.key, content("never", 10).Ref)
	require.ErrorIs(t, err, host.ErrNotFound)
	_, err = s.Blobs.GetBlob(t.Context(), keyOf("never"), content("never", 10).Ref)
	require.ErrorIs(t, err, host.ErrNotFound)
}

func blobsOwner(t *testing.T, s Stores, _ Capabilities) {
	a := create(t, s, keyOf("s1"))
	others := []host.Key{keyOf("s2"), {Tenant: "other", Session: "s1"}}
	for _, n := range []int{100, 300 << 10} {
		b := content("mine", n)
		require.NoError(t, s.Blobs.PutBlob(t.Context(), a.key, b))
		for _, key := range others {
			_, err := s.Blobs.GetBlob(t.Context(), key, b.Ref)
			require.ErrorIs(t, err, host.ErrNotFound)
		}
	}
	for _, key := range others {
		create(t, s, key)
		b := content("mine", 300<<10)
		require.NoError(t, s.Blobs.PutBlob(t.Context(), key, b))
	}
	require.NoError(t, s.Log.Delete(t.Context(), a.key, inc))
	for _, key := range others {
		requireBlob(t, s, key, content("mine", 300<<10))
	}
}

func blobsOfCommit(t *testing.T, s Stores, _ Capabilities) {
	c := creation(keyOf("s1"))
	c.Blobs = []host.Blob{content("create", 3000), content("create", 1<<20)}
	a := createWith(t, s, c)
	next := a.next(1)
	next.Blobs = []host.Blob{content("next", 3000), content("next", 1<<20)}
	a.land(next)
	require.NoError(t, s.Log.Commit(t.Context(), next))
	for _, b := range append(c.Blobs, next.Blobs...) {
		requireBlob(t, s, a.key, b)
	}
}

func blobsWrong(t *testing.T, s Stores, _ Capabilities) {
	a := create(t, s, keyOf("s1"))
	for _, n := range []int{100, 300 << 10} {
		right := content("right", n)
		wrong := host.Blob{Ref: right.Ref, Data: content("wrong", n).Data}
		require.Error(t, s.Blobs.PutBlob(t.Context(), a.key, wrong))
		c := a.next(1)
		c.Blobs = []host.Blob{wrong}
		require.Error(t, s.Log.Commit(t.Context(), c))
		a.requireHead(a.head)
		// The right bytes are not kept out by the wrong ones.
		require.NoError(t, s.Blobs.PutBlob(t.Context(), a.key, right))
		requireBlob(t, s, a.key, right)
	}
	require.Error(t, s.Blobs.PutBlob(t.Context(), a.key, host.Blob{Ref: "sha256:../../x", Data: []byte("x")}))
}

func blobsTampered(t *testing.T, s Stores, caps Capabilities) {
	need(t, caps.TamperBlob != nil, "TamperBlob")
	a := create(t, s, keyOf("s1"))
	for _, n := range []int{100, 300 << 10} {
		b := content("whole", n)
		require.NoError(t, s.Blobs.PutBlob(t.Context(), a.key, b))
		caps.TamperBlob(t, s, a.key, b.Ref)
		got, err := s.Blobs.GetBlob(t.Context(), a.key, b.Ref)
		require.Error(t, err)
		require.NotErrorIs(t, err, host.ErrNotFound)
		require.Nil(t, got)
	}
}

func blobsCancelled(t *testing.T, s Stores, _ Capabilities) {
	a := create(t, s, keyOf("s1"))
	ctx := cancelled(t)
	for _, n := range []int{100, 300 << 10} {
		b := content("cancelled", n)
		require.ErrorIs(t, s.Blobs.PutBlob(ctx, a.key, b), ctx.Err())
		_, err := s.Blobs.GetBlob(t.Context(), a.key, b.Ref)
		require.ErrorIs(t, err, host.ErrNotFound)
	}
}

func blobsReopened(t *testing.T, s Stores, caps Capabilities) {
	need(t, caps.Persistent, "Persistent")
	a := create(t, s, keyOf("s1"))
	for _, n := range sizes() {
		require.NoError(t, s.Blobs.PutBlob(t.Context(), a.key, content("kept", n)))
	}
	s = caps.Reopen(t, s)
	for _, n := range sizes() {
		requireBlob(t, s, a.key, content("kept", n))
	}
}
