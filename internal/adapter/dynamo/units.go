package dynamo

import (
	"reflect"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// ItemSize is the size of an item by which DynamoDB bounds and bills it.
func ItemSize(it map[string]types.AttributeValue) int {
	size := 0
	for name, v := range it {
		size += len(name) + valueSize(v)
	}
	return size
}

// Sizes of values beside their bytes.
const (
	collectionBytes = 3 // a list or map
	elementBytes    = 1 // each of its elements
)

func valueSize(v types.AttributeValue) int {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return len(v.Value)
	case *types.AttributeValueMemberB:
		return len(v.Value)
	case *types.AttributeValueMemberN:
		return numberSize(v.Value)
	case *types.AttributeValueMemberBOOL, *types.AttributeValueMemberNULL:
		return 1
	case *types.AttributeValueMemberL:
		size := collectionBytes
		for _, e := range v.Value {
			size += elementBytes + valueSize(e)
		}
		return size
	case *types.AttributeValueMemberM:
		size := collectionBytes
		for name, e := range v.Value {
			size += elementBytes + len(name) + valueSize(e)
		}
		return size
	case *types.AttributeValueMemberSS:
		return len(strings.Join(v.Value, ""))
	case *types.AttributeValueMemberNS:
		size := 0
		for _, n := range v.Value {
			size += numberSize(n)
		}
		return size
	case *types.AttributeValueMemberBS:
		size := 0
		for _, b := range v.Value {
			size += len(b)
		}
		return size
	}
	return 0
}

// numberSize is one byte, and one for two digits; zeros at either end do not
// count. The documentation calls it approximate: digits are kept in pairs that
// are aligned at the decimal point, and a sign costs a byte.
func numberSize(s string) int {
	digits, negative := strings.CutPrefix(s, "-")
	whole, fraction, _ := strings.Cut(digits, ".")
	if len(whole)%2 == 1 {
		whole = "0" + whole
	}
	if len(fraction)%2 == 1 {
		fraction += "0"
	}
	pairs := whole + fraction
	for strings.HasPrefix(pairs, "00") {
		pairs = pairs[2:]
	}
	for strings.HasSuffix(pairs, "00") {
		pairs = pairs[:len(pairs)-2]
	}
	size := 1 + len(pairs)/2
	if negative && pairs != "" {
		size++
	}
	return size
}

// Sizes of units.
const (
	writeUnitBytes = 1 << 10
	readUnitBytes  = 4 << 10
)

// WriteUnits is what a write of so many bytes costs, alone: the larger of the
// item before and after, by started kilobytes.
func WriteUnits(bytes int) float64 { return float64(max(1, (bytes+writeUnitBytes-1)/writeUnitBytes)) }

// ReadUnits is what a read of so many bytes costs, by started four kilobytes;
// half of it where it is not a strong one. A read of nothing is a unit.
func ReadUnits(bytes int, strongly bool) float64 {
	units := float64(max(1, (bytes+readUnitBytes-1)/readUnitBytes))
	if !strongly {
		units /= 2
	}
	return units
}

// entry is what an index has of an item; nil is nothing.
func (x IndexSchema) entry(table KeySchema, it item) item {
	if it[x.Keys.Hash] == nil || it[x.Keys.Range] == nil {
		return nil
	}
	if x.Projection == string(types.ProjectionTypeAll) {
		return it
	}
	entry := item{}
	for _, name := range []string{table.Hash, table.Range, x.Keys.Hash, x.Keys.Range} {
		entry[name] = it[name]
	}
	return entry
}

// writeUnits is what a write of an item costs in an index: nothing where its
// entry stays as it is, a write to put, change or remove it, and two where its
// place changes.
func (x IndexSchema) writeUnits(table KeySchema, before, after item) float64 {
	was, is := x.entry(table, before), x.entry(table, after)
	switch {
	case was == nil && is == nil:
		return 0
	case was == nil:
		return WriteUnits(ItemSize(is))
	case is == nil:
		return WriteUnits(ItemSize(was))
	case !sameValue(was[x.Keys.Hash], is[x.Keys.Hash]) || !sameValue(was[x.Keys.Range], is[x.Keys.Range]):
		return WriteUnits(ItemSize(was)) + WriteUnits(ItemSize(is))
	case reflect.DeepEqual(was, is):
		return 0
	default:
		return WriteUnits(max(ItemSize(was), ItemSize(is)))
	}
}

func sameValue(a, b types.AttributeValue) bool { return reflect.DeepEqual(a, b) }
