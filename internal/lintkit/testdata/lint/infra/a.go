package infra

import (
	_ "github.com/aws/aws-cdk-go"
	_ "github.com/aws/aws-sdk-go-v2"          // want depguard
	_ "github.com/perdure/perdure/core/ident" // want depguard
	_ "github.com/perdure/perdure/internal/env"
	_ "github.com/perdure/perdure/internal/host" // want depguard
)
