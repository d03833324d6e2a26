package dynamo

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/host"
)

// Table is the table's name.
func (s *Store) Table() string { return s.table }

// BatchSK is the sort key of a batch.
func BatchSK(seq ident.Seq) string { return batchSK(seq) }

// BatchSeq is the position of a stored batch.
func BatchSeq(t *testing.T, it map[string]types.AttributeValue) ident.Seq {
	t.Helper()
	r := reader{it: it}
	seq, ok := batchSeq(r.text(attrSK))
	require.True(t, ok)
	return seq
}

// Events are those of a stored batch.
func (s *Store) Events(t *testing.T, it map[string]types.AttributeValue) [][]byte {
	t.Helper()
	r := reader{it: it}
	events, err := s.packer.unpackAll(r.blob(attrEvents))
	require.NoError(t, err)
	return events
}

// Pack is how a batch keeps its events.
func (s *Store) Pack(events [][]byte) []byte { return s.packer.packAll(events) }

// HeadSize is the size of a head as it is stored.
func (s *Store) HeadSize(t *testing.T, key host.Key, head host.Head) int {
	t.Helper()
	pk, err := partition(key)
	require.NoError(t, err)
	it, err := s.headItem(pk, head)
	require.NoError(t, err)
	return ItemSize(it)
}

func digest(s string) string {
	h := sha256.Sum256([]byte(s))
	return hex.EncodeToString(h[:])
}

func errorsIsAny(err error, targets ...error) bool {
	return slices.ContainsFunc(targets, func(target error) bool { return errors.Is(err, target) })
}
