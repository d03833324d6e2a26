// Command api is the function api: it serves every request that may change
// something. It only wires: internal/cloud does the work. It may import
// functions/internal, aws-lambda-go and internal/env.
package main

import (
	"context"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/perdure/perdure/functions/internal/boot"
	"github.com/perdure/perdure/functions/internal/web"
	"github.com/perdure/perdure/internal/env"
)

func main() {
	ctx := context.Background()
	f := boot.Function(ctx, env.FunctionAPI)
	lambda.StartWithOptions(web.Handler(f.ServeRequest), lambda.WithContext(ctx))
}
