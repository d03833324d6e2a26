package events

import (
	_ "embed"
	_ "github.com/perdure/perdure/core/ident" // want depguard
	_ "io/fs"
	_ "os" // want depguard
)
