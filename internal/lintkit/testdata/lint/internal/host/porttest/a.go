package porttest

import (
	_ "github.com/perdure/perdure/core/session"
	_ "github.com/perdure/perdure/internal/env" // want depguard
	_ "github.com/perdure/perdure/internal/host"
	_ "github.com/stretchr/testify/require"
	_ "testing"
)
