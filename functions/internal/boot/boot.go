// Package boot is what every main of a function does: it reads the environment,
// makes the adapters, hands both to internal/cloud, and gets it ready.
//
// It decides nothing. Clients of AWS are made here and ask nothing until they
// are used. It may import the adapters, internal/cloud and the AWS SDK.
package boot

import (
	"context"
	"encoding/json"
	"os"
	"runtime/debug"

	"github.com/aws/aws-lambda-go/lambdacontext"

	"github.com/perdure/perdure/internal/cloud"
)

// Function makes the function of a role, ready for its first invocation.
func Function(ctx context.Context, role string) *cloud.Function {
	f := cloud.New(ctx, cloud.Config{Role: role, Lookup: os.LookupEnv, Connect: connect, Out: os.Stdout, Version: version()})
	f.Warm(ctx)
	return f
}

// version is that of the module, or the commit that was built.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	return "devel"
}

// Raw handles an event by its bytes, and answers with bytes.
func Raw(handle func(ctx context.Context, id string, event []byte) ([]byte, error)) func(context.Context, json.RawMessage) (json.RawMessage, error) {
	return func(ctx context.Context, event json.RawMessage) (json.RawMessage, error) {
		return handle(ctx, id(ctx), event)
	}
}

// Silent handles an event by its bytes, and has nothing to say.
func Silent(handle func(ctx context.Context, id string, event []byte) error) func(context.Context, json.RawMessage) error {
	return func(ctx context.Context, event json.RawMessage) error {
		return handle(ctx, id(ctx), event)
	}
}

// id is that of the invocation.
func id(ctx context.Context) string {
	if lc, ok := lambdacontext.FromContext(ctx); ok {
		return lc.AwsRequestID
	}
	return ""
}
