// Command read is the function read: it serves what is only read, long polls
// among it, so that they keep no command waiting for a free function. The
// handler is that of api. It only wires: internal/cloud does the work. It may
// import functions/internal, aws-lambda-go and internal/env.
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
	f := boot.Function(ctx, env.FunctionRead)
	lambda.StartWithOptions(web.Handler(f.ServeRequest), lambda.WithContext(ctx))
}
