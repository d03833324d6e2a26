// Command tool is the function tool: it runs one call of a tool that may take
// longer than a slice should. It only wires: internal/cloud does the work. It
// may import functions/internal, aws-lambda-go and internal/env.
package main

import (
	"context"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/perdure/perdure/functions/internal/boot"
	"github.com/perdure/perdure/internal/env"
)

func main() {
	ctx := context.Background()
	f := boot.Function(ctx, env.FunctionTool)
	lambda.StartWithOptions(boot.Silent(f.Tool), lambda.WithContext(ctx))
}
