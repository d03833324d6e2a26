// Command drive is the function drive: it does one slice of a session's work,
// and says what the state machine does next. It only wires: internal/cloud does
// the work. It may import functions/internal, aws-lambda-go and internal/env.
package main

import (
	"context"

	"github.com/aws/aws-lambda-go/lambda"

	"github.com/perdure/perdure/functions/internal/boot"
	"github.com/perdure/perdure/internal/env"
)

func main() {
	ctx := context.Background()
	f := boot.Function(ctx, env.FunctionDrive)
	lambda.StartWithOptions(boot.Raw(f.Drive), lambda.WithContext(ctx))
}
