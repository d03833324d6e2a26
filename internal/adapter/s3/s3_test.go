package s3_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	aws3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/adapter/s3"
	"github.com/perdure/perdure/internal/host"
	"github.com/perdure/perdure/internal/host/porttest"
	"github.com/perdure/perdure/localstack/target"
)

// client is a plain one, for what a test does behind the adapter's back.
func client(cfg aws.Config) *aws3.Client {
	return aws3.NewFromConfig(cfg, func(o *aws3.Options) { o.UsePathStyle = o.BaseEndpoint != nil })
}

// newBucket makes an empty bucket that goes with the test.
func newBucket(t *testing.T) (aws.Config, string) {
	t.Helper()
	cfg := target.AWS(t)
	name := "perdure-test-" + strings.ToLower(rand.Text())
	_, err := client(cfg).CreateBucket(t.Context(), &aws3.CreateBucketInput{Bucket: &name})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		c := client(cfg)
		for _, key := range keys(t, cfg, name) {
			_, err := c.DeleteObject(ctx, &aws3.DeleteObjectInput{Bucket: &name, Key: &key})
			require.NoError(t, err)
		}
		_, err := c.DeleteBucket(ctx, &aws3.DeleteBucketInput{Bucket: &name})
		require.NoError(t, err)
	})
	return cfg, name
}

// keys are those of all objects.
func keys(t *testing.T, cfg aws.Config, bucket string) []string {
	t.Helper()
	var all []string
	pages := aws3.NewListObjectsV2Paginator(client(cfg), &aws3.ListObjectsV2Input{Bucket: &bucket})
	for pages.HasMorePages() {
		page, err := pages.NextPage(context.WithoutCancel(t.Context()))
		require.NoError(t, err)
		for i := range page.Contents {
			all = append(all, *page.Contents[i].Key)
		}
	}
	return all
}

// heads is as much of a log as the suites of what lies beside one need.
type heads struct {
	host.Log

	mu      sync.Mutex
	heads   map[host.Key]host.Head
	pointed map[host.Key]s3.Positions
	reads   int
	// purge deletes what lies beside the log, as whoever deletes a session does.
	purge func(context.Context, host.Key, string) error
}

func (h *heads) Head(_ context.Context, key host.Key) (host.Head, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.reads++
	head, there := h.heads[key]
	if !there {
		return host.Head{}, host.ErrNotFound
	}
	return head, nil
}

func (h *heads) Commit(_ context.Context, c host.Commit) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(c.Blobs) > 0 {
		panic("blobs reach the log")
	}
	if now := h.heads[c.Key]; now.Rev != c.Expect && now.Write != c.Head.Write {
		return &host.Conflict{Head: now}
	}
	h.heads[c.Key] = c.Head
	return nil
}

func (h *heads) Delete(ctx context.Context, key host.Key, inc string) error {
	if err := h.purge(ctx, key, inc); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.heads, key)
	delete(h.pointed, key)
	return nil
}

// GetPointer and PutPointer make it a pointer, as a log is.
func (h *heads) GetPointer(_ context.Context, key host.Key) (s3.Positions, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.pointed[key], nil
}

func (h *heads) PutPointer(_ context.Context, key host.Key, inc string, seq ident.Seq) (was, now s3.Positions, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	was = h.pointed[key]
	now = was
	switch {
	case was.Inc < inc:
		now = s3.Positions{Inc: inc, Newest: seq}
	case was.Inc == inc && seq > was.Newest:
		now = s3.Positions{Inc: inc, Newest: seq, Before: was.Newest}
	}
	h.pointed[key] = now
	return was, now, nil
}

// world is a store over an empty bucket.
type world struct {
	*s3.Store

	log     *heads
	cfg     aws.Config
	options s3.Options
}

// newWorld makes one. With pointing the log remembers where checkpoints are.
func newWorld(t *testing.T, pointing bool) *world {
	t.Helper()
	cfg, bucket := newBucket(t)
	return newWorldAt(t, cfg, bucket, pointing)
}

func newWorldAt(t *testing.T, cfg aws.Config, bucket string, pointing bool) *world {
	t.Helper()
	w := &world{log: &heads{heads: map[host.Key]host.Head{}, pointed: map[host.Key]s3.Positions{}}, cfg: cfg}
	w.options = s3.Options{Bucket: bucket, Log: w.log}
	if pointing {
		w.options.Pointer = w.log
	}
	return w.open(t)
}

// open makes the store anew: another process would.
func (w *world) open(t *testing.T) *world {
	t.Helper()
	store, err := s3.Open(w.cfg, w.options)
	require.NoError(t, err)
	w.Store, w.log.purge = store, store.Purge
	return w
}

func (w *world) stores() porttest.Stores {
	return porttest.Stores{Log: w, Blobs: w, Checkpoints: w, Now: func() ident.Instant { return 1_800_000_000_000 }}
}

func (w *world) keys(t *testing.T) []string {
	t.Helper()
	return keys(t, w.cfg, w.options.Bucket)
}

const inc = "01J00000000000000000000001"

func key(session string) host.Key {
	return host.Key{Tenant: "acme", Session: ident.SessionID(session)}
}

func caps() porttest.Capabilities {
	return porttest.Capabilities{
		Persistent: true, Concurrent: true,
		Reopen: func(t *testing.T, old porttest.Stores) porttest.Stores {
			t.Helper()
			return old.Log.(*world).open(t).stores()
		},
		TamperBlob: func(t *testing.T, s porttest.Stores, key host.Key, ref blob.Ref) {
			t.Helper()
			w := s.Log.(*world)
			name := string(key.Tenant) + "/" + string(key.Session) + "/" + inc + "/blob/" + ref.Hex()
			require.Contains(t, w.keys(t), name)
			_, err := client(w.cfg).PutObject(t.Context(), &aws3.PutObjectInput{Bucket: &w.options.Bucket, Key: &name, Body: bytes.NewReader([]byte("x"))})
			require.NoError(t, err)
		},
	}
}

func factory(pointing bool) porttest.Factory {
	return func(t *testing.T) porttest.Stores {
		t.Helper()
		return newWorld(t, pointing).stores()
	}
}

func TestBlobs(t *testing.T) {
	t.Parallel()
	porttest.Blobs(t, factory(false), caps())
}

func TestCheckpointsByListing(t *testing.T) {
	t.Parallel()
	porttest.Checkpoints(t, factory(false), caps())
}

func TestCheckpointsByPointer(t *testing.T) {
	t.Parallel()
	porttest.Checkpoints(t, factory(true), caps())
}

func TestWorkspaces(t *testing.T) {
	t.Parallel()
	at := target.Get(t)
	need := porttest.WorkspacesNeed{
		ConditionalDelete: func(tb testing.TB) {
			tb.Helper()
			at.Need(tb, target.ConditionalDeletes)
		},
		AnyOrder: func(tb testing.TB) {
			tb.Helper()
			at.Need(tb, target.KeyOrder)
		},
	}
	porttest.WorkspacesWhere(t, need, func(t *testing.T) porttest.WorkspacesPort {
		t.Helper()
		w, err := s3.OpenWorkspaces(newBucket(t))
		require.NoError(t, err)
		return w
	})
}
