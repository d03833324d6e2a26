package local

import (
	_ "github.com/perdure/perdure/core/scenario" // want depguard
	_ "github.com/perdure/perdure/core/wire"
	_ "github.com/perdure/perdure/internal/adapter/memory"
	_ "github.com/perdure/perdure/internal/api"
	_ "github.com/perdure/perdure/internal/host"
	_ "github.com/perdure/perdure/internal/host/porttest" // want depguard
	_ "github.com/perdure/perdure/internal/lintkit"       // want depguard
	_ "github.com/stretchr/testify/require"               // want depguard
	_ "pgregory.net/rapid"                                // want depguard
	_ "testing"                                           // want depguard
)
