package s3

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/internal/host"
)

// blobMost bounds a blob that is read into memory. Uploads end at 100 MB.
const blobMost = 128 << 20

// Options of a Store.
type Options struct {
	// Bucket is its name.
	Bucket string
	// Log holds the sessions.
	Log host.Log
	// Pointer remembers where a session's checkpoints are; nil asks S3, which
	// costs a listing.
	Pointer Pointer
}

// Store is a log, and beside it the content that its commits name and its
// sessions' checkpoints.
type Store struct {
	host.Log

	bucket  *bucket
	pointer Pointer
	incs    incarnations
}

var (
	_ host.Log         = (*Store)(nil)
	_ host.Blobs       = (*Store)(nil)
	_ host.Checkpoints = (*Store)(nil)
)

// Open makes a Store. It asks nothing of AWS yet.
func Open(cfg aws.Config, o Options) (*Store, error) {
	if o.Bucket == "" || o.Log == nil {
		return nil, errors.New("s3: no bucket or no log: set PERDURE_BUCKET")
	}
	return &Store{Log: o.Log, bucket: openBucket(cfg, o.Bucket), pointer: o.Pointer}, nil
}

// Head implements host.Log.
func (s *Store) Head(ctx context.Context, key host.Key) (host.Head, error) {
	head, err := s.Log.Head(ctx, key)
	return head, s.incs.learn(key, head, err)
}

// Peek implements host.Log.
func (s *Store) Peek(ctx context.Context, key host.Key) (host.Head, error) {
	head, err := s.Log.Peek(ctx, key)
	return head, s.incs.learn(key, head, err)
}

// Open implements host.Log.
func (s *Store) Open(ctx context.Context, key host.Key) (host.Head, host.Meta, error) {
	head, meta, err := s.Log.Open(ctx, key)
	return head, meta, s.incs.learn(key, head, err)
}

// Commit implements host.Log. The blobs go first: a commit never names what is
// not there, and what a commit that came to nothing has left is deleted with
// the session.
func (s *Store) Commit(ctx context.Context, c host.Commit) error {
	if err := s.putAll(ctx, c.Key, c.Head.Inc, c.Blobs); err != nil {
		return err
	}
	stored := len(c.Blobs) > 0
	c.Blobs = nil
	err := s.Log.Commit(ctx, c)
	var conflict *host.Conflict
	switch {
	case err == nil:
		s.incs.learnInc(c.Key, c.Head.Inc)
	case errors.As(err, &conflict):
		s.incs.learnInc(c.Key, conflict.Head.Inc)
		if stored && c.Expect == 0 && conflict.Head.Inc != c.Head.Inc {
			s.disown(ctx, c.Key, c.Head.Inc)
		}
	}
	return err //nolint:wrapcheck // the log's own word, a conflict or none
}

// disown deletes what was put for an incarnation that lost the race to be
// created. No deletion of a session would find it.
func (s *Store) disown(ctx context.Context, key host.Key, inc string) {
	if prefix, err := incPrefix(key, inc); err == nil {
		_ = s.bucket.clear(ctx, prefix, "") // best effort: the loser has nothing to come back for it with
	}
}

func (s *Store) putAll(ctx context.Context, key host.Key, inc string, blobs []host.Blob) error {
	return each(blobs, func(b *host.Blob) error { return s.put(ctx, key, inc, *b) })
}

// PutBlob implements host.Blobs. A session that is not there is ErrNotFound.
func (s *Store) PutBlob(ctx context.Context, key host.Key, b host.Blob) error {
	inc, err := s.inc(ctx, key)
	if err != nil {
		return err
	}
	return s.put(ctx, key, inc, b)
}

func (s *Store) put(ctx context.Context, key host.Key, inc string, b host.Blob) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("put blob: %w", err)
	}
	name, err := blobKey(key, inc, b.Ref)
	if err != nil {
		return err
	}
	// Bytes under another content's address would keep the right ones out.
	if blob.Sum(b.Data) != b.Ref {
		return fmt.Errorf("put blob %s: %w", b.Ref, ErrCorrupt)
	}
	err = s.bucket.put(ctx, name, b.Data, condition{absent: true}, nil)
	if errors.Is(err, errRefused) {
		return nil // it is there, and an address has one content
	}
	return err
}

// GetBlob implements host.Blobs.
func (s *Store) GetBlob(ctx context.Context, key host.Key, ref blob.Ref) ([]byte, error) {
	inc, err := s.inc(ctx, key)
	if err != nil {
		return nil, err
	}
	name, err := blobKey(key, inc, ref)
	if err != nil {
		return nil, err
	}
	data, _, err := s.bucket.get(ctx, name, blobMost)
	if err != nil {
		return nil, err
	}
	if blob.Sum(data) != ref {
		return nil, fmt.Errorf("blob %s of %s: %w", ref, key, ErrCorrupt)
	}
	return data, nil
}

// Purge deletes all objects of an incarnation of a session, and what an
// earlier one of the same id may have left; not a later one's, for ULIDs sort
// by their age. It may be repeated, and be cut short anywhere.
func (s *Store) Purge(ctx context.Context, key host.Key, inc string) error {
	prefix, err := incPrefix(key, inc)
	if err != nil {
		return err
	}
	all, err := sessionPrefix(key)
	if err != nil {
		return err
	}
	// "0" follows "/": beyond everything of this incarnation, below the next.
	return s.bucket.clear(ctx, all, prefix[:len(prefix)-1]+"0")
}

// inc is the incarnation that a session has: the one that the log was last
// seen to have in this process, which whoever acts on a session reads first.
// So the content that is read is of the session that was looked at.
func (s *Store) inc(ctx context.Context, key host.Key) (string, error) {
	if inc, ok := s.incs.get(key); ok {
		return inc, nil
	}
	head, err := s.Head(ctx, key)
	if err != nil {
		return "", err
	}
	return head.Inc, nil
}

// incsMost bounds the incarnations that are remembered: twice as many.
const incsMost = 4096

// incarnations remembers which incarnation a session was last seen to have.
type incarnations struct {
	mu         sync.Mutex
	young, old map[host.Key]string
}

// learn takes note of a head that was read, and returns err as it is.
func (i *incarnations) learn(key host.Key, head host.Head, err error) error {
	switch {
	case err == nil:
		i.learnInc(key, head.Inc)
	case errors.Is(err, host.ErrNotFound):
		i.learnInc(key, "")
	}
	return err
}

// learnInc takes note of an incarnation; empty is of a session that is not
// there.
func (i *incarnations) learnInc(key host.Key, inc string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if inc == "" {
		delete(i.young, key)
		delete(i.old, key)
		return
	}
	if i.young == nil || len(i.young) >= incsMost {
		i.young, i.old = make(map[host.Key]string), i.young
	}
	i.young[key] = inc
}

func (i *incarnations) get(key host.Key) (string, bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if inc, ok := i.young[key]; ok {
		return inc, true
	}
	inc, ok := i.old[key]
	return inc, ok
}
