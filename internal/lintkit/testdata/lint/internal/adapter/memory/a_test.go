package memory_test

import (
	_ "github.com/perdure/perdure/internal/host/porttest"
	_ "github.com/stretchr/testify/require"
)
