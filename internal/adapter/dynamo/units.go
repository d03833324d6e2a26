package dynamo

import (
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
