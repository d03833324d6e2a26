package scenario

import (
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/session"
)

// verbEdit changes context entries, an edit a line.
//
//	edit if=4
//	put notes text=(remember this)
//	put instructions.tone role=instructions text=(be kind)
//	remove notes
//	replace 3 text=(shorter) call=1
//	redact 4
func verbEdit(w *world, a *args) string {
	c := &session.EditContext{IfRevision: a.num("if", -1), Asked: a.asked()}
	by := a.taker()
	for _, line := range a.input() {
		verb, b := a.line(line)
		switch verb {
		case "put":
			p := session.EditPut{Key: b.key(), Role: b.or("role", session.RoleUser)}
			if text, ok := b.find("text"); ok {
				p.Parts = []session.Part{{Text: payload(text)}}
			}
			c.Put = append(c.Put, p)
		case "remove":
			c.Remove = append(c.Remove, b.key())
		case "replace", "redact":
			r := session.EditReplace{Entry: ident.EntryID(b.number()), Call: int(b.num("call", 0))}
			if verb == "replace" {
				text := b.text("text")
				r.Text = &text
			}
			c.Replace = append(c.Replace, r)
		default:
			require.Fail(a.t, "no such edit", "%s: %s", a.at, line)
		}
		b.rest()
	}
	return w.step(by, c)
}

// key is the first word.
func (a *args) key() string {
	require.NotEmpty(a.t, a.words, a.at)
	a.taken[0] = true
	return strings.Trim(a.words[0].Key, `"`)
}

// verbCompact asks for a summary of the oldest entries.
func verbCompact(w *world, a *args) string {
	return w.step(a.taker(), &session.CompactContext{Asked: a.asked()})
}
