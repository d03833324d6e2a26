package dynamo

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/ident"
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
