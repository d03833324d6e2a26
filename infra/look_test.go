package main

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// of returns the resources of a type by their logical ids. There is at least one:
// a test of none would pass.
func (s synthesized) of(t *testing.T, kind string) map[string]resource {
	t.Helper()
	found := map[string]resource{}
	for id, r := range s.Template.Resources {
		if r.Type == kind {
			found[id] = r
		}
	}
	require.NotEmpty(t, found, kind)
	return found
}

// only is the one resource of a type.
func (s synthesized) only(t *testing.T, kind string) resource {
	t.Helper()
	found := s.of(t, kind)
	require.Len(t, found, 1, kind)
	for _, r := range found {
		return r
	}
	panic("unreachable")
}

// function is one by its name without the stack's.
func (s synthesized) function(t *testing.T, name string) (id string, r resource) {
	t.Helper()
	for id, r := range s.of(t, "AWS::Lambda::Function") {
		if strings.HasSuffix(r.Properties["FunctionName"].(string), "-"+name) {
			return id, r
		}
	}
	t.Fatalf("there is no function %s", name)
	return "", resource{}
}

// at follows keys into a value.
func at(value any, path ...string) any {
	for _, key := range path {
		object, _ := value.(map[string]any)
		value = object[key]
	}
	return value
}

// refers says whether a value mentions a resource: Ref, Fn::GetAtt, in a Fn::Join.
func refers(t *testing.T, value any, id string) bool {
	t.Helper()
	return strings.Contains(jsonOf(t, value), `"`+id+`"`)
}

func jsonOf(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	require.NoError(t, err)
	return string(text)
}

// listOf takes what may be one or several.
func listOf(value any) []any {
	if list, ok := value.([]any); ok {
		return list
	}
	if value == nil {
		return nil
	}
	return []any{value}
}

// whole is a number of a template.
func whole(t *testing.T, value any) int {
	t.Helper()
	n, ok := value.(float64)
	require.True(t, ok, "%v is no number", value)
	return int(n)
}

func sortedKeys[V any](m map[string]V) []string {
	return slices.Sorted(maps.Keys(m))
}
