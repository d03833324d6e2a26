package host

import (
	_ "github.com/aws/aws-sdk-go-v2" // want depguard
	_ "github.com/perdure/perdure/core/machine"
	_ "github.com/perdure/perdure/internal/env" // want depguard
	_ "sync/atomic"
)
