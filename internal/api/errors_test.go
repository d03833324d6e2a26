package api

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEveryCodeIsExplained holds docs/ERRORS.md to the codes that there are.
func TestEveryCodeIsExplained(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("../../docs/ERRORS.md")
	require.NoError(t, err)
	later := []string{"has_dependents", "quota_exceeded", "rate_limited"}
	explained := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\| ([0-9, ]+) \\| .+ \\| .+ \\|$").FindAllStringSubmatch(string(doc), -1) {
		explained[row[1]] = row[2]
	}
	for code, k := range kinds {
		status, ok := explained[string(code)]
		require.True(t, ok, "%s is not explained", code)
		require.Contains(t, strings.Split(status, ", "), strconv.Itoa(k.status))
		delete(explained, string(code))
	}
	require.Len(t, explained, len(later))
	for _, code := range later {
		require.Contains(t, explained, code)
	}
}
