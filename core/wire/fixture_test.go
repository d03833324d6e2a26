package wire_test

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/core/wire"
)

var update = flag.Bool("update", false, "write events/log and events/schema anew")

const (
	logDir    = "../../events/log"
	schemaDir = "../../events/schema"
	howTo     = "the stored form of an event has changed: run\n" +
		"  go test ./core/wire/internal/gen -update && go test ./core/wire -update\n" +
		"and read the diff. Of a kind and version that a release has written only optional fields may be new."
)

func read(t *testing.T, dir, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, name))
	require.NoError(t, err, howTo)
	return string(data)
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
}

// versionOf reads the version in a sample line; the samples are all latest ones.
func versionOf(t *testing.T, line []byte) string {
	t.Helper()
	h, err := wire.DecodeHeader(line)
	require.NoError(t, err)
	return ".v" + string(rune('0'+h.Version))
}

func sampleLine(t *testing.T, zero session.Event) []byte {
	t.Helper()
	line, err := wire.Encode(session.Entry{Seq: 120, At: 1790000000000, Event: sample(zero)})
	require.NoError(t, err)
	return line
}

func TestFixtures(t *testing.T) {
	t.Parallel()
	forEachKind(t, func(t *testing.T, zero session.Event) {
		t.Helper()
		line := sampleLine(t, zero)
		name := string(zero.Kind()) + versionOf(t, line) + ".json"
		if *update {
			write(t, logDir, name, string(line)+"\n")
		}
		stored := read(t, logDir, name)
		require.Equal(t, stored, string(line)+"\n", howTo)
	})
}

// Fixtures of every version, those of the past too, are read, and written again
// in the latest version. One of the latest comes out as the same bytes.
func TestFixturesAreRead(t *testing.T) {
	t.Parallel()
	if *update {
		t.Skip("the files are being written")
	}
	for _, name := range list(t, logDir) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stored := strings.TrimSuffix(read(t, logDir, name), "\n")
			h, err := wire.DecodeHeader([]byte(stored))
			require.NoError(t, err)
			entry, err := wire.Decode([]byte(stored))
			require.NoError(t, err)
			require.Equal(t, h.Kind, entry.Event.Kind())
			again, err := wire.Encode(entry)
			require.NoError(t, err)
			latest, err := wire.DecodeHeader(again)
			require.NoError(t, err)
			if h.Version == latest.Version {
				require.Equal(t, stored, string(again))
				require.Equal(t, sample(entry.Event), entry.Event, howTo)
			}
		})
	}
}

func TestEveryKindHasItsFilesAndNoOtherHas(t *testing.T) {
	t.Parallel()
	if *update {
		t.Skip("the files are being written")
	}
	var logs, schemas []string
	for _, zero := range session.Kinds() {
		base := string(zero.Kind()) + versionOf(t, sampleLine(t, zero))
		logs = append(logs, base+".json")
		schemas = append(schemas, base+".schema.json")
	}
	slices.Sort(logs)
	slices.Sort(schemas)
	require.Equal(t, logs, list(t, logDir), howTo)
	require.Equal(t, schemas, list(t, schemaDir), howTo)
	for _, kind := range session.Reserved() {
		for _, name := range logs {
			require.False(t, strings.HasPrefix(name, string(kind)+".v"), "%s is reserved and has a fixture", kind)
		}
	}
}

func list(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}
