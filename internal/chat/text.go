package chat

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/rivo/uniseg"

	"github.com/perdure/perdure/internal/api"
)

// Safe makes a text fit for a terminal: what a model or a tool wrote must not
// move the cursor, change the title or ring. Line feeds and tabs stay.
func Safe(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case unicode.IsControl(r):
			return '�'
		case r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069:
			return -1 // turns the order of what stands around it
		}
		return r
	}, s)
}

// OneLine shows a text on one line of at most so many columns. It is cut
// between graphemes, wide ones counted as two.
func OneLine(s string, columns int) string {
	s = strings.Join(strings.Fields(Safe(s)), " ")
	if uniseg.StringWidth(s) <= columns {
		return s
	}
	var b strings.Builder
	width := 0
	for g := uniseg.NewGraphemes(s); g.Next(); {
		if width += g.Width(); width > columns-1 {
			break
		}
		b.WriteString(g.Str())
	}
	return b.String() + "…"
}

// InputText is the text of an input; other parts by their names.
func InputText(parts []api.Part) string {
	texts := make([]string, 0, len(parts))
	for _, p := range parts {
		if p.Type == "text" || p.Type == "" && p.Ref == "" {
			texts = append(texts, TextOf(p.Text))
			continue
		}
		name := p.Name
		if name == "" {
			name = p.MediaType
		}
		texts = append(texts, "["+name+"]")
	}
	return strings.Join(texts, " ")
}

// Arguments shows a call's arguments on one line. They may be an object, or,
// where the model wrote none, a string.
func Arguments(raw json.RawMessage, columns int) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return OneLine(text, columns)
	}
	return OneLine(string(raw), columns)
}

// QuestionLine shows one item of a question: what is asked, what there is to
// choose from, and what counts when nobody says otherwise.
func QuestionLine(it api.QuestionItem) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", it.ID, OneLine(it.Prompt, promptColumns))
	if len(it.Options) > 0 {
		values := make([]string, len(it.Options))
		for i, o := range it.Options {
			values[i] = o.Value
			if o.Label != o.Value && o.Label != "" {
				values[i] += " (" + OneLine(o.Label, labelColumns) + ")"
			}
		}
		fmt.Fprintf(&b, " [%s]", strings.Join(values, ", "))
	}
	if it.Multiple {
		b.WriteString(", more than one")
	}
	if it.FreeText {
		b.WriteString(", free text")
	}
	if len(it.Defaults) > 0 {
		fmt.Fprintf(&b, "; default %s", OneLine(strings.Join(it.Defaults, ", "), labelColumns))
	}
	return b.String()
}

const (
	promptColumns = 400
	labelColumns  = 60
)

// FindQuestion finds a pending question of a session; empty is the only one.
func FindQuestion(s *api.Session, id string) *api.Question {
	if s.ActiveRun == nil {
		return nil
	}
	var found *api.Question
	for i := range s.ActiveRun.Questions {
		q := &s.ActiveRun.Questions[i]
		if q.Status == "pending" && (id == "" || q.ID == id) {
			if found != nil {
				return nil
			}
			found = q
		}
	}
	return found
}

// ParseAnswers reads item=value. A word without an item is for the only item
// that there is. What is no option is refused here, with what there is.
func ParseAnswers(items []api.QuestionItem, words []string) (map[string][]string, error) {
	answers := map[string][]string{}
	for _, word := range words {
		id, value, named := strings.Cut(word, "=")
		at := slices.IndexFunc(items, func(it api.QuestionItem) bool { return named && it.ID == id })
		if at < 0 {
			if len(items) != 1 {
				return nil, fmt.Errorf("%q is no item=value; the items are %s", OneLine(word, labelColumns), itemIDs(items))
			}
			at, value = 0, word
		}
		it := items[at]
		if !it.FreeText && !slices.ContainsFunc(it.Options, func(o api.QuestionOption) bool { return o.Value == value }) {
			return nil, fmt.Errorf("%q is no answer; there is %s", OneLine(value, labelColumns), QuestionLine(it))
		}
		answers[it.ID] = append(answers[it.ID], value)
	}
	return answers, nil
}

func itemIDs(items []api.QuestionItem) string {
	ids := make([]string, len(items))
	for i, it := range items {
		ids[i] = it.ID
	}
	return strings.Join(ids, ", ")
}

// TextOf is a text, or the beginning of one that is too long for an answer.
func TextOf(t api.Text) string {
	if t.Ref != "" {
		return t.Preview + "…"
	}
	return t.Text
}
