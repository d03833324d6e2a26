package memory

import (
	_ "github.com/aws/aws-sdk-go-v2"
	_ "github.com/perdure/perdure/core/machine" // want depguard
	_ "github.com/perdure/perdure/core/session"
	_ "github.com/perdure/perdure/core/wire"
	_ "github.com/perdure/perdure/internal/env" // want depguard
	_ "github.com/perdure/perdure/internal/host"
	_ "github.com/perdure/perdure/internal/netguard"
	_ "github.com/perdure/perdure/internal/tool" // want depguard
)
