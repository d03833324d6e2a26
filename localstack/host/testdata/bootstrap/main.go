// Command bootstrap is a function that does what its event says, for the tests of
// the executor. What it does before it first asks for work is in its environment.
package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambda"
	"github.com/aws/aws-lambda-go/lambdacontext"
)

// Event says what to do, in the order of its fields.
type Event struct {
	Lines  []string       `json:"lines"`  // printed, every second one on standard error
	Fork   bool           `json:"fork"`   // starts a process that stays
	Ask    []Ask          `json:"ask"`    // asks the Runtime API; the answer has the statuses
	Get    string         `json:"get"`    // waits for the answer to a GET of this URL
	Panic  string         `json:"panic"`  // panics
	Fail   string         `json:"fail"`   // returns an error
	Exit   *int           `json:"exit"`   // exits
	Signal syscall.Signal `json:"signal"` // sends itself a signal
	Hang   bool           `json:"hang"`   // never answers
	Size   int            `json:"size"`   // answers with so many bytes
	Stream *Stream        `json:"stream"` // answers with a stream
	Cookie string         `json:"cookie"` // answers a URL with a cookie
}

// Ask is a request to the Runtime API. A %s in the path is the invocation's id.
type Ask struct {
	Method string `json:"method"`
	Path   string `json:"path"`
}

// Stream is an answer that is written in pieces.
type Stream struct {
	Pieces []string `json:"pieces"`
	Wait   string   `json:"wait"` // a URL whose answer is waited for before each piece but the first
	Fail   bool     `json:"fail"` // breaks off after the last piece
}

// Answer is what is answered if nothing else was asked for.
type Answer struct {
	PID      int      `json:"pid"`
	Server   int      `json:"server"` // the parent's process id
	Child    int      `json:"child"`
	Count    int      `json:"count"` // of invocations of this process
	Env      []string `json:"env"`
	Dir      string   `json:"dir"`
	Request  string   `json:"request"`
	ARN      string   `json:"arn"`
	Left     int64    `json:"left"` // milliseconds until the deadline
	Statuses []int    `json:"statuses"`
}

var count int

func main() {
	fmt.Println("starting")
	switch os.Getenv("START") {
	case "exit":
		os.Exit(7)
	case "panic":
		panic("no start")
	case "hang":
		time.Sleep(time.Hour) //nolint:forbidigo // it hangs
	}
	lambda.Start(handle)
}

func handle(ctx context.Context, event json.RawMessage) (any, error) {
	// A request of a function URL has the event in its body.
	var request events.LambdaFunctionURLRequest
	if err := json.Unmarshal(event, &request); err == nil && request.Body != "" {
		event = json.RawMessage(request.Body)
		if request.IsBase64Encoded {
			if event, err = base64.StdEncoding.DecodeString(request.Body); err != nil {
				return nil, err
			}
		}
	}
	var asked Event
	if err := json.Unmarshal(event, &asked); err != nil {
		return nil, err
	}
	count++
	return do(ctx, asked)
}

func do(ctx context.Context, asked Event) (any, error) {
	answer := Answer{PID: os.Getpid(), Server: os.Getppid(), Count: count, Env: os.Environ()}
	answer.Dir, _ = os.Getwd()
	deadline, _ := ctx.Deadline()
	answer.Left = time.Until(deadline).Milliseconds()
	if own, ok := lambdacontext.FromContext(ctx); ok {
		answer.Request, answer.ARN = own.AwsRequestID, own.InvokedFunctionArn
	}
	for i, line := range asked.Lines {
		fmt.Fprintln([]*os.File{os.Stdout, os.Stderr}[i%2], line)
	}
	if asked.Fork {
		child := exec.Command("sleep", "3600")
		if err := child.Start(); err != nil {
			return nil, err
		}
		answer.Child = child.Process.Pid
		fmt.Println("child", child.Process.Pid)
	}
	for _, ask := range asked.Ask {
		status, err := request(ctx, ask.Method, "http://"+os.Getenv("AWS_LAMBDA_RUNTIME_API")+strings.ReplaceAll(ask.Path, "%s", answer.Request))
		if err != nil {
			return nil, err
		}
		answer.Statuses = append(answer.Statuses, status)
	}
	if asked.Get != "" {
		if _, err := request(ctx, http.MethodGet, asked.Get); err != nil {
			return nil, err
		}
	}
	return end(ctx, asked, answer)
}

func end(ctx context.Context, asked Event, answer Answer) (any, error) {
	switch {
	case asked.Panic != "":
		panic(asked.Panic)
	case asked.Fail != "":
		return nil, errors.New(asked.Fail)
	case asked.Exit != nil:
		os.Exit(*asked.Exit)
	case asked.Signal != 0:
		if err := syscall.Kill(os.Getpid(), asked.Signal); err != nil {
			return nil, err
		}
		time.Sleep(time.Hour) //nolint:forbidigo // the signal ends it
	case asked.Hang:
		time.Sleep(time.Hour) //nolint:forbidigo // it hangs
	case asked.Size > 0:
		return strings.Repeat("x", asked.Size-len(`""`)), nil
	case asked.Stream != nil:
		return stream(ctx, *asked.Stream), nil
	case asked.Cookie != "":
		return events.LambdaFunctionURLResponse{StatusCode: http.StatusOK, Body: "answer", Cookies: []string{asked.Cookie}}, nil
	}
	return answer, nil
}

func stream(ctx context.Context, asked Stream) any {
	read, write := io.Pipe()
	go func() {
		for i, piece := range asked.Pieces {
			if i > 0 && asked.Wait != "" {
				if _, err := request(ctx, http.MethodGet, asked.Wait); err != nil {
					write.CloseWithError(err)
					return
				}
			}
			fmt.Fprint(write, piece)
		}
		if asked.Fail {
			write.CloseWithError(errors.New("broken off"))
			return
		}
		_ = write.Close()
	}()
	return &events.LambdaFunctionURLStreamingResponse{
		StatusCode: http.StatusCreated,
		Headers:    map[string]string{"Content-Type": "text/plain", "X-Own": "yes"},
		Cookies:    []string{"a=1", "b=2"},
		Body:       read,
	}
}

// request waits for an answer, past the deadline of the invocation too.
func request(ctx context.Context, method, url string) (int, error) {
	asked, err := http.NewRequestWithContext(context.WithoutCancel(ctx), method, url, http.NoBody)
	if err != nil {
		return 0, err
	}
	response, err := http.DefaultClient.Do(asked)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return response.StatusCode, err
}
