package files

import (
	_ "github.com/google/jsonschema-go"
	_ "github.com/perdure/perdure/core/blob"
	_ "github.com/perdure/perdure/core/ident"
	_ "github.com/perdure/perdure/core/machine" // want depguard
	_ "github.com/perdure/perdure/core/session"
	_ "github.com/perdure/perdure/core/wire"               // want depguard
	_ "github.com/perdure/perdure/internal/adapter/memory" // want depguard
	_ "github.com/perdure/perdure/internal/env"            // want depguard
	_ "github.com/perdure/perdure/internal/host"
	_ "github.com/perdure/perdure/internal/host/porttest" // want depguard
	_ "github.com/perdure/perdure/internal/tool"
	_ "os"
)
