package memorytest

import (
	_ "testing"

	_ "github.com/perdure/perdure/internal/adapter/memory"
	_ "github.com/perdure/perdure/internal/tool" // want depguard
	_ "github.com/stretchr/testify/require"
)
