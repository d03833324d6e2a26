package dynamo

import (
	"context"
	"errors"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/host"
)

// Pointer says at which positions the newest two checkpoints of an incarnation
// stand; 0 is none.
type Pointer struct {
	Inc    string
	Newest ident.Seq
	Before ident.Seq
}

// GetPointer reads where a session's checkpoints stand, strongly. The zero
// Pointer is nowhere.
func (s *Store) GetPointer(ctx context.Context, key host.Key) (Pointer, error) {
	pk, err := partition(key)
	if err != nil {
		return Pointer{}, err
	}
	it, err := s.get(ctx, "checkpoint pointer", pk, skPointer, true)
	if err != nil {
		return Pointer{}, err
	}
	return parsePointer(it)
}

func parsePointer(it item) (p Pointer, err error) {
	if len(it) == 0 {
		return p, nil
	}
	r := reader{it: it}
	p = Pointer{Inc: r.text(attrInc), Newest: ident.Seq(r.uint(attrNewest)), Before: ident.Seq(r.uint(attrBefore))}
	return p, r.err
}

// PutPointer notes a checkpoint that has been written, and returns where the
// newest two stood and stand. It never goes back: not to an older position, and
// not to an older incarnation, whose id sorts before. Whoever wrote a
// checkpoint that is not in now removes it; so it does with what was and is no
// more.
func (s *Store) PutPointer(ctx context.Context, key host.Key, inc string, seq ident.Seq) (was, now Pointer, err error) {
	pk, err := partition(key)
	if err != nil {
		return Pointer{}, Pointer{}, err
	}
	for range passes {
		found, err := s.GetPointer(ctx, key)
		switch {
		case err != nil:
			return Pointer{}, Pointer{}, err
		case found == now && found.Inc != "":
			return was, now, nil // the try before had landed
		case found.with(inc, seq) == found:
			return found, found, nil
		}
		was, now = found, found.with(inc, seq)
		done, err := s.swapPointer(ctx, pk, was, now)
		if err != nil || done {
			return was, now, err
		}
	}
	return Pointer{}, Pointer{}, ErrContended
}

func (p Pointer) with(inc string, seq ident.Seq) Pointer {
	switch {
	case p.Inc < inc:
		return Pointer{Inc: inc, Newest: seq}
	case p.Inc > inc, seq <= p.Newest:
		return p
	default:
		return Pointer{Inc: inc, Newest: seq, Before: p.Newest}
	}
}

func (s *Store) swapPointer(ctx context.Context, pk string, was, now Pointer) (done bool, err error) {
	it := itemKey(pk, skPointer)
	it[attrInc], it[attrNewest], it[attrBefore] = text(now.Inc), number(now.Newest), number(now.Before)
	in := &dynamodb.PutItemInput{TableName: aws.String(s.table), Item: it, ConditionExpression: aws.String(absent)}
	if was.Inc != "" {
		in.ConditionExpression = aws.String("inc = :inc AND newest = :newest")
		in.ExpressionAttributeValues = item{":inc": text(was.Inc), ":newest": number(was.Newest)}
	}
	err = s.try(ctx, "checkpoint pointer", func(ctx context.Context) error {
		_, err := s.api.PutItem(ctx, in)
		return err //nolint:wrapcheck // by try
	})
	if _, changed := errors.AsType[*types.ConditionalCheckFailedException](err); changed {
		return false, nil
	}
	return err == nil, err
}
