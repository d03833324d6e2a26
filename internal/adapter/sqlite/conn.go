package sqlite

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"

	sqlite3 "github.com/ncruces/go-sqlite3"

	"github.com/perdure/perdure/internal/host"
)

// conn is a connection with the statements that were prepared on it. One
// goroutine uses it at a time.
type conn struct {
	db    *sqlite3.Conn
	stmts map[string]*sqlite3.Stmt
}

func (c *conn) prepare(sql string) (*sqlite3.Stmt, error) {
	if st := c.stmts[sql]; st != nil {
		return st, nil
	}
	st, _, err := c.db.PrepareFlags(sql, sqlite3.PREPARE_PERSISTENT)
	if err != nil {
		return nil, fmt.Errorf("prepare %q: %w", sql, err)
	}
	c.stmts[sql] = st
	return st, nil
}

// exec runs a statement that returns nothing.
func (c *conn) exec(sql string, args ...any) error {
	st, err := c.bind(sql, args)
	if err != nil {
		return err
	}
	return st.Exec() //nolint:wrapcheck // the operation's name is put on where it ends
}

// changes runs a statement and says how many rows it changed.
func (c *conn) changes(sql string, args ...any) (int, error) {
	if err := c.exec(sql, args...); err != nil {
		return 0, err
	}
	return int(c.db.Changes()), nil
}

// query calls scan for each row while it returns true.
func (c *conn) query(sql string, scan func(st *sqlite3.Stmt) bool, args ...any) error {
	st, err := c.bind(sql, args)
	if err != nil {
		return err
	}
	for st.Step() && scan(st) { //nolint:revive // scan does the work
	}
	err = st.Err()
	// A statement that is not reset holds its snapshot, and the log of writes
	// could not be folded back while it does.
	if reset := st.Reset(); err == nil {
		err = reset
	}
	return err
}

// number reads one integer; found is false when there is no row.
func (c *conn) number(sql string, args ...any) (n int64, found bool, err error) {
	err = c.query(sql, func(st *sqlite3.Stmt) bool {
		n, found = st.ColumnInt64(0), true
		return false
	}, args...)
	return n, found, err
}

func (c *conn) bind(sql string, args []any) (*sqlite3.Stmt, error) {
	st, err := c.prepare(sql)
	if err != nil {
		return nil, err
	}
	for i, arg := range args {
		switch v := arg.(type) {
		case nil:
			err = st.BindNull(i + 1)
		case int:
			err = st.BindInt64(i+1, int64(v))
		case int64:
			err = st.BindInt64(i+1, v)
		case string:
			err = st.BindText(i+1, v)
		case []byte:
			if v == nil {
				v = []byte{}
			}
			err = st.BindBlob(i+1, v)
		default:
			err = fmt.Errorf("bind %T", arg)
		}
		if err != nil {
			return nil, fmt.Errorf("bind argument %d: %w", i+1, err)
		}
	}
	return st, nil
}

func (c *conn) close() error {
	var errs []error
	for _, st := range c.stmts {
		errs = append(errs, st.Close())
	}
	return errors.Join(append(errs, c.db.Close())...)
}

// column returns a copy of a blob or text column, never nil.
func column(st *sqlite3.Stmt, i int) []byte { return append([]byte{}, st.ColumnRawBlob(i)...) }

// fault names the operation that failed, and what a caller can act on.
func fault(op string, err error) error {
	var code sqlite3.ErrorCode
	switch {
	case err == nil:
		return nil
	// The shared memory between connections is a file too, and grows.
	case errors.Is(err, sqlite3.FULL), errors.Is(err, sqlite3.IOERR_SHMSIZE), errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return fmt.Errorf("%s: %w: %w", op, host.ErrFull, err)
	case errors.Is(err, sqlite3.CORRUPT), errors.Is(err, sqlite3.NOTADB):
		return fmt.Errorf("%s: %w: %w", op, ErrCorrupt, err)
	case errors.As(err, &code):
		return fmt.Errorf("%s: database: %w", op, err)
	default:
		return fmt.Errorf("%s: %w", op, err)
	}
}

// readers is the pool of connections that reads use.
type readers struct {
	path string
	idle chan *conn
	room chan struct{} // a token for each connection that may still be opened
	mu   sync.RWMutex  // read-held by every read, so that close waits for them
	shut bool
}

func newReaders(path string, most int) *readers {
	r := &readers{path: path, idle: make(chan *conn, most), room: make(chan struct{}, most)}
	for range most {
		r.room <- struct{}{}
	}
	return r
}

// with runs a read on a connection of its own.
func (r *readers) with(ctx context.Context, read func(c *conn) error) error {
	if err := ctx.Err(); err != nil {
		return err //nolint:wrapcheck // the caller compares it with its own
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.shut {
		return ErrClosed
	}
	c, err := r.take(ctx)
	if err != nil {
		return err
	}
	defer func() { r.idle <- c }()
	return read(c)
}

func (r *readers) take(ctx context.Context) (*conn, error) {
	select {
	case c := <-r.idle:
		return c, nil
	default:
	}
	select {
	case c := <-r.idle:
		return c, nil
	case <-r.room:
		c, err := connect(r.path, "os")
		if err != nil {
			r.room <- struct{}{}
		}
		return c, err
	case <-ctx.Done():
		return nil, ctx.Err() //nolint:wrapcheck // as in with
	}
}

// snapshot is with, for several statements that must agree with each other.
func (r *readers) snapshot(ctx context.Context, read func(c *conn) error) error {
	return r.with(ctx, func(c *conn) error {
		if err := c.exec("BEGIN"); err != nil {
			return err
		}
		return errors.Join(read(c), c.exec("ROLLBACK"))
	})
}

func (r *readers) close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.shut = true
	var errs []error
	for {
		select {
		case c := <-r.idle:
			errs = append(errs, c.close())
		default:
			return errors.Join(errs...)
		}
	}
}
