// Command inbox is the function inbox: it performs the commands of the inbox
// queue. It only wires: internal/cloud does the work. It may import
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
	f := boot.Function(ctx, env.FunctionInbox)
	lambda.StartWithOptions(queue.Handler(f.Inbox), lambda.WithContext(ctx))
}
