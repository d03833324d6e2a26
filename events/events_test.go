package events_test

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"path"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/events"
)

// Whoever writes a reader in another language trusts the schema: it accepts
// what is stored, and nothing that has one field more or one less.
func TestFixturesFollowTheirSchemas(t *testing.T) {
	t.Parallel()
	names, err := fs.Glob(events.Files(), "log/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, names)
	for _, name := range names {
		base := strings.TrimSuffix(path.Base(name), ".json")
		t.Run(base, func(t *testing.T) {
			t.Parallel()
			schema := load(t, "schema/"+base+".schema.json")
			stored, err := fs.ReadFile(events.Files(), name)
			require.NoError(t, err)
			require.True(t, bytes.HasSuffix(stored, []byte("}\n")))
			require.Equal(t, 1, bytes.Count(stored, []byte("\n")))

			require.NoError(t, schema.Validate(parse(t, stored)))

			more := parse(t, stored)
			more["data"].(map[string]any)["unheardOf"] = true
			require.Error(t, schema.Validate(more))

			other := parse(t, stored)
			other["kind"] = "run.sung"
			require.Error(t, schema.Validate(other))

			for _, key := range schema.Schema().Properties["data"].Required {
				less := parse(t, stored)
				delete(less["data"].(map[string]any), key)
				require.Error(t, schema.Validate(less), "without %s", key)
			}
		})
	}
}

func load(t *testing.T, name string) *jsonschema.Resolved {
	t.Helper()
	data, err := fs.ReadFile(events.Files(), name)
	require.NoError(t, err)
	var schema jsonschema.Schema
	require.NoError(t, json.Unmarshal(data, &schema))
	require.Equal(t, "https://json-schema.org/draft/2020-12/schema", schema.Schema)
	resolved, err := schema.Resolve(nil)
	require.NoError(t, err)
	return resolved
}

func parse(t *testing.T, data []byte) map[string]any {
	t.Helper()
	var out map[string]any
	require.NoError(t, json.Unmarshal(data, &out))
	return out
}
