package s3_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	aws3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/host"
)

const (
	before = "01HZZZZZZZZZZZZZZZZZZZZZZZ"
	after  = "01J00000000000000000000002"
)

func TestASessionMadeAgainDoesNotMeetItsPredecessor(t *testing.T) {
	t.Parallel()
	for _, pointing := range []bool{false, true} {
		w := newWorld(t, pointing)
		old := blobOf("the predecessor's")
		require.NoError(t, w.Commit(t.Context(), creation("s1", inc, old)))
		require.NoError(t, w.PutCheckpoint(t.Context(), key("s1"), host.Checkpoint{Inc: inc, Seq: 1, Data: []byte("old")}))
		delete(w.log.heads, key("s1")) // the head is gone, the objects are still there
		delete(w.log.pointed, key("s1"))
		require.NoError(t, w.Commit(t.Context(), creation("s1", after, blobOf("the successor's"))))
		_, err := w.GetBlob(t.Context(), key("s1"), old.Ref)
		require.ErrorIs(t, err, host.ErrNotFound)
		found, err := w.LatestCheckpoints(t.Context(), key("s1"), 2)
		require.NoError(t, err)
		require.Empty(t, found)

		// What deletes the old one, late, takes nothing of the new one.
		require.NoError(t, w.Purge(t.Context(), key("s1"), inc))
		require.Equal(t, []string{"acme/s1/" + after + "/blob/" + blobOf("the successor's").Ref.Hex()}, w.keys(t))
	}
}

func TestPurgeTakesWhatAnEarlierOneHasLeft(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	for _, c := range []host.Commit{creation("s1", before, blobOf("a")), creation("s1", inc, blobOf("b"))} {
		delete(w.log.heads, c.Key)
		require.NoError(t, w.Commit(t.Context(), c))
	}
	// Sessions whose name begins alike, and a tenant that is called as the
	// folder of the workspaces is.
	near := []host.Commit{creation("s1.", inc, blobOf("c")), creation("s10", inc, blobOf("d")), creation("s", inc, blobOf("e"))}
	near = append(near, host.Commit{Key: host.Key{Tenant: "workspaces", Session: "acme"}, Head: near[0].Head, Blobs: near[0].Blobs})
	for _, c := range near {
		require.NoError(t, w.Commit(t.Context(), c))
	}
	file := "workspaces/acme/own/s1/f"
	_, err := client(w.cfg).PutObject(t.Context(), &aws3.PutObjectInput{Bucket: &w.options.Bucket, Key: &file, Body: strings.NewReader("x")})
	require.NoError(t, err)
	for range 2 {
		require.NoError(t, w.Purge(t.Context(), key("s1"), inc))
		left := w.keys(t)
		require.Len(t, left, len(near)+1)
		require.False(t, slices.ContainsFunc(left, func(k string) bool { return strings.HasPrefix(k, "acme/s1/") }))
	}
	require.NoError(t, w.Purge(t.Context(), near[3].Key, inc))
	require.Contains(t, w.keys(t), file)
}

func TestPurgeGoesPageByPage(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	const many = 1010
	blobs := make([]host.Blob, 0, many)
	for i := range many {
		blobs = append(blobs, blobOf(fmt.Sprintf("blob %d", i)))
	}
	require.NoError(t, w.Commit(t.Context(), creation("s1", inc, blobs...)))
	require.Len(t, w.keys(t), many)
	require.NoError(t, w.Purge(t.Context(), key("s1"), inc))
	require.Empty(t, w.keys(t))
}

func TestWhoLosesTheRaceToCreateLeavesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	require.NoError(t, w.Commit(t.Context(), creation("s1", inc, blobOf("mine"))))
	var conflict *host.Conflict
	require.ErrorAs(t, w.Commit(t.Context(), creation("s1", after, blobOf("yours"))), &conflict)
	require.Len(t, w.keys(t), 1)
	got, err := w.GetBlob(t.Context(), key("s1"), blobOf("mine").Ref)
	require.NoError(t, err)
	require.Equal(t, "mine", string(got))
	// The same creation again has landed before: it keeps what it has.
	require.NoError(t, w.Commit(t.Context(), creation("s1", inc, blobOf("mine"))))
	require.Len(t, w.keys(t), 1)
}

func TestTheIncarnationIsReadOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	require.NoError(t, w.Commit(t.Context(), creation("s1", inc, blobOf("x"))))
	for range 3 {
		_, err := w.GetBlob(t.Context(), key("s1"), blobOf("x").Ref)
		require.NoError(t, err)
	}
	require.Zero(t, w.log.reads, "who commits knows it")
	w.open(t)
	for range 3 {
		_, err := w.GetBlob(t.Context(), key("s1"), blobOf("x").Ref)
		require.NoError(t, err)
	}
	require.Equal(t, 1, w.log.reads, "a new process reads the head")
	// A session that is seen to be gone is forgotten.
	delete(w.log.heads, key("s1"))
	_, err := w.Head(t.Context(), key("s1"))
	require.ErrorIs(t, err, host.ErrNotFound)
	_, err = w.GetBlob(t.Context(), key("s1"), blobOf("x").Ref)
	require.ErrorIs(t, err, host.ErrNotFound)
}

func TestACheckpointThatFellOutMeanwhileIsPassedOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t, true)
	require.NoError(t, w.Commit(t.Context(), creation("s1", inc)))
	require.NoError(t, w.PutCheckpoint(t.Context(), key("s1"), host.Checkpoint{Inc: inc, Seq: 7, Data: []byte("seven")}))
	_, _, err := w.log.PutPointer(t.Context(), key("s1"), inc, 9)
	require.NoError(t, err)
	found, err := w.LatestCheckpoints(t.Context(), key("s1"), 2)
	require.NoError(t, err)
	require.Equal(t, []host.Checkpoint{{Inc: inc, Seq: 7, Data: []byte("seven")}}, found)
}

func TestOnlyTheCheckpointsThatAreKeptStay(t *testing.T) {
	t.Parallel()
	for _, pointing := range []bool{false, true} {
		w := newWorld(t, pointing)
		require.NoError(t, w.Commit(t.Context(), creation("s1", inc)))
		for seq := range ident.Seq(6) {
			require.NoError(t, w.PutCheckpoint(t.Context(), key("s1"), host.Checkpoint{Inc: inc, Seq: seq + 8}))
		}
		require.Equal(t, []string{"acme/s1/" + inc + "/ckpt/000000000012", "acme/s1/" + inc + "/ckpt/000000000013"}, w.keys(t))
	}
}

func TestKeysThatAreNoneAreRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	for _, k := range []host.Key{{}, {Tenant: "a"}, {Tenant: "a/b", Session: "s"}, {Tenant: "..", Session: "s"}, {Tenant: "a", Session: "s/t"}} {
		c := creation("s1", inc, blobOf("x"))
		c.Key = k
		require.Error(t, w.Commit(t.Context(), c), k)
		require.Error(t, w.Purge(t.Context(), k, inc), k)
	}
	for _, bad := range []string{"", "own", "01j", "0/1", strings.Repeat("0", 65)} {
		require.Error(t, w.Commit(t.Context(), creation("s1", bad, blobOf("x"))), bad)
		require.Error(t, w.Purge(t.Context(), key("s1"), bad), bad)
		require.Error(t, w.PutCheckpoint(t.Context(), key("s1"), host.Checkpoint{Inc: bad, Seq: 1}), bad)
	}
	require.Empty(t, w.keys(t))
	require.NoError(t, w.Commit(t.Context(), creation("s1", inc, blobOf("x"))))
}

func TestWritersFromManyProcesses(t *testing.T) {
	t.Parallel()
	w := newWorld(t, false)
	require.NoError(t, w.Commit(t.Context(), creation("s1", inc)))
	b := blobOf(strings.Repeat("the same ", 1000))
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if err := w.PutBlob(t.Context(), key("s1"), b); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	got, err := w.GetBlob(t.Context(), key("s1"), b.Ref)
	require.NoError(t, err)
	require.Equal(t, b.Data, got)
}
