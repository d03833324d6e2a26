package scenario

import (
	_ "github.com/perdure/perdure/core/machine"
	_ "github.com/perdure/perdure/events"
	_ "github.com/perdure/perdure/internal/host" // want depguard
	_ "github.com/stretchr/testify/require"
	_ "os"
	_ "time"
)
