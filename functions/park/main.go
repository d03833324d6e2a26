// Command park is the function park: it registers the task token of a session
// that waits. It only wires: internal/cloud does the work. It may import
// functions/internal, aws-lambda-go and internal/env.
package main

import (
	"context"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/perdure/perdure/functions/internal/boot"
	"github.com/perdure/perdure/internal/env"
)

func main() {
	ctx := context.Background()
	f := boot.Function(ctx, env.FunctionPark)
	lambda.StartWithOptions(boot.Silent(f.Park), lambda.WithContext(ctx))
}
