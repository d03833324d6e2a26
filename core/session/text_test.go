package session

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/ident"
)

const family = "👩‍👩‍👧‍👦é漢"

// TestCutTextIsWhole is T58: text is cut at every byte between code points, and
// what is left is valid UTF-8 that JSON takes.
func TestCutTextIsWhole(t *testing.T) {
	t.Parallel()
	for n := range len(family) + 1 {
		cut := blob.Cut(family, n)
		require.LessOrEqual(t, len(cut), n)
		require.True(t, utf8.ValidString(cut), "%d bytes", n)
		require.True(t, strings.HasPrefix(family, cut))
		data, err := json.Marshal(cut)
		require.NoError(t, err)
		require.NotContains(t, string(data), `\ufffd`)
	}
}

// TestTextOfTheCoreFitsInline: what the core itself makes of others' words, of
// the largest there may be, rides in an event and parts no code point.
func TestTextOfTheCoreFitsInline(t *testing.T) {
	t.Parallel()
	s := State{}
	ids := make([]ident.PromiseID, 0, AwaitMax)
	for i := range AwaitMax {
		id := ident.PromiseID(i + 1)
		ids = append(ids, id)
		s.Promises = append(s.Promises, Promise{ID: id, Status: Resolved, Value: blob.Inline(strings.Repeat("x", i) + strings.Repeat(family, 100))})
	}
	for n := 1; n <= AwaitMax; n++ {
		text := s.snapshot(ids[:n], false)
		require.LessOrEqual(t, len(text), blob.InlineMax, "of %d", n)
		require.True(t, utf8.ValidString(text))
	}
}

// TestQuestionAndAnswerAreReadWhole: the largest question with the longest
// answers is not cut for the model.
func TestQuestionAndAnswerAreReadWhole(t *testing.T) {
	t.Parallel()
	items := make([]QuestionItem, 0, ItemsMax)
	answers := make([]Answer, 0, ItemsMax)
	share := QuestionTextMax / ItemsMax
	for i := range ItemsMax {
		id := string(rune('a' + i))
		items = append(items, QuestionItem{ID: id, Prompt: strings.Repeat("?", share-4), FreeText: true, Defaults: []string{"yes!"}})
		answers = append(answers, Answer{Item: id, Values: []string{strings.Repeat("!", FreeTextMax/ItemsMax)}})
	}
	require.NoError(t, ValidateItems(items))
	require.LessOrEqual(t, len(summary(items, normalise(items, answers), Answered)), blob.InlineMax)
	require.LessOrEqual(t, len(summary(items, normalise(items, nil), Expired)), blob.InlineMax)
}
