package chat

import (
	_ "github.com/perdure/perdure/core/ident" // want depguard
	_ "github.com/perdure/perdure/internal/api"
	_ "github.com/perdure/perdure/internal/client"
	_ "github.com/perdure/perdure/internal/host" // want depguard
)
