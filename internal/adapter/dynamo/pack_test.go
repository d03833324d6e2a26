package dynamo

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/host"
)

const (
	storedFlate      = "018252e6702bcd0c4c8c2dcc0d2d4d4c75488a0a231dcc0c4c426464a4e6e480ea7940000000ffff"
	dictionaryDigest = "f23fa1b63111ad0fb892e4b42895f47a74aeee72809ee954b6e44c0ee96ab549"
)

// TestStoredFormsAreForEver unpacks what was stored once. If it fails, a form
// or its dictionary has changed: make that a form of its own.
func TestStoredFormsAreForEver(t *testing.T) {
	t.Parallel()
	const text = `{"seq":7,"at":1796043871945,"kind":"message.added","v":1,"data":{"entry":2,"run":1,"turn":1,"role":"assistant","source":"model","text":"hello"}}`
	var p packer
	for name, stored := range map[string]string{
		"plain":   "00" + hex.EncodeToString([]byte(text)),
		"flate 1": storedFlate,
	} {
		bytes, err := hex.DecodeString(stored)
		require.NoError(t, err)
		got, err := p.unpack(bytes)
		require.NoError(t, err, name)
		require.Equal(t, text, string(got), name)
	}
	require.Equal(t, dictionaryDigest, digest(dictionary))
}

func TestPackingGainsAndNeverLoses(t *testing.T) {
	t.Parallel()
	var p packer
	event := []byte(`{"seq":12,"at":1796043871948,"kind":"tool.started","v":1,"data":{"run":1,"turn":1,"call":2,"attempt":1,"reason":"first"}}`)
	require.Less(t, len(p.packAll([][]byte{event, event, event})), len(event)/2)
	rapid.Check(t, func(t *rapid.T) {
		texts := rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 0, 2000), 1, 20).Draw(t, "texts")
		size := 0
		for _, text := range texts {
			size += len(text) + 2
		}
		packed := p.packAll(texts)
		require.LessOrEqual(t, len(packed), size+1)
		got, err := p.unpackAll(packed)
		require.NoError(t, err)
		require.Len(t, got, len(texts))
		for i := range texts {
			require.Equal(t, string(texts[i]), string(got[i]))
		}
	})
}

func FuzzUnpack(f *testing.F) {
	var p packer
	f.Add(p.packAll([][]byte{[]byte("one"), []byte(strings.Repeat("two", 100))}))
	f.Add([]byte{formFlate})
	f.Add([]byte{formPlain, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Add([]byte{99})
	f.Fuzz(func(t *testing.T, stored []byte) {
		texts, err := p.unpackAll(stored)
		if err != nil {
			require.True(t, errorsIsAny(err, ErrDamaged, ErrNewerForm))
			return
		}
		again, err := p.unpackAll(p.packAll(texts))
		require.NoError(t, err)
		require.Len(t, again, len(texts))
	})
}

func TestWhatUnpacksToTooMuchIsDamaged(t *testing.T) {
	t.Parallel()
	var p packer
	_, err := p.unpack(p.pack(make([]byte, packMost+1)))
	require.ErrorIs(t, err, ErrDamaged)
	_, err = p.unpack([]byte{99, 1})
	require.ErrorIs(t, err, ErrNewerForm)
}

// TestRowKeysKeepTheirOrder: a table sorts by the bytes of UTF-8 text, the port
// by any bytes.
func TestRowKeysKeepTheirOrder(t *testing.T) {
	t.Parallel()
	keys := rapid.OneOf(rapid.String(), rapid.StringMatching(`(run|sub|h|log|stash|livelog|doc)#?[0-9a-z]{0,3}`),
		rapid.Custom(func(t *rapid.T) string { return string(rapid.SliceOfN(rapid.Byte(), 0, 4).Draw(t, "bytes")) }))
	rapid.Check(t, func(t *rapid.T) {
		a, b := keys.Draw(t, "a"), keys.Draw(t, "b")
		require.Equal(t, strings.Compare(a, b), strings.Compare(encode(a), encode(b)))
		require.Equal(t, a, decode(encode(a)))
		require.Equal(t, strings.HasPrefix(a, b), strings.HasPrefix(encode(a), encode(b)))

		// The pieces of a prefix have its rows, each once, and nothing else.
		sk, err := rowSK(a)
		if err != nil || a == rowPark {
			return
		}
		in := 0
		for _, piece := range rowBounds(b) {
			require.Less(t, piece.low, piece.high)
			if piece.low <= sk && sk <= piece.high {
				in++
			}
			for _, own := range []string{skHead, skMeta, skPark, skPointer, batchSK(1), spaceStash + "n", spaceDoc + "n", spaceLive + "1"} {
				require.False(t, piece.low <= own && own <= piece.high, own)
			}
		}
		require.Equal(t, strings.HasPrefix(a, b), in == 1)
		require.LessOrEqual(t, in, 1)
	})
}

// TestNoTwoSessionsShareAKey (I13): neither a partition nor a place in an
// index.
func TestNoTwoSessionsShareAKey(t *testing.T) {
	t.Parallel()
	ids := rapid.StringMatching(`[0-9A-Za-z][_.:\-0-9A-Za-z]{0,3}`)
	rapid.Check(t, func(t *rapid.T) {
		a := host.Key{Tenant: ident.TenantID(ids.Draw(t, "tenant")), Session: ident.SessionID(ids.Draw(t, "session"))}
		b := host.Key{Tenant: ident.TenantID(ids.Draw(t, "other tenant")), Session: ident.SessionID(ids.Draw(t, "other session"))}
		pkA, err := partition(a)
		require.NoError(t, err)
		pkB, err := partition(b)
		require.NoError(t, err)
		require.Equal(t, a == b, pkA == pkB)
		back, ok := keyOf(pkA)
		require.True(t, ok)
		require.Equal(t, a, back)
		none, err := tenantPartition(host.Key{Tenant: a.Tenant})
		require.NoError(t, err)
		require.NotEqual(t, none, pkB)
		listA, placeA := listKeys(a.Tenant, host.StatusOpen, 5, a.Session)
		listB, placeB := listKeys(b.Tenant, host.StatusOpen, 5, b.Session)
		require.Equal(t, a.Tenant == b.Tenant, listA == listB)
		require.Equal(t, strings.Compare(string(a.Session), string(b.Session)), strings.Compare(placeA, placeB))
		require.Equal(t, strings.Compare(string(a.Session), string(b.Session)), strings.Compare(todoKey(5, a.Session, "r"), todoKey(5, b.Session, "r")))
	})
}
