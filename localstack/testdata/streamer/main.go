// Command streamer is a function on a bare runtime: it streams a word, waits
// three seconds, and streams another. It says that it streams by a header, as the
// documentation asks, or at the path /typed as aws-lambda-go does, by the type of
// its answer alone. It may import the standard library only.
package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"
)

func main() {
	base := "http://" + os.Getenv("AWS_LAMBDA_RUNTIME_API") + "/2018-06-01/runtime/invocation/"
	for {
		if err := serve(base); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}

func serve(base string) error {
	next, err := http.Get(base + "next") //nolint:noctx // a function waits for ever
	if err != nil {
		return err
	}
	defer next.Body.Close()
	event, err := io.ReadAll(next.Body)
	if err != nil {
		return err
	}
	read, write := io.Pipe()
	go func() {
		prelude := `{"statusCode":201,"headers":{"Content-Type":"text/plain"}}` + strings.Repeat("\x00", 8)
		fmt.Fprint(write, prelude+"first\n")
		time.Sleep(3 * time.Second) //nolint:forbidigo // the pause is what it shows
		fmt.Fprint(write, "last\n")
		_ = write.Close()
	}()
	answer, err := http.NewRequest(http.MethodPost, base+next.Header.Get("Lambda-Runtime-Aws-Request-Id")+"/response", read) //nolint:noctx // as above
	if err != nil {
		return err
	}
	answer.Header.Set("Content-Type", "application/vnd.awslambda.http-integration-response")
	if !strings.Contains(string(event), `"/typed"`) {
		answer.Header.Set("Lambda-Runtime-Function-Response-Mode", "streaming")
	}
	taken, err := http.DefaultClient.Do(answer)
	if err != nil {
		return err
	}
	return taken.Body.Close()
}
