// Command deliver is the function deliver: it brings to others what the outbox
// queue holds. It only wires: internal/cloud does the work. It may import
// functions/internal, aws-lambda-go and internal/env.
package main

import (
	"context"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/perdure/perdure/functions/internal/boot"
	"github.com/perdure/perdure/functions/internal/queue"
	"github.com/perdure/perdure/internal/env"
)

func main() {
	ctx := context.Background()
	f := boot.Function(ctx, env.FunctionDeliver)
	lambda.StartWithOptions(queue.Handler(f.Deliver), lambda.WithContext(ctx))
}
