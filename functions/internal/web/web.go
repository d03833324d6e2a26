// Package web turns the events of HTTP front doors into requests for an
// http.Handler, and its answers into theirs: whole ones for an HTTP API or a
// buffered function URL, streamed ones for a function URL that streams.
//
// Both doors speak API Gateway's payload format 2.0. It is converted here, and by
// no library: docs/decisions says why. It may import aws-lambda-go.
package web

import (
	"context"
	"net/http"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambdacontext"
)

// Serve serves one request; id is that of the invocation.
type Serve func(w http.ResponseWriter, r *http.Request, id string)

// Handler serves the events of an HTTP API, and of a function URL that does not
// stream: they are the same.
func Handler(serve Serve) func(context.Context, *events.APIGatewayV2HTTPRequest) (*events.APIGatewayV2HTTPResponse, error) {
	return func(ctx context.Context, e *events.APIGatewayV2HTTPRequest) (*events.APIGatewayV2HTTPResponse, error) {
		f := ofGateway(e)
		r, err := f.request(ctx)
		if err != nil {
			return nil, err
		}
		w := newBuffered()
		serve(w, r, id(ctx))
		return w.response(), nil
	}
}

// Streamer serves the events of a function URL that streams.
func Streamer(serve Serve) func(context.Context, *events.LambdaFunctionURLRequest) (*events.LambdaFunctionURLStreamingResponse, error) {
	return func(ctx context.Context, e *events.LambdaFunctionURLRequest) (*events.LambdaFunctionURLStreamingResponse, error) {
		ctx, cancel := context.WithCancel(ctx)
		f := ofURL(e)
		r, err := f.request(ctx)
		if err != nil {
			cancel()
			return nil, err
		}
		w := newStreamed(cancel)
		go func() {
			defer w.end()
			serve(w, r, id(ctx))
		}()
		return w.response(), nil
	}
}

// id is that of the invocation.
func id(ctx context.Context) string {
	if lc, ok := lambdacontext.FromContext(ctx); ok {
		return lc.AwsRequestID
	}
	return ""
}
