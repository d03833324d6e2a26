package tool

import (
	_ "github.com/perdure/perdure/internal/env" // want depguard
	_ "github.com/perdure/perdure/internal/netguard"
)
