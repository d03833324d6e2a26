package sqlite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	sqlite3 "github.com/ncruces/go-sqlite3"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/host"
)

// stored is a head as it is in the database, with its session's number. The
// zero value is a session that is not there.
type stored struct {
	number int64
	head   host.Head
}

func (c *conn) stored(key host.Key) (s stored, err error) {
	var scanErr error
	err = c.query(sqlHead, func(st *sqlite3.Stmt) bool {
		s.number = st.ColumnInt64(0)
		s.head, scanErr = scanHead(st)
		return false
	}, string(key.Tenant), string(key.Session))
	return s, errors.Join(err, scanErr)
}

// scanHead reads the columns that sqlHead and sqlList begin with, after the
// number.
func scanHead(st *sqlite3.Stmt) (host.Head, error) {
	h := host.Head{
		Rev: uint64(st.ColumnInt64(1)), Write: st.ColumnText(2), Seq: ident.Seq(st.ColumnInt64(3)),
		Inc: st.ColumnText(4), Status: st.ColumnText(5),
		Drive: host.Drive{
			Epoch: uint64(st.ColumnInt64(6)), Step: uint64(st.ColumnInt64(7)),
			Attempt: st.ColumnInt(8), Status: st.ColumnText(9),
		},
		DueAt: ident.Instant(st.ColumnInt64(10)), Failures: st.ColumnInt(11), At: ident.Instant(st.ColumnInt64(13)),
	}
	if text := st.ColumnRawText(12); text != nil {
		h.Quarantine = &host.Quarantine{}
		if err := json.Unmarshal(text, h.Quarantine); err != nil {
			return h, fmt.Errorf("quarantine: %w: %w", ErrCorrupt, err)
		}
	}
	return h, nil
}

// putHead writes a head under the number, by sqlHeadInsert or sqlHeadUpdate.
func (c *conn) putHead(sql string, key host.Key, number int64, h host.Head) error {
	var quarantine any
	if h.Quarantine != nil {
		text, err := json.Marshal(h.Quarantine)
		if err != nil {
			return fmt.Errorf("quarantine: %w", err)
		}
		quarantine = string(text)
	}
	busy := 0
	if h.Drive.Status != "" && h.Drive.Status != host.DriveIdle {
		busy = 1
	}
	return c.exec(sql, string(key.Tenant), string(key.Session), number,
		int64(h.Rev), h.Write, int64(h.Seq), h.Inc, h.Status,
		int64(h.Drive.Epoch), int64(h.Drive.Step), h.Drive.Attempt, h.Drive.Status,
		int64(h.DueAt), h.Failures, quarantine, int64(h.At), busy)
}

// Head implements host.Log.
func (s *Store) Head(ctx context.Context, key host.Key) (host.Head, error) {
	var found stored
	err := s.read.with(ctx, func(c *conn) (err error) {
		found, err = c.stored(key)
		return err
	})
	if err != nil {
		return host.Head{}, fault("head", err)
	}
	if found.number == 0 {
		return host.Head{}, host.ErrNotFound
	}
	return found.head, nil
}

// Peek implements host.Log.
func (s *Store) Peek(ctx context.Context, key host.Key) (host.Head, error) {
	return s.Head(ctx, key)
}

// Open implements host.Log: of two reads, because no decision depends on the
// listing document.
func (s *Store) Open(ctx context.Context, key host.Key) (host.Head, host.Meta, error) {
	head, err := s.Head(ctx, key)
	if err != nil {
		return host.Head{}, host.Meta{}, err
	}
	meta, err := s.Meta(ctx, key)
	if err != nil && !errors.Is(err, host.ErrNotFound) {
		return host.Head{}, host.Meta{}, err
	}
	return head, meta, nil
}

// Commit implements host.Log.
func (s *Store) Commit(ctx context.Context, c host.Commit) error {
	b, err := s.newBatch(ctx, c)
	if err != nil {
		return fault("commit", err)
	}
	err = s.write.do(ctx, b.size, b.apply)
	// Files that no row names are nobody's: those of a commit that did not
	// hold, and of a blob that was there already. After a fault whose outcome
	// is unknown they stay until the session goes.
	var conflict *host.Conflict
	if err == nil || errors.As(err, &conflict) || errors.Is(err, errMadeAnew) || errors.Is(err, ctx.Err()) {
		s.files.remove(b.strays())
	}
	if err == nil && !b.landed {
		s.commits.Add(1)
		s.bytes.Add(b.size)
	}
	return fault("commit", err)
}

// batch is a commit made ready: encoded, hashed, its large blobs on disk.
type batch struct {
	host.Commit
	meta   []byte
	blobs  []putBlob
	number int64 // that the session has, or gets if this creates it
	size   int64
	landed bool // the commit was in the log already
}

func (s *Store) newBatch(ctx context.Context, c host.Commit) (*batch, error) {
	if err := ctx.Err(); err != nil {
		return nil, err //nolint:wrapcheck // the caller compares it with its own
	}
	if err := checkForm(c); err != nil {
		return nil, err
	}
	b := &batch{Commit: c}
	if c.Meta != nil {
		meta, err := json.Marshal(c.Meta)
		if err != nil {
			return nil, fmt.Errorf("meta: %w", err)
		}
		b.meta = meta
	}
	if c.Expect == 0 {
		b.number = s.nextNumber.Add(1)
	}
	for _, e := range c.Entries {
		b.size += int64(len(e.Data))
	}
	for _, r := range c.Rows {
		b.size += int64(len(r.Data))
	}
	b.size += int64(len(b.meta))
	for _, blob := range c.Blobs {
		p, err := s.prepareBlob(ctx, c.Key, b.number, blob)
		if err != nil {
			s.files.remove(b.strays())
			return nil, err
		}
		b.blobs = append(b.blobs, p)
		b.size += int64(len(blob.Data))
	}
	return b, nil
}

// checkForm refuses a batch that no head makes right.
func checkForm(c host.Commit) error {
	if c.Head.Rev != c.Expect+1 || c.Head.Rev > 1<<62 {
		return fmt.Errorf("commit of %s: rev %d does not follow %d", c.Key, c.Head.Rev, c.Expect)
	}
	if c.Head.Seq > seqMax {
		return fmt.Errorf("commit of %s: a log has at most %d events", c.Key, seqMax)
	}
	first := c.Head.Seq + 1 - ident.Seq(len(c.Entries))
	for i, e := range c.Entries {
		if e.Seq != first+ident.Seq(i) {
			return fmt.Errorf("commit of %s: event %d where %d follows, with the head at %d", c.Key, e.Seq, first+ident.Seq(i), c.Head.Seq)
		}
	}
	return nil
}

// apply runs in a transaction: first what can refuse, then the writes.
func (b *batch) apply(c *conn) error {
	b.landed = false
	for i := range b.blobs {
		b.blobs[i].adopted = false
	}
	now, err := c.stored(b.Key)
	if err != nil {
		return err
	}
	if b.landed, err = b.hasLanded(c, now); b.landed || err != nil {
		return err
	}
	if err := b.check(c, now); err != nil {
		return err
	}
	number, sql := now.number, sqlHeadUpdate
	if number == 0 {
		number, sql = b.number, sqlHeadInsert
	}
	if err := c.putHead(sql, b.Key, number, b.Head); err != nil {
		return err
	}
	if err := b.writeEvents(c, number); err != nil {
		return err
	}
	if err := b.writeRows(c, number); err != nil {
		return err
	}
	for i := range b.blobs {
		if err := b.blobs[i].write(c, number); err != nil {
			return err
		}
	}
	return b.writeMeta(c, number, now.head.Status)
}

// hasLanded looks for the write's id where the write would have put it: on the
// head, or at its first event. It is asked before any condition, because a
// write that has landed changed what the conditions look at.
func (b *batch) hasLanded(c *conn, now stored) (bool, error) {
	if b.Head.Write == "" || now.number == 0 {
		return false, nil
	}
	if now.head.Write == b.Head.Write {
		return true, nil
	}
	if len(b.Entries) == 0 || b.Entries[0].Seq > now.head.Seq {
		return false, nil
	}
	landed := false
	err := c.query(sqlWriteAt, func(st *sqlite3.Stmt) bool {
		landed = st.ColumnText(0) == b.Head.Write
		return false
	}, eventID(now.number, b.Entries[0].Seq))
	return landed, err
}

// check holds the commit to its conditions. It writes nothing.
func (b *batch) check(c *conn, now stored) error {
	if now.head.Rev != b.Expect || b.Claim != nil && *b.Claim != now.head.Drive {
		return &host.Conflict{Head: now.head}
	}
	if first := b.Head.Seq - ident.Seq(len(b.Entries)); first != now.head.Seq {
		return fmt.Errorf("commit of %s: %d events up to %d do not follow %d", b.Key, len(b.Entries), b.Head.Seq, now.head.Seq)
	}
	for _, r := range b.Rows {
		if !r.IfAbsent || now.number == 0 {
			continue
		}
		_, there, err := c.number(sqlRowExists, now.number, r.Key)
		if err != nil {
			return err
		}
		if there {
			return &host.Conflict{Head: now.head, Row: r.Key}
		}
	}
	for _, p := range b.blobs {
		if now.number != 0 && !p.fits(now.number) {
			return errMadeAnew
		}
	}
	return nil
}

func eventID(number int64, seq ident.Seq) int64 { return number<<seqBits | int64(seq) }

func (b *batch) writeEvents(c *conn, number int64) error {
	for i, e := range b.Entries {
		// The id of the write stands at its first event, where hasLanded looks.
		var write any
		if i == 0 {
			write = b.Head.Write
		}
		if err := c.exec(sqlEventInsert, eventID(number, e.Seq), write, e.Data); err != nil {
			return err
		}
	}
	return nil
}

func (b *batch) writeRows(c *conn, number int64) error {
	for _, key := range b.DeleteRows {
		if err := c.exec(sqlRowDelete, number, key); err != nil {
			return err
		}
	}
	for _, r := range b.Rows {
		// Only what waits for a person is in the tenant's list.
		var tenant, session any
		if r.Todo != 0 {
			tenant, session = string(b.Key.Tenant), string(b.Key.Session)
		}
		if err := c.exec(sqlRowPut, number, r.Key, int64(r.Todo), tenant, session, r.Data); err != nil {
			return err
		}
	}
	return nil
}

// writeMeta keeps the list's status that of the head, also where a commit
// closes or deletes a session and leaves its meta as it is.
func (b *batch) writeMeta(c *conn, number int64, status string) error {
	switch {
	case b.Meta != nil:
		return c.exec(sqlMetaPut, number, string(b.Key.Tenant), string(b.Key.Session), b.Head.Status, -int64(b.Meta.UpdatedAt), b.meta)
	case status != b.Head.Status:
		return c.exec(sqlMetaStatus, number, b.Head.Status)
	}
	return nil
}

// strays are the batch's files that no row names.
func (b *batch) strays() []string {
	var files []string
	for _, p := range b.blobs {
		if p.file != "" && !p.adopted {
			files = append(files, p.file)
		}
	}
	return files
}
