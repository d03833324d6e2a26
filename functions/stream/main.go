// Command stream is the function stream: it serves live streams, at a function
// URL that hands on what is written while it is written. The handler is that of
// api. It only wires: internal/cloud does the work. It may import
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
	f := boot.Function(ctx, env.FunctionStream)
	lambda.StartWithOptions(web.Streamer(f.ServeRequest), lambda.WithContext(ctx))
}
