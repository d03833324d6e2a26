package dynamo

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/host"
)

// This file is the only one that makes or reads keys (I13: nothing crosses a
// tenant). A tenant and a session have no '#' in them, so that no two pairs
// share a key, and '#' sorts before every byte that they have.

// Sort keys. Rows of the port stand beside them under their own keys.
const (
	skHead    = "h#head"
	skMeta    = "h#meta"
	skPark    = "h#park"
	skPointer = "h#ckpt"

	spaceHead  = "h#"
	spaceLog   = "log#"
	spaceStash = "stash#"
	spaceDoc   = "doc#"
	spaceLive  = "live#"

	// rowPark is the row that stands under skPark.
	rowPark = "park"

	// last sorts after whatever follows a prefix in a sort key.
	last = "\U0010FFFF"
	// first sorts before every sort key.
	first = "\x00"

	// seqMax is the last position that a sort key has digits for.
	seqMax ident.Seq = 999_999_999_999
	// instantMax is the last instant that an index key has digits for.
	instantMax ident.Instant = 999_999_999_999_999
	// sortMax is DynamoDB's limit for a sort key, in bytes.
	sortMax = 1024
)

// spaces are the sort keys that no row of the port may have, in order.
func spaces() [5]string { return [...]string{spaceDoc, spaceHead, spaceLive, spaceLog, spaceStash} }

// item is a stored item, or the key of one.
type item = map[string]types.AttributeValue

func text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }
func blob(b []byte) types.AttributeValue { return &types.AttributeValueMemberB{Value: b} }
func number[N int | int64 | uint64 | ident.Seq | ident.Instant](n N) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: fmt.Sprint(n)}
}

// partition is the hash key of a session.
func partition(key host.Key) (string, error) {
	if _, err := ident.ParseSessionID(string(key.Session)); err != nil {
		return "", fmt.Errorf("%w: %w", ErrKey, err)
	}
	return tenantPartition(key)
}

// tenantPartition is the hash key of a session, or, without one, of what
// belongs to the tenant alone.
func tenantPartition(key host.Key) (string, error) {
	if _, err := ident.ParseTenantID(string(key.Tenant)); err != nil {
		return "", fmt.Errorf("%w: %w", ErrKey, err)
	}
	if key.Session != "" {
		if _, err := ident.ParseSessionID(string(key.Session)); err != nil {
			return "", fmt.Errorf("%w: %w", ErrKey, err)
		}
	}
	return string(key.Tenant) + "#" + string(key.Session), nil
}

// keyOf reads a hash key.
func keyOf(pk string) (host.Key, bool) {
	tenant, session, found := strings.Cut(pk, "#")
	return host.Key{Tenant: ident.TenantID(tenant), Session: ident.SessionID(session)}, found && session != ""
}

func itemKey(pk, sk string) item { return item{attrPK: text(pk), attrSK: text(sk)} }

func batchSK(seq ident.Seq) string { return fmt.Sprintf("%s%012d", spaceLog, uint64(min(seq, seqMax))) }

// batchSeq is the position of a batch's first event.
func batchSeq(sk string) (ident.Seq, bool) {
	digits, found := strings.CutPrefix(sk, spaceLog)
	n, err := strconv.ParseUint(digits, 10, 64)
	return ident.Seq(n), found && err == nil
}

// encode maps any bytes to valid UTF-8, in order and one to one: ASCII to
// itself, another byte to the character of its number.
func encode(s string) string {
	if ascii(s) {
		return s
	}
	runes := make([]rune, len(s))
	for i := range len(s) {
		runes[i] = rune(s[i])
	}
	return string(runes)
}

func decode(s string) string {
	if ascii(s) {
		return s
	}
	b := make([]byte, 0, len(s))
	for _, r := range s {
		b = append(b, byte(r))
	}
	return string(b)
}

func ascii(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// rowSK is the sort key of a row of the port.
func rowSK(row string) (string, error) {
	if row == rowPark {
		return skPark, nil
	}
	sk := encode(row)
	if row == "" || len(sk) > sortMax {
		return "", fmt.Errorf("row key of %d bytes: %w: allowed are 1 to %d", len(sk), ErrKey, sortMax)
	}
	for _, space := range spaces() {
		if strings.HasPrefix(row, space) {
			return "", fmt.Errorf("row key that begins with %s: %w: the store keeps its own items there", space, ErrKey)
		}
	}
	return sk, nil
}

func rowOf(sk string) string {
	if sk == skPark {
		return rowPark
	}
	return decode(sk)
}

// bounds are sort keys from low through high.
type bounds struct{ low, high string }

// rowBounds are the sort keys of rows with a prefix, without the store's own
// items: one piece for every prefix that the host uses. The row "park" is read
// by its name, and is in no list.
func rowBounds(prefix string) []bounds {
	low := encode(prefix)
	rest := bounds{low + first, low + last}
	if low != "" {
		rest.low = low
	}
	var pieces []bounds
	for _, space := range spaces() {
		if space+last < rest.low || rest.high < space {
			continue
		}
		pieces = append(pieces, bounds{rest.low, space})
		rest.low = space + last
	}
	return slices.DeleteFunc(append(pieces, rest), func(b bounds) bool { return b.low >= b.high })
}

// listKeys place a session in the list of its tenant and status: newest first,
// ties by id.
func listKeys(tenant ident.TenantID, status string, updated ident.Instant, session ident.SessionID) (pk, sk string) {
	return string(tenant) + "#" + status, fmt.Sprintf("%015d#%s", instantMax-within(updated), session)
}

// dueKey is the partition of the index of what is due.
func dueKey(shard int) string { return "due#" + strconv.Itoa(shard) }

func (s *Store) shardOf(pk string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(pk)) // it never fails
	return int(h.Sum32() % uint32(s.o.Shards))
}

// todoKey places a row in the list of what waits for a person: oldest first,
// then by session and row.
func todoKey(at ident.Instant, session ident.SessionID, row string) string {
	return fmt.Sprintf("%015d#%s#%s", within(at), session, encode(row))
}

// todoAt reads the instant of a todoKey.
func todoAt(key string) ident.Instant {
	digits, _, _ := strings.Cut(key, "#")
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return 0
	}
	return ident.Instant(n)
}

func within(at ident.Instant) ident.Instant { return min(max(at, 0), instantMax) }

// stashSK is the sort key of a stashed document.
func stashSK(name string) (string, error) { return named(spaceStash, name) }

// docSK is the sort key of a tenant's document.
func docSK(name string) (string, error) { return named(spaceDoc, name) }

func named(space, name string) (string, error) {
	sk := space + encode(name)
	if name == "" || len(sk) > sortMax {
		return "", fmt.Errorf("name of %d bytes: %w: allowed are 1 to %d", len(name), ErrKey, sortMax-len(space))
	}
	return sk, nil
}
