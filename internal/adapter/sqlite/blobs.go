package sqlite

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"

	sqlite3 "github.com/ncruces/go-sqlite3"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/internal/host"
)

// rowMax is the largest blob, in bytes, that is a row of the database and so
// part of the transaction itself. A larger one is a file.
const rowMax = 256 << 10

// putBlob is a blob made ready to be named by a transaction.
type putBlob struct {
	hash    []byte
	size    int
	data    []byte // of a row
	file    string // of a large one: its path below the blobs' folder, synced
	known   bool   // it was stored already when this was made ready
	number  int64  // of the session that file and known are about
	adopted bool   // the transaction's row names the file
}

// prepareBlob checks the content, and writes what is large to a file. The
// number is the session's if it is to be created; 0 looks it up.
func (s *Store) prepareBlob(ctx context.Context, key host.Key, number int64, b host.Blob) (putBlob, error) {
	hash, err := hashOf(b.Ref)
	if err != nil {
		return putBlob{}, err
	}
	// Bytes under another content's address would keep the right ones out.
	if blob.Sum(b.Data) != b.Ref {
		return putBlob{}, fmt.Errorf("blob %s: the content has another address", b.Ref)
	}
	p := putBlob{hash: hash, size: len(b.Data), number: number}
	if len(b.Data) <= rowMax {
		p.data = b.Data
		if p.data == nil {
			p.data = []byte{}
		}
		return p, nil
	}
	if number == 0 {
		if p.number, err = s.number(ctx, key); err != nil {
			return putBlob{}, err
		}
		if p.number == 0 {
			return p, nil // no session: the transaction will say so
		}
		// What is there is not written and synced only to be thrown away.
		_, p.known, err = s.has(ctx, sqlBlobOf, p.number, hash)
		if err != nil || p.known {
			return p, err
		}
	}
	p.file, err = s.files.write(p.number, b.Ref.Hex(), b.Data)
	return p, err
}

// fits says whether the blob was made ready for this session and not for one
// of the same name that has come or gone since.
func (p *putBlob) fits(number int64) bool { return p.data != nil || p.number == number }

func hashOf(ref blob.Ref) ([]byte, error) {
	if _, err := blob.ParseRef(string(ref)); err != nil {
		return nil, fmt.Errorf("blob: %w", err)
	}
	return hex.DecodeString(ref.Hex()) //nolint:wrapcheck // the form was checked
}

func (s *Store) has(ctx context.Context, sql string, args ...any) (n int64, found bool, err error) {
	err = s.read.with(ctx, func(c *conn) (err error) {
		n, found, err = c.number(sql, args...)
		return err
	})
	return n, found, err
}

func (s *Store) number(ctx context.Context, key host.Key) (number int64, err error) {
	number, _, err = s.has(ctx, sqlNumber, string(key.Tenant), string(key.Session))
	return number, err
}

// write names the blob in the running transaction.
func (p *putBlob) write(c *conn, number int64) error {
	if p.known {
		return nil
	}
	var file, data any
	if p.file != "" {
		file = p.file
	} else {
		data = p.data
	}
	changed, err := c.changes(sqlBlobPut, number, p.hash, p.size, file, data)
	p.adopted = changed > 0
	return err
}

// PutBlob implements host.Blobs. A session that is not there is ErrNotFound:
// what comes after its deletion leaves nothing.
func (s *Store) PutBlob(ctx context.Context, key host.Key, b host.Blob) error {
	if err := ctx.Err(); err != nil {
		return err //nolint:wrapcheck // the caller compares it with its own
	}
	p, err := s.prepareBlob(ctx, key, 0, b)
	if err != nil {
		return fault("put blob", err)
	}
	err = s.write.do(ctx, int64(len(b.Data)), func(c *conn) error {
		p.adopted = false
		number, there, err := c.number(sqlNumber, string(key.Tenant), string(key.Session))
		switch {
		case err != nil:
			return err
		case !there:
			return host.ErrNotFound
		case !p.fits(number):
			return errMadeAnew
		}
		return p.write(c, number)
	})
	refused := errors.Is(err, host.ErrNotFound) || errors.Is(err, errMadeAnew) || errors.Is(err, ctx.Err())
	if p.file != "" && !p.adopted && (err == nil || refused) {
		s.files.remove([]string{p.file})
	}
	if err == nil && p.adopted {
		s.bytes.Add(int64(len(b.Data)))
	}
	return fault("put blob", err)
}

// errMadeAnew: a session came to be under this name while the write was on
// its way, and its blobs do not lie where they were put.
var errMadeAnew = errors.New("the session was made meanwhile: send the write again")

func (s *Store) findBlob(ctx context.Context, key host.Key, ref blob.Ref) (file string, data []byte, there bool, err error) {
	hash, err := hashOf(ref)
	if err != nil {
		return "", nil, false, err
	}
	err = s.read.with(ctx, func(c *conn) error {
		return c.query(sqlBlob, func(st *sqlite3.Stmt) bool {
			there = true
			if file = st.ColumnText(0); file == "" {
				data = column(st, 1)
			}
			return false
		}, string(key.Tenant), string(key.Session), hash)
	})
	return file, data, there, err
}

// GetBlob implements host.Blobs.
func (s *Store) GetBlob(ctx context.Context, key host.Key, ref blob.Ref) ([]byte, error) {
	file, data, there, err := s.findBlob(ctx, key, ref)
	if err == nil && !there {
		return nil, host.ErrNotFound
	}
	if err == nil && file != "" {
		data, err = s.files.read(file)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, s.lostFile(ctx, key, ref, err)
		}
	}
	if err != nil {
		return nil, fault("get blob", err)
	}
	s.readBytes.Add(int64(len(data)))
	if blob.Sum(data) != ref {
		return nil, fmt.Errorf("blob %s of %s: %w", ref, key, ErrCorrupt)
	}
	return data, nil
}

// lostFile tells a session that was deleted between the two looks from damage.
func (s *Store) lostFile(ctx context.Context, key host.Key, ref blob.Ref, cause error) error {
	_, _, there, err := s.findBlob(ctx, key, ref)
	switch {
	case err != nil:
		return fault("get blob", err)
	case !there:
		return host.ErrNotFound
	}
	return fmt.Errorf("blob %s of %s: %w: %w", ref, key, ErrCorrupt, cause)
}
