package cloud

import (
	"context"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/adapter/dynamo"
	"github.com/perdure/perdure/internal/adapter/s3"
	"github.com/perdure/perdure/internal/host"
)

// Pointer lets a bucket's checkpoints be found by an item of the table: a read
// costs a twentieth of a listing. The two adapters know nothing of each other.
func Pointer(table *dynamo.Store) s3.Pointer { return pointer{table} }

type pointer struct{ table *dynamo.Store }

// GetPointer implements s3.Pointer.
func (p pointer) GetPointer(ctx context.Context, key host.Key) (s3.Positions, error) {
	at, err := p.table.GetPointer(ctx, key)
	return s3.Positions(at), err
}

// PutPointer implements s3.Pointer.
func (p pointer) PutPointer(ctx context.Context, key host.Key, inc string, seq ident.Seq) (was, now s3.Positions, err error) {
	before, after, err := p.table.PutPointer(ctx, key, inc, seq)
	return s3.Positions(before), s3.Positions(after), err
}
