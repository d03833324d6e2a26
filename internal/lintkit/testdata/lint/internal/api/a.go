package api

import (
	_ "github.com/aws/aws-lambda-go" // want depguard
	_ "github.com/perdure/perdure/core/ident"
	_ "github.com/perdure/perdure/core/session"            // want depguard
	_ "github.com/perdure/perdure/internal/adapter/memory" // want depguard
	_ "github.com/perdure/perdure/internal/host"
	_ "github.com/perdure/perdure/internal/tool" // want depguard
)
