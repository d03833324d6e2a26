package wire

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/session"
)

// Canon builds the canonical form of something and hashes it. Values follow one
// another without names, each in a form that says where it ends, so no two
// different sequences of the same types have the same bytes:
//
//	text     length as uvarint, then the bytes
//	number   uvarint; with a sign, zigzag varint
//	truth    one byte, 0 or 1
//	list     count as uvarint, then the values
//	optional one byte, 0 or 1, then the value if 1
//	payload  its content address, as text: the same inline and by reference
//
// The tag given to Begin separates domains: the same values under another tag
// have another sum. A form is for ever once its sums are stored; what changes
// it takes another tag.
type Canon struct {
	buf []byte
}

// Begin starts a canonical form under a tag.
func Begin(tag string) *Canon {
	c := &Canon{buf: make([]byte, 0, 512)}
	return c.Str(tag)
}

// Str adds a text.
func (c *Canon) Str(s string) *Canon {
	c.buf = binary.AppendUvarint(c.buf, uint64(len(s)))
	c.buf = append(c.buf, s...)
	return c
}

// Strs adds a list of texts.
func (c *Canon) Strs(list []string) *Canon {
	c.Len(len(list))
	for _, s := range list {
		c.Str(s)
	}
	return c
}

// Uint adds a number without a sign.
func (c *Canon) Uint(n uint64) *Canon {
	c.buf = binary.AppendUvarint(c.buf, n)
	return c
}

// Int adds a number.
func (c *Canon) Int(n int64) *Canon {
	c.buf = binary.AppendVarint(c.buf, n)
	return c
}

// Bool adds a truth, or says whether an optional value follows.
func (c *Canon) Bool(b bool) *Canon {
	if b {
		c.buf = append(c.buf, 1)
	} else {
		c.buf = append(c.buf, 0)
	}
	return c
}

// Len begins a list of n values.
func (c *Canon) Len(n int) *Canon { return c.Uint(uint64(n)) }

// Payload adds a payload by its content.
func (c *Canon) Payload(p blob.Payload) *Canon { return c.Str(string(p.Content())) }

// Parts adds an input: of each part its text, blob, media type and name. The
// size of a blob follows from its reference.
func (c *Canon) Parts(parts []session.Part) *Canon {
	c.Len(len(parts))
	for _, p := range parts {
		c.Payload(p.Text).Str(string(p.Blob)).Str(p.MediaType).Str(p.Name)
	}
	return c
}

// Sum is the SHA-256 of what was added, in lower-case hex.
func (c *Canon) Sum() string {
	sum := sha256.Sum256(c.buf)
	return hex.EncodeToString(sum[:])
}

// StateSum hashes the whole of a reduced state, field by field in declared
// order. Two states of one build have the same sum exactly when they decide the
// same and show the same; a payload counts by its content, and an empty list is
// no list. Sums of different builds are not comparable, and are not stored.
func StateSum(s session.State) string {
	v := hasher{Begin("perdure.state." + stateShape)}
	walkState(&v, &s)
	return v.Sum()
}

// hasher is the visitor that adds every field to a canonical form, set or not.
type hasher struct{ *Canon }

func (v *hasher) str(_ string, p *string, _ bool)           { v.Str(*p) }
func (v *hasher) boolean(_ string, p *bool, _ bool)         { v.Bool(*p) }
func (v *hasher) uint64(_ string, p *uint64, _ bool)        { v.Uint(*p) }
func (v *hasher) int64(_ string, p *int64, _ bool)          { v.Int(*p) }
func (v *hasher) int(_ string, p *int, _ bool)              { v.Int(int64(*p)) }
func (v *hasher) payload(_ string, p *blob.Payload, _ bool) { v.Payload(*p) }
func (v *hasher) open(string, bool, bool) bool              { return true }
func (v *hasher) end(bool, bool)                            {}
func (v *hasher) more(i, n int) bool                        { return i < n }
func (v *hasher) endList(int, bool)                         {}

func (v *hasher) present(_ string, isSet bool) bool {
	v.Bool(isSet)
	return isSet
}

func (v *hasher) openList(_ string, n int, _ bool) bool {
	v.Len(n)
	return true
}
