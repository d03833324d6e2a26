package host

import (
	"context"
	"errors"
	"fmt"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/ident"
)

// Key names one session. Every key of every store is built from both parts, so
// nothing crosses a tenant.
type Key struct {
	Tenant  ident.TenantID
	Session ident.SessionID
}

func (k Key) String() string { return string(k.Tenant) + "/" + string(k.Session) }

// Lifecycle of a session as its head says it.
const (
	StatusOpen     = "open"
	StatusClosed   = "closed"
	StatusDeleting = "deleting"
)

// Drive statuses: whether work is under way, and who owes the session
// something.
const (
	DriveIdle     = "idle"
	DriveStarting = "starting"
	DriveRunning  = "running"
	DriveParked   = "parked"
	DriveWaking   = "waking"
)

// Drive is the claim on a session's work. A later commit under an older epoch,
// step or attempt is refused.
type Drive struct {
	Epoch   uint64 `json:"epoch"`
	Step    uint64 `json:"step"`
	Attempt int    `json:"attempt"`
	Status  string `json:"status"`
}

// Quarantine says why a session is frozen.
type Quarantine struct {
	Seq    ident.Seq `json:"seq"`
	Code   string    `json:"code"`
	Detail string    `json:"detail"` // at most 200 bytes
}

// Head is the one item of a session that every write is conditioned on. At
// most 1 KB stored.
type Head struct {
	// Rev moves by one on every write of the head.
	Rev uint64 `json:"rev"`
	// Write is the id of the write that made this Rev.
	Write string `json:"write"`
	// Seq is the position of the last event.
	Seq ident.Seq `json:"seq"`
	// Inc is the incarnation (a ULID made at creation).
	Inc        string        `json:"inc"`
	Status     string        `json:"status"`
	Drive      Drive         `json:"drive"`
	DueAt      ident.Instant `json:"dueAt,omitempty"` // 0: nobody owes it anything by a time
	Failures   int           `json:"failures,omitempty"`
	Quarantine *Quarantine   `json:"quarantine,omitempty"`
	At         ident.Instant `json:"at"` // of the last event; time never goes back
}

// StoredEntry is one encoded envelope at its position.
type StoredEntry struct {
	Seq  ident.Seq
	Data []byte
}

// Row is a document beside the log that a commit writes: submission
// (sub#<id>), run (run#<12 digits>), approval (apr#…), question (qst#…),
// promise (prm#…), steer (str#…). Keys sort bytewise.
type Row struct {
	Key  string
	Data []byte
	// IfAbsent makes the commit a Conflict when the row exists.
	IfAbsent bool
	// Todo, when not 0, puts the row on the tenant's list of things that wait
	// for a person, by this instant; writing the row with 0 takes it off.
	Todo ident.Instant
}

// Blob is content that a commit names. It is durable no later than the commit.
type Blob struct {
	Ref  blob.Ref
	Data []byte
}

// Meta is what lists show of a session and what no decision depends on. It is
// written when a run is accepted, waits or ends, and on rename.
type Meta struct {
	Name      string            `json:"name,omitempty"`
	Title     string            `json:"title"`
	Metadata  map[string]string `json:"metadata,omitempty"`
	Status    string            `json:"status"`
	Activity  string            `json:"activity"`
	CreatedAt ident.Instant     `json:"createdAt"`
	UpdatedAt ident.Instant     `json:"updatedAt"`
	ClosedAt  ident.Instant     `json:"closedAt,omitempty"`
	// DeleteAfterDays is kept for retention; nil keeps the session.
	DeleteAfterDays *int64 `json:"deleteAfterDays,omitempty"`
	Model           string `json:"model,omitempty"`
}

// Commit is one conditional write: all of it or nothing.
type Commit struct {
	Key Key
	// Expect is the head's Rev that the batch was decided on; 0 means that the
	// session must not exist. Head.Rev is Expect+1.
	Expect uint64
	// Claim, when not nil, must equal the stored head's Drive, else Conflict.
	Claim   *Drive
	Head    Head
	Entries []StoredEntry
	Rows    []Row
	// DeleteRows takes rows out.
	DeleteRows []string
	Blobs      []Blob
	Meta       *Meta
}

// Conflict says that the condition of a commit did not hold. Head is the
// stored one (zero Rev: there is none).
type Conflict struct {
	Head Head
	// Row is the key of a row that was there already, if that was why.
	Row string
}

func (c *Conflict) Error() string {
	if c.Row != "" {
		return "conflict: row " + c.Row + " exists"
	}
	return fmt.Sprintf("conflict: head is at rev %d", c.Head.Rev)
}

// Errors of the stores. Any other error is a fault: retryable unless Full.
var (
	// ErrNotFound: no such session, row or blob.
	ErrNotFound = errors.New("not found")
	// ErrFull: the disk or the quota is full. Nothing was written.
	ErrFull = errors.New("storage is full")
	// ErrGap: the log lacks an event that the head says is there.
	ErrGap = errors.New("the log has a gap")
)

// Listed is one session of a list.
type Listed struct {
	Session ident.SessionID
	Head    Head
	Meta    Meta
}

// ListQuery asks for sessions of a tenant, newest update first, ties by id.
// The cursor is the last one seen. Status is open, closed or empty for both;
// a deleting session is never listed.
type ListQuery struct {
	Tenant        ident.TenantID
	Status        string
	BeforeUpdated ident.Instant
	BeforeSession ident.SessionID
	Limit         int
}

// TodoRow is a row that waits for a person.
type TodoRow struct {
	Session ident.SessionID
	Row     Row
}

// Log stores heads, events and rows. Implementations must be safe for
// concurrent use.
type Log interface {
	// Head reads the head, strongly. ErrNotFound if there is none.
	Head(ctx context.Context, key Key) (Head, error)
	// Peek reads the head as it is or was a moment ago, at half the price: a
	// hint that it has moved. ErrNotFound if there is none.
	Peek(ctx context.Context, key Key) (Head, error)
	// Open reads the head and the listing document (zero if there is none) in
	// one read, strongly. ErrNotFound if there is no head.
	Open(ctx context.Context, key Key) (Head, Meta, error)
	// Commit writes the batch if the conditions hold. It returns a *Conflict
	// (errors.As) if not, ErrFull (errors.Is) if there is no room. A commit
	// whose Head.Write is already in the log has landed before: that is
	// success, also when others have written since. An error that is neither
	// leaves the outcome unknown; the same Commit may be sent again.
	Commit(ctx context.Context, c Commit) error
	// Read returns the events after a position, in order, at most limit and
	// about maxBytes (at least one if there is any), all at or below upTo.
	// It returns ErrGap if one is missing.
	Read(ctx context.Context, key Key, after, upTo ident.Seq, limit int, maxBytes int64) ([]StoredEntry, error)
	// ReadBefore returns the events just below a position, in order.
	ReadBefore(ctx context.Context, key Key, before ident.Seq, limit int, maxBytes int64) ([]StoredEntry, error)
	// Row reads one row. ErrNotFound if there is none.
	Row(ctx context.Context, key Key, row string) (Row, error)
	// Rows lists rows whose key has the prefix: ascending after the key after,
	// or (desc) descending below it; empty after starts at the end.
	Rows(ctx context.Context, key Key, prefix, after string, desc bool, limit int) ([]Row, error)
	// Meta reads the listing document.
	Meta(ctx context.Context, key Key) (Meta, error)
	// List returns sessions of a tenant.
	List(ctx context.Context, q ListQuery) ([]Listed, error)
	// Todo returns rows of a tenant with Todo set and the key prefix, oldest
	// first, strictly after the cursor (its Todo, session and row key).
	Todo(ctx context.Context, tenant ident.TenantID, prefix string, after *TodoRow, limit int) ([]TodoRow, error)
	// Due returns sessions whose DueAt is set and at or before now, earliest
	// first, over all tenants: a hint, to be read again before acting.
	Due(ctx context.Context, now ident.Instant, limit int) ([]Key, error)
	// Unfinished returns sessions whose drive is not idle, over all tenants.
	Unfinished(ctx context.Context, after Key, limit int) ([]Key, error)
	// Delete removes every item of a session whose head has the incarnation
	// inc; it may be repeated. Another incarnation is left alone.
	Delete(ctx context.Context, key Key, inc string) error
}

// Blobs stores content under a session's prefix by its SHA-256.
type Blobs interface {
	// PutBlob is durable when it returns; putting again is harmless.
	PutBlob(ctx context.Context, key Key, b Blob) error
	// GetBlob returns the content, checked against its address. ErrNotFound.
	GetBlob(ctx context.Context, key Key, ref blob.Ref) ([]byte, error)
}

// Checkpoint is a cached reduced state at a position; always discardable.
type Checkpoint struct {
	Inc  string
	Seq  ident.Seq
	Data []byte
}

// Checkpoints keeps the newest two of a session.
type Checkpoints interface {
	// PutCheckpoint stores it; one older than those there is dropped.
	PutCheckpoint(ctx context.Context, key Key, c Checkpoint) error
	// LatestCheckpoints returns the newest, at most that many and at most two,
	// newest first. Each may be large, and mostly one is enough.
	LatestCheckpoints(ctx context.Context, key Key, most int) ([]Checkpoint, error)
}

// Stash keeps small named documents for a while: a model result whose commit
// did not go through, the first answer to an idempotency key. Names are scoped
// by tenant, and by session where one is given.
type Stash interface {
	// PutStash stores data until the instant. With ifAbsent an existing,
	// unexpired one wins and is returned.
	PutStash(ctx context.Context, key Key, name string, data []byte, until ident.Instant, ifAbsent bool) (existing []byte, err error)
	// GetStash returns ErrNotFound when absent or expired at now.
	GetStash(ctx context.Context, key Key, name string, now ident.Instant) ([]byte, error)
	// DropStash forgets it.
	DropStash(ctx context.Context, key Key, name string) error
	// SweepStash forgets what expired before now, at most limit.
	SweepStash(ctx context.Context, now ident.Instant, limit int) (int, error)
}
