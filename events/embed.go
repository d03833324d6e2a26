// Package events carries every JSON shape that is stored, as files: one event
// of each kind and version as it stands in a log (log/<kind>.v<n>.json), and
// its JSON Schema (schema/<kind>.v<n>.schema.json).
//
// It is data and never logic; core/wire's tests write the files and hold them
// to the Go types. It imports embed and io/fs, and may import nothing else.
package events

import (
	"embed"
	"io/fs"
)

//go:embed log/*.json schema/*.json
var files embed.FS

// Files is all of it, under log and schema.
func Files() fs.FS { return files }
