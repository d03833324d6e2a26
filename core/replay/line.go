package replay

import (
	"strconv"
	"strings"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/core/wire"
)

// TextMax is how much of a text a line shows, in bytes; HashMax of a hash.
const (
	TextMax = 60
	HashMax = 12
)

// Line is an event for people, in the notation of the scenario scripts:
//
//	12 run.accepted run=1 input=[{text=hello}] actor={id=ada} via=key
//
// Fields come in their declared order, without the empty ones. Text that is not
// one plain word is quoted, long text is cut, a payload that is stored elsewhere
// is blob:<first digits of its hash>(<bytes>). There is no time in it.
func Line(e session.Entry) string {
	data, err := wire.Encode(e)
	if err != nil {
		return strconv.FormatUint(uint64(e.Seq), 10) + " ! " + quote(err.Error(), PartMax)
	}
	return StoredLine(data)
}

// StoredLine is Line of a stored envelope. It shows events of any build, and of
// what is no envelope that it is none.
func StoredLine(line []byte) string {
	h, err := wire.DecodeHeader(line)
	if err != nil {
		return "? " + quote(err.Error(), PartMax)
	}
	out := strconv.FormatUint(uint64(h.Seq), 10) + " " + string(h.Kind)
	if h.Version > 1 {
		out += " v=" + strconv.Itoa(h.Version)
	}
	data, err := parse(line[h.Data : len(line)-1])
	if err != nil {
		return out + " ! " + quote(err.Error(), PartMax)
	}
	var b strings.Builder
	b.WriteString(out)
	for i, key := range data.keys {
		if v := &data.values[i]; !v.empty() {
			b.WriteString(" " + key + "=")
			v.show(&b)
		}
	}
	return b.String()
}

func (t *tree) show(b *strings.Builder) {
	if digits, size, ok := t.reference(); ok {
		b.WriteString("blob:" + digits[:min(len(digits), HashMax)] + "(" + size + ")")
		return
	}
	switch t.form {
	case '{':
		b.WriteByte('{')
		gap := ""
		for i := range t.values {
			if v := &t.values[i]; !v.empty() {
				b.WriteString(gap + t.keys[i] + "=")
				v.show(b)
				gap = " "
			}
		}
		b.WriteByte('}')
	case '[':
		b.WriteByte('[')
		for i := range t.values {
			if i > 0 {
				b.WriteByte(' ')
			}
			t.values[i].show(b)
		}
		b.WriteByte(']')
	case '"':
		b.WriteString(word(t.scalar))
	default:
		b.WriteString(t.scalar)
	}
}

// word shows a text: bare when nothing can be mistaken in it.
func word(s string) string {
	if digits := strings.TrimPrefix(s, "sha256:"); isHash(digits) {
		return s[:len(s)-len(digits)] + digits[:HashMax] + "…"
	}
	if len(s) > TextMax || s == "" {
		return quote(s, TextMax)
	}
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune("_.:/@*+-", rune(c)) {
			return quote(s, TextMax)
		}
	}
	return s
}

func isHash(s string) bool {
	if len(s) != 64 && len(s) != 32 {
		return false
	}
	for i := range len(s) {
		if (s[i] < '0' || s[i] > '9') && (s[i] < 'a' || s[i] > 'f') {
			return false
		}
	}
	return true
}

// quote shows a text in quotes, cut to most bytes.
func quote(s string, most int) string {
	cut := blob.Cut(s, most)
	if len(cut) < len(s) {
		return strconv.Quote(cut) + "…"
	}
	return strconv.Quote(cut)
}

// PartMax is how much of a value an explanation or an error shows, in bytes.
const PartMax = 200
