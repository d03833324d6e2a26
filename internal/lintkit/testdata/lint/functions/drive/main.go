package main

import (
	"context"
	_ "github.com/aws/aws-cdk-go" // want depguard
	_ "github.com/aws/aws-lambda-go"
	_ "github.com/aws/aws-sdk-go-v2"
	_ "github.com/perdure/perdure/core/ident" // want depguard
	_ "github.com/perdure/perdure/internal/adapter/memory"
	_ "github.com/perdure/perdure/internal/host"
	_ "github.com/perdure/perdure/internal/local" // want depguard
)

func main() { _ = context.Background() }
