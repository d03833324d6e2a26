package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// stream writes a word, waits for something in a queue, and writes whether it
// came: only a client that has the first word by then sends it. It says that it
// streams by a header, as the documentation asks, or at the path /typed as
// aws-lambda-go does: by the type of its answer alone.
func (p probe) stream(ctx context.Context, at string, e event) error {
	read, write := io.Pipe()
	go func() {
		prelude := `{"statusCode":201,"headers":{"Content-Type":"text/plain"}}` + strings.Repeat("\x00", 8)
		fmt.Fprint(write, prelude+"first\n")
		met, err := p.meets(ctx, e.Query["wait"])
		fmt.Fprintln(write, met)
		_ = write.CloseWithError(err)
	}()
	answer, err := http.NewRequestWithContext(ctx, http.MethodPost, at+"/response", read)
	if err != nil {
		return err
	}
	answer.Header.Set("Content-Type", "application/vnd.awslambda.http-integration-response")
	if e.Path != "/typed" {
		answer.Header.Set("Lambda-Runtime-Function-Response-Mode", "streaming")
	}
	taken, err := http.DefaultClient.Do(answer)
	if err != nil {
		return err
	}
	return taken.Body.Close()
}
