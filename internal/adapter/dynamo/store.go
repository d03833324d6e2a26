// Package dynamo keeps sessions in one DynamoDB table: host.Log and host.Stash
// of the deployment on AWS, documents of a tenant, the pointer to a session's
// newest checkpoints, and, while somebody watches, what turns in flight say.
//
// A commit is one conditional write: the head alone, or a transaction of the
// head, the batch at its first position, and the rows. Blobs are written before
// it, through the port it is given. What a fold or a decision depends on is
// read strongly; lists come from indexes, and are hints. Meter counts request
// units by AWS's rules; Schema says what the table looks like.
//
// It creates no table, keeps nothing in memory between calls but live frames,
// and knows nothing of what is in events and rows. It may import the standard library,
// aws-sdk-go-v2 and smithy-go, core/ident and internal/host.
package dynamo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/host"
)

// API is what the store asks of DynamoDB: *dynamodb.Client, or what wraps it.
type API interface {
	GetItem(ctx context.Context, in *dynamodb.GetItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error)
	PutItem(ctx context.Context, in *dynamodb.PutItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error)
	UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error)
	DeleteItem(ctx context.Context, in *dynamodb.DeleteItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.DeleteItemOutput, error)
	Query(ctx context.Context, in *dynamodb.QueryInput, opts ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error)
	Scan(ctx context.Context, in *dynamodb.ScanInput, opts ...func(*dynamodb.Options)) (*dynamodb.ScanOutput, error)
	BatchGetItem(ctx context.Context, in *dynamodb.BatchGetItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error)
	BatchWriteItem(ctx context.Context, in *dynamodb.BatchWriteItemInput, opts ...func(*dynamodb.Options)) (*dynamodb.BatchWriteItemOutput, error)
	TransactWriteItems(ctx context.Context, in *dynamodb.TransactWriteItemsInput, opts ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error)
}

// NewClient makes the client for a Store. Retries are set here, on purpose and
// once: the SDK makes none. The Store makes them itself, because only it knows
// which request may be sent again and how a landed one is recognised; retries
// of two layers would multiply.
func NewClient(cfg aws.Config, more ...func(*dynamodb.Options)) *dynamodb.Client {
	once := func(o *dynamodb.Options) { o.Retryer = aws.NopRetryer{} }
	return dynamodb.NewFromConfig(cfg, append([]func(*dynamodb.Options){once}, more...)...)
}

// Options of a Store; the zero value is good where no commit has blobs.
type Options struct {
	// Blobs takes a commit's blobs, before the transaction that names them.
	Blobs host.Blobs
	// Purge, if set, removes what a session keeps outside the table. Delete
	// calls it before the head goes; it must be repeatable.
	Purge func(ctx context.Context, key host.Key, inc string) error
	// Now judges the expiry of stashed documents. The default is the clock.
	Now func() ident.Instant
	// Shards of the index of what is due: 16, unless set. Other shards than
	// those that items were written under hide them.
	Shards int
	// Tries is how often one request is made, the first included: 8, unless set.
	Tries int
	// Timeout of one try: 5 s, unless set. It ends before a function does, so
	// that a lost response is asked about again.
	Timeout time.Duration
	// Pause waits between tries. The default waits by the clock.
	Pause func(ctx context.Context, d time.Duration) error
	// NewID names a write for which the port gives no name. The default is
	// random.
	NewID func() string
}

// Store implements host.Log and host.Stash over one table. It is safe for
// concurrent use.
type Store struct {
	api    API
	table  string
	o      Options
	packer packer
}

// Errors beside those of the ports.
var (
	// ErrTooLarge: more than one request may write. Nothing was written.
	ErrTooLarge = errors.New("too large for one write: spill payloads to blobs, or write less at once")
	// ErrThrottled: the table took no more requests. Try again later.
	ErrThrottled = errors.New("the table is throttled: try again later, or raise its limits")
	// ErrContended: others were writing the same items all the time.
	ErrContended = errors.New("others are writing the same items: try again")
	// ErrDamaged: stored items cannot be what this package wrote.
	ErrDamaged = errors.New("stored items are damaged: restore the table to a point in time")
	// ErrNewerForm: an item was written by a newer version. Nothing is changed.
	ErrNewerForm = errors.New("an item was written by a newer version of this program: deploy that version")
	// ErrKey: an id or name that cannot be part of a key.
	ErrKey = errors.New("cannot be part of a key")
	// ErrRevision: a document is at another revision than expected.
	ErrRevision = errors.New("the document was changed meanwhile: read it again")
)

const (
	defaultShards  = 16
	defaultTries   = 8
	defaultTimeout = 5 * time.Second
)

// New makes a store over an existing table. The client should be one of
// NewClient.
func New(api API, table string, o Options) *Store {
	if o.Now == nil {
		o.Now = func() ident.Instant { return ident.Instant(time.Now().UnixMilli()) }
	}
	if o.Shards <= 0 {
		o.Shards = defaultShards
	}
	if o.Tries <= 0 {
		o.Tries = defaultTries
	}
	if o.Timeout <= 0 {
		o.Timeout = defaultTimeout
	}
	if o.Pause == nil {
		o.Pause = pause
	}
	if o.NewID == nil {
		o.NewID = func() string { return fmt.Sprintf("%016x%016x", rand.Uint64(), rand.Uint64()) } //nolint:gosec // a name, not a secret
	}
	return &Store{api: api, table: table, o: o}
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err() //nolint:wrapcheck // the caller compares it with its own
	}
}
