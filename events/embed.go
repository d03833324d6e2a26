// Package events carries every JSON shape that is stored or taken in, as files:
// one event of each kind and version as it stands in a log
// (log/<kind>.v<n>.json), its JSON Schema (schema/<kind>.v<n>.schema.json), and
// recorded sessions (histories/<name>.jsonl), of which those named bad-<code>-…
// must not fold. Beside them are sample invocations of the functions
// (invoke/<function>/<case>.json), as Lambda hands them over.
//
// It is data and never logic; the tests of core/wire and core/replay write the
// files and hold them to the Go code. It imports embed and io/fs, and may import nothing else.
package events

import (
	"embed"
	"io/fs"
)

//go:embed log/*.json schema/*.json histories/*.jsonl invoke/*/*.json
var files embed.FS

// Files is all of it, under log, schema, histories and invoke.
func Files() fs.FS { return files }
