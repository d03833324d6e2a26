// Package memory is every store in process: host.Log, Blobs, Checkpoints and
// Stash in one Store, a Waker, and a hub for live frames. It is the fake that
// tests and the simulator use, with the faults of real stores on demand, and
// its Waker and Hub are the local server's.
//
// It keeps nothing over the end of the process. It starts no goroutine, reads
// no clock and never waits: what it does depends on its calls alone, so a
// simulated schedule repeats. It may import the standard library, core/blob,
// core/ident and internal/host.
package memory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/host"
)

// Options of a Store.
type Options struct {
	// Now judges the expiry of stashed documents when one is put if absent.
	// Without it nothing has expired by then. It is called without a lock.
	Now func() ident.Instant
	// Inject is asked before and after every operation.
	Inject Injector
}

// Store implements host.Log, host.Blobs, host.Checkpoints and host.Stash. It
// is safe for concurrent use.
type Store struct {
	now    func() ident.Instant
	inject Injector

	// mu is never held while an Injector runs: it may be a simulator's
	// scheduling point.
	mu       sync.Mutex
	sessions map[host.Key]*sess
	stash    map[stashKey]stashed
	stats    Stats
}

// Stats counts what a Store was asked.
type Stats struct {
	Ops       int // operations that were performed
	Commits   int // commits that wrote
	Conflicts int // commits that did not hold
	ReadBytes int64
}

type sess struct {
	head        host.Head
	entries     []host.StoredEntry
	writes      map[string]bool // ids of the writes that are in the log
	rows        map[string]host.Row
	meta        *host.Meta
	blobs       map[blob.Ref][]byte
	checkpoints []host.Checkpoint // newest first, at most two
}

type stashKey struct {
	key  host.Key
	name string
}

type stashed struct {
	data  []byte
	until ident.Instant
}

// New makes an empty Store.
func New(o Options) *Store {
	return &Store{now: o.Now, inject: o.Inject, sessions: map[host.Key]*sess{}, stash: map[stashKey]stashed{}}
}

// Stats returns the counters.
func (s *Store) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stats
}

// Keys lists the sessions that there are, sorted: for checks of a whole store.
func (s *Store) Keys() []host.Key {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.SortedFunc(maps.Keys(s.sessions), compareKeys)
}

// Head implements host.Log.
func (s *Store) Head(ctx context.Context, key host.Key) (head host.Head, err error) {
	err = s.do(ctx, Op{Name: "log.head", Key: key}, func() error {
		x := s.sessions[key]
		if x == nil {
			return host.ErrNotFound
		}
		head = copyHead(x.head)
		return nil
	})
	return head, err
}

// Peek implements host.Log.
func (s *Store) Peek(ctx context.Context, key host.Key) (host.Head, error) {
	return s.Head(ctx, key)
}

// Open implements host.Log.
func (s *Store) Open(ctx context.Context, key host.Key) (head host.Head, meta host.Meta, err error) {
	err = s.do(ctx, Op{Name: "log.open", Key: key}, func() error {
		x := s.sessions[key]
		if x == nil {
			return host.ErrNotFound
		}
		head = copyHead(x.head)
		if x.meta != nil {
			meta = copyMeta(*x.meta)
		}
		return nil
	})
	return head, meta, err
}

// Commit implements host.Log.
func (s *Store) Commit(ctx context.Context, c host.Commit) error {
	op := Op{Name: "log.commit", Key: c.Key, Commit: &c}
	return s.do(ctx, op, func() error { return s.commit(c) })
}

func (s *Store) commit(c host.Commit) error {
	x := s.sessions[c.Key]
	if x == nil {
		x = &sess{writes: map[string]bool{}, rows: map[string]host.Row{}, blobs: map[blob.Ref][]byte{}}
	}
	// A write that is there already has landed, whatever has followed: asked
	// before any condition, since it changed what the conditions look at.
	if c.Head.Write != "" && (x.writes[c.Head.Write] || x.head.Write == c.Head.Write) {
		return nil
	}
	if err := check(c, x); err != nil {
		if isConflict(err) {
			s.stats.Conflicts++
		}
		return err
	}
	for _, key := range c.DeleteRows {
		delete(x.rows, key)
	}
	for _, r := range c.Rows {
		r.IfAbsent, r.Data = false, slices.Clone(r.Data)
		x.rows[r.Key] = r
	}
	for _, b := range c.Blobs {
		x.blobs[b.Ref] = slices.Clone(b.Data)
	}
	for _, e := range c.Entries {
		x.entries = append(x.entries, host.StoredEntry{Seq: e.Seq, Data: slices.Clone(e.Data)})
		x.writes[c.Head.Write] = true
	}
	if c.Meta != nil {
		meta := copyMeta(*c.Meta)
		x.meta = &meta
	}
	x.head = copyHead(c.Head)
	s.sessions[c.Key] = x
	s.stats.Commits++
	return nil
}

// check holds a commit to its conditions and to the form of a batch.
func check(c host.Commit, x *sess) error {
	conflict := &host.Conflict{Head: copyHead(x.head)}
	if x.head.Rev != c.Expect || c.Claim != nil && *c.Claim != x.head.Drive {
		return conflict
	}
	if c.Head.Rev != c.Expect+1 {
		return fmt.Errorf("commit of %s: rev %d does not follow %d", c.Key, c.Head.Rev, c.Expect)
	}
	seq := x.head.Seq
	for _, e := range c.Entries {
		if seq++; e.Seq != seq {
			return fmt.Errorf("commit of %s: event %d where %d follows", c.Key, e.Seq, seq)
		}
	}
	if c.Head.Seq != seq {
		return fmt.Errorf("commit of %s: the head says seq %d, the log ends at %d", c.Key, c.Head.Seq, seq)
	}
	for _, r := range c.Rows {
		if _, there := x.rows[r.Key]; there && r.IfAbsent {
			conflict.Row = r.Key
			return conflict
		}
	}
	for _, b := range c.Blobs {
		if err := checkBlob(b); err != nil {
			return err
		}
	}
	return nil
}

// Read implements host.Log.
func (s *Store) Read(ctx context.Context, key host.Key, after, upTo ident.Seq, limit int, maxBytes int64) (page []host.StoredEntry, err error) {
	err = s.do(ctx, Op{Name: "log.read", Key: key}, func() error {
		var size int64
		for seq := after + 1; seq <= upTo && len(page) < limit; seq++ {
			e, ok := s.entry(key, seq)
			if !ok {
				return fmt.Errorf("event %d of %s: %w", seq, key, host.ErrGap)
			}
			if size += int64(len(e.Data)); size > maxBytes && len(page) > 0 {
				break
			}
			page = append(page, e)
			s.stats.ReadBytes += int64(len(e.Data))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return page, nil
}

// ReadBefore implements host.Log.
func (s *Store) ReadBefore(ctx context.Context, key host.Key, before ident.Seq, limit int, maxBytes int64) (page []host.StoredEntry, err error) {
	err = s.do(ctx, Op{Name: "log.readBefore", Key: key}, func() error {
		if x := s.sessions[key]; x == nil {
			before = 0
		} else {
			before = min(before, x.head.Seq+1)
		}
		var size int64
		for seq := before; seq > 1 && len(page) < limit; seq-- {
			e, ok := s.entry(key, seq-1)
			if !ok {
				return fmt.Errorf("event %d of %s: %w", seq-1, key, host.ErrGap)
			}
			if size += int64(len(e.Data)); size > maxBytes && len(page) > 0 {
				break
			}
			page = append(page, e)
			s.stats.ReadBytes += int64(len(e.Data))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.Reverse(page)
	return page, nil
}

func (s *Store) entry(key host.Key, seq ident.Seq) (host.StoredEntry, bool) {
	x := s.sessions[key]
	if x == nil {
		return host.StoredEntry{}, false
	}
	i, found := slices.BinarySearchFunc(x.entries, seq, func(e host.StoredEntry, seq ident.Seq) int { return cmp.Compare(e.Seq, seq) })
	if !found {
		return host.StoredEntry{}, false
	}
	return host.StoredEntry{Seq: seq, Data: slices.Clone(x.entries[i].Data)}, true
}

// Delete implements host.Log.
func (s *Store) Delete(ctx context.Context, key host.Key, inc string) error {
	return s.do(ctx, Op{Name: "log.delete", Key: key}, func() error {
		x := s.sessions[key]
		if x == nil || x.head.Inc != inc {
			return nil
		}
		delete(s.sessions, key)
		maps.DeleteFunc(s.stash, func(k stashKey, _ stashed) bool { return k.key == key })
		return nil
	})
}

// DropEvent takes an event out of the log, as damage would: for tests of how
// a gap is met.
func (s *Store) DropEvent(key host.Key, seq ident.Seq) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if x := s.sessions[key]; x != nil {
		x.entries = slices.DeleteFunc(x.entries, func(e host.StoredEntry) bool { return e.Seq == seq })
	}
}

func compareKeys(a, b host.Key) int {
	return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Session, b.Session))
}

func isConflict(err error) bool {
	var conflict *host.Conflict
	return errors.As(err, &conflict)
}

// copyHead shares no memory with h: who gets it may change it.
func copyHead(h host.Head) host.Head {
	if h.Quarantine != nil {
		q := *h.Quarantine
		h.Quarantine = &q
	}
	return h
}

func copyMeta(m host.Meta) host.Meta {
	m.Metadata = maps.Clone(m.Metadata)
	if m.DeleteAfterDays != nil {
		days := *m.DeleteAfterDays
		m.DeleteAfterDays = &days
	}
	return m
}
