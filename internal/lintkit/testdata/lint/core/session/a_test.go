package session_test

import (
	_ "github.com/aws/aws-sdk-go-v2" // want depguard
	_ "github.com/perdure/perdure/core/ident"
	_ "github.com/perdure/perdure/events"
	_ "github.com/perdure/perdure/internal/env" // want depguard
	_ "github.com/perdure/perdure/internal/lintkit"
	_ "github.com/stretchr/testify/assert" // want depguard
	_ "github.com/stretchr/testify/require"
	_ "net/http"
	_ "pgregory.net/rapid"
	_ "testing"
)
