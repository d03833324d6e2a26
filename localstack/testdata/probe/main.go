// Command probe is every function of the questions: what it does is in its event.
//
// It speaks to Lambda by itself, so that its errors have the names that an event
// gives them. It may import the standard library and the AWS SDK.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
)

func main() {
	ctx := context.Background()
	settings, err := config.LoadDefaultConfig(ctx)
	p := probe{base: "http://" + os.Getenv("AWS_LAMBDA_RUNTIME_API") + "/2018-06-01/runtime/invocation/", queues: sqs.NewFromConfig(settings)}
	for err == nil {
		err = p.serve(ctx)
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

type probe struct {
	base   string // of an invocation's address
	queues *sqs.Client
}

// failure is a function's own error.
type failure struct {
	Type    string `json:"errorType"`
	Message string `json:"errorMessage"`
}

// serve takes one event. Its error is the end of the process.
func (p probe) serve(ctx context.Context) error {
	next, err := http.Get(p.base + "next")
	if err != nil {
		return err
	}
	defer next.Body.Close()
	body, err := io.ReadAll(next.Body)
	if err != nil {
		return err
	}
	at := p.base + next.Header.Get("Lambda-Runtime-Aws-Request-Id")
	var e event
	if err = json.Unmarshal(body, &e); err != nil {
		return err
	}
	if os.Getenv("STREAMS") != "" {
		return p.stream(ctx, at, e)
	}
	answer, failed, err := p.act(ctx, e)
	if err != nil {
		return err
	}
	if failed != nil {
		answer, at = failed, at+"/error"
	} else {
		at += "/response"
	}
	data, err := json.Marshal(answer)
	if err != nil {
		return err
	}
	taken, err := http.Post(at, "application/json", bytes.NewReader(data))
	if err != nil {
		return err
	}
	return taken.Body.Close()
}

// event is one of a question's own, of a queue, of an API or of EventBridge.
type event struct {
	Say     string  // is said first
	Wait    string  // a queue: something must be in it before the function goes on
	Seconds float64 // it goes on after these
	Exit    bool    // the process ends in the midst of it
	Fail    string  // is the name of the error that it fails with
	Retries int     // is how often it was tried before,
	Enough  int     // and how often it must have been to fail no more; never is 0
	N       int     // is how many bytes it answers with
	File    bool    // it answers with the word that is in the archive

	Records []record
	Path    string            `json:"rawPath"`
	Query   map[string]string `json:"queryStringParameters"`
	Detail  struct{ ExecutionArn, Status string }
}

func (p probe) act(ctx context.Context, e event) (answer any, failed *failure, err error) {
	if e.Records != nil {
		answer, err = p.batch(ctx, e.Records)
		return answer, nil, err
	}
	if e.Query != nil {
		e.Fail = e.Query["fail"]
		e.Seconds, _ = strconv.ParseFloat(e.Query["seconds"], 64)
	}
	if e.Detail.ExecutionArn != "" {
		e.Say = e.Detail.ExecutionArn + " " + e.Detail.Status
	}
	if e.Say != "" {
		err = p.say(ctx, os.Getenv("VERDICTS"), e.Say)
	}
	if e.Wait != "" && err == nil {
		_, err = p.meets(ctx, e.Wait)
	}
	time.Sleep(time.Duration(e.Seconds * float64(time.Second)))
	switch {
	case err != nil:
	case e.Exit:
		err = errors.New("told to exit")
	case e.Fail != "" && (e.Enough == 0 || e.Retries < e.Enough):
		failed = &failure{Type: e.Fail, Message: "what a stranger should not read"}
	case e.File:
		var word []byte
		word, err = os.ReadFile(filepath.Join(os.Getenv("LAMBDA_TASK_ROOT"), "word"))
		answer = string(word)
	default:
		answer = strings.Repeat("x", e.N)
	}
	return answer, failed, err
}

type record struct {
	MessageID  string `json:"messageId"`
	Body       string
	Attributes map[string]string
}

type lost struct {
	ID string `json:"itemIdentifier"`
}

// batch takes messages: a verb, the word to say, and a queue where the verb needs
// one. "poison" fails always, "once" the first time; of a FIFO queue nothing is
// taken after what has failed. Failures are null, not a list, where nothing has.
func (p probe) batch(ctx context.Context, records []record) (any, error) {
	var failed []lost
	for _, r := range records {
		word := strings.Fields(r.Body)
		text, count := word[1], r.Attributes["ApproximateReceiveCount"]
		fails := false
		switch word[0] {
		case "say":
		case "time":
			text += " " + strconv.FormatInt(time.Now().UnixNano(), 10)
		case "poison":
			fails = true
			text += " " + count + " " + strconv.FormatInt(time.Now().UnixNano(), 10)
		case "once":
			fails = count == "1"
			text += fmt.Sprintf(" %s of %d", count, len(records))
		case "look":
			text += " " + r.Attributes["MessageGroupId"] + " " + r.Attributes["SequenceNumber"]
		case "slow":
			met, err := p.meets(ctx, word[2])
			if err != nil {
				return nil, err
			}
			text += " " + map[bool]string{true: "met", false: "alone"}[met]
		case "quick":
			if err := p.say(ctx, word[2], text); err != nil {
				return nil, err
			}
			continue
		default:
			return nil, fmt.Errorf("what is %q", r.Body)
		}
		if r.Attributes["MessageGroupId"] != "" && failed != nil {
			fails, text = true, ""
		}
		if text != "" {
			if err := p.say(ctx, os.Getenv("VERDICTS"), text); err != nil {
				return nil, err
			}
		}
		if fails {
			failed = append(failed, lost{ID: r.MessageID})
		}
	}
	return map[string]any{"batchItemFailures": failed}, nil
}

func (p probe) say(ctx context.Context, queue, text string) error {
	_, err := p.queues.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: &queue, MessageBody: &text})
	return err
}

// meets waits for something in a queue, for as long as a request may.
func (p probe) meets(ctx context.Context, queue string) (bool, error) {
	got, err := p.queues.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{QueueUrl: &queue, WaitTimeSeconds: 20})
	return err == nil && len(got.Messages) > 0, err
}
