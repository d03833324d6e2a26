// Package text folds case by the tables of a Go release: each marked line is
// one finding.
package text

import (
	"bytes"
	"encoding/json" // want json
	"strings"
	"unicode"
	"unicode/utf8"
)

func fold(a, b string) bool {
	_ = bytes.ToTitle([]byte(a))        // want unicode
	_ = strings.Map(unicode.ToLower, a) // want unicode
	lower := strings.ToLower            // want unicode

	return strings.EqualFold(lower(a), b) // want unicode
}

func fine(a string) bool {
	return utf8.ValidString(a) && json.Valid([]byte(strings.TrimSpace(a)))
}
