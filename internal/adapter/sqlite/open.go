package sqlite

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	sqlite3 "github.com/ncruces/go-sqlite3"
)

// openDatabase opens the file for writing, made or migrated as it must be.
func openDatabase(path, fileSystem string) (*conn, error) {
	if err := checkHeader(path); err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	// Made here and not by the library, which would let the umask decide who
	// may read it.
	for _, name := range []string{path, path + "-shm"} {
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, fmt.Errorf("open database: %w", err)
		}
		if err := f.Close(); err != nil {
			return nil, fmt.Errorf("open database: %w", err)
		}
	}
	if err := registerGathering(); err != nil {
		return nil, err
	}
	c, err := connect(path, fileSystem)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	if err := c.prepareFile(); err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: %w", path, err), c.close())
	}
	return c, syncFolder(filepath.Dir(path))
}

// connect opens a connection with the settings that all of them have.
func connect(path, fileSystem string) (*conn, error) {
	query := url.Values{"modeof": {path}, "vfs": {fileSystem}}
	// SQLite knows no plus for a space.
	uri := url.URL{Scheme: "file", Path: filepath.ToSlash(path), RawQuery: strings.ReplaceAll(query.Encode(), "+", "%20")}
	db, err := sqlite3.OpenFlags(uri.String(), sqlite3.OPEN_READWRITE|sqlite3.OPEN_URI)
	if err != nil {
		return nil, fault("connect", err)
	}
	c := &conn{db: db, stmts: map[string]*sqlite3.Stmt{}}
	err = errors.Join(
		db.BusyTimeout(10*time.Second),
		// secure_delete: what was deleted is overwritten, so that nothing of a
		// deleted session can be read out of the file. wal_autocheckpoint: pages
		// that many commits change are folded back once for all of them; 16 MB
		// of log are read again at a start in some 20 ms.
		db.Exec("PRAGMA synchronous = FULL; PRAGMA temp_store = MEMORY; PRAGMA secure_delete = ON; PRAGMA cache_size = -8000; PRAGMA wal_autocheckpoint = 4000"),
	)
	if err != nil {
		return nil, errors.Join(fault("connect", err), c.close())
	}
	return c, nil
}

// The places of two numbers in a database file's header.
const (
	headerBytes     = 100
	versionAt       = 60
	applicationIDAt = 68
	headerMagic     = "SQLite format 3\x00"
)

// checkHeader looks at the file without opening it as a database, which might
// already change it or the files beside it.
func checkHeader(path string) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err //nolint:wrapcheck // names the path
	}
	defer f.Close() //nolint:errcheck // only read
	header := make([]byte, headerBytes)
	n, err := io.ReadFull(f, header)
	switch {
	case n == 0 && errors.Is(err, io.EOF):
		return nil
	case errors.Is(err, io.ErrUnexpectedEOF):
		return ErrForeign
	case err != nil:
		return err //nolint:wrapcheck // names the path
	case string(header[:len(headerMagic)]) != headerMagic:
		return ErrForeign
	}
	return checkIdentity(
		int64(binary.BigEndian.Uint32(header[applicationIDAt:])), int64(binary.BigEndian.Uint32(header[versionAt:])), len(migrations()))
}

// checkIdentity judges a file by its marks. A file with none may be one that a
// crash left before its tables were made; prepareFile looks closer.
func checkIdentity(id, version int64, newest int) error {
	switch {
	case id == 0 && version == 0:
		return nil
	case id != applicationID:
		return ErrForeign
	case version > int64(newest):
		return fmt.Errorf("%w (its version is %d, this program's %d)", ErrNewerDatabase, version, newest)
	}
	return nil
}

// prepareFile brings the tables to this version, and the file to WAL.
func (c *conn) prepareFile() error {
	if err := c.migrate(migrations()); err != nil {
		return err
	}
	mode := ""
	err := c.query("PRAGMA journal_mode = WAL", func(st *sqlite3.Stmt) bool { mode = st.ColumnText(0); return true })
	if err != nil {
		return fault("switch to WAL", err)
	}
	if mode != "wal" {
		return fmt.Errorf("this system cannot share memory between connections: journal mode is %q, not wal", mode)
	}
	// Read through once: the names of damaged tables are known now, not when a
	// session needs them.
	return fault("read the tables", c.exec("SELECT count(*) FROM sqlite_master"))
}

// migrate runs the steps that the file has not seen, each with its version in
// one transaction: a crash leaves the file at a version, never between two.
func (c *conn) migrate(steps []string) error {
	id, _, err := c.number("PRAGMA application_id")
	if err != nil {
		return fault("read the file's marks", err)
	}
	version, _, err := c.number("PRAGMA user_version")
	if err != nil {
		return fault("read the file's marks", err)
	}
	tables, _, err := c.number("SELECT count(*) FROM sqlite_master")
	if err != nil {
		return fault("read the file's tables", err)
	}
	if err := checkIdentity(id, version, len(steps)); err != nil {
		return err
	}
	if id == 0 && tables > 0 {
		return ErrForeign
	}
	for ; version < int64(len(steps)); version++ {
		err := c.db.Exec("BEGIN IMMEDIATE;" + steps[version] +
			";PRAGMA application_id = " + strconv.Itoa(applicationID) +
			";PRAGMA user_version = " + strconv.FormatInt(version+1, 10) + ";COMMIT")
		if err != nil {
			_ = c.db.Exec("ROLLBACK") // there may be none to roll back; the first error counts
			return fault(fmt.Sprintf("migrate to version %d", version+1), err)
		}
	}
	return nil
}
