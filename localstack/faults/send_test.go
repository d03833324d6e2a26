package faults

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/internal/adapter/openai/openaitest"
	"github.com/perdure/perdure/internal/cloud"
	"github.com/perdure/perdure/internal/env"
)

// deaf is a queue that hears the first message and never says that it is there.
type deaf struct {
	sent chan string
	gone chan struct{}
	keep cloud.Queues // takes it, if it is to be there all the same
}

// Send implements cloud.Queues.
func (d *deaf) Send(ctx context.Context, url, body string) error {
	if d.keep != nil {
		if err := d.keep.Send(ctx, url, body); err != nil {
			return err
		}
	}
	d.sent <- body
	<-d.gone
	return context.Canceled
}

// A process dies between the commit that a call is made and the sending, and
// once more after the sending and before it has heard so. The next one sends: the
// worker sees the same operation.
func TestAProcessDiesBetweenCommitAndSend(t *testing.T) {
	t.Parallel()
	for name, arrives := range map[string]bool{"before": false, "after": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := visit(t)
			name := "w" + strings.ReplaceAll(string(w.key.Session), "-", "")
			require.NoError(t, w.api.PutTool(t.Context(), name, object{
				"target": "queue", "description": "Works.", "parameters": object{"type": "object"}, "kind": "action", "completion": "promise",
			}))
			w.open(name)
			settled := make(chan struct{})
			w.model.Enqueue(
				openaitest.Calls(openaitest.Call{ID: "a", Name: name, Arguments: "{}"}),
				openaitest.Reply{Text: "It is at work.", HoldBefore: true, Gate: settled},
			)
			run := w.runBy(w.careless(), "Work.")

			queue := &deaf{sent: make(chan string, 10), gone: make(chan struct{})}
			p := w.process(env.FunctionDrive, func(ports *cloud.Ports) {
				if arrives {
					queue.keep = ports.Queues
				}
				ports.Queues = queue
			})
			lost := make(chan struct{})
			go func() {
				defer close(lost)
				_, _ = p.Drive(p.life, "request", w.event(1, 1)) // nobody hears it
			}()
			first := soon(t, queue.sent)
			require.Equal(t, 1, w.count("tool.started", ""))
			p.dies()
			close(queue.gone)
			soon(t, lost)

			// The machine that had asked it asks again.
			require.NoError(t, w.waker().Start(t.Context(), w.key, w.head().Inc, 1))
			want := 1
			if arrives {
				want = 2
			}
			operation, token := w.works(name, want)
			require.Contains(t, first, operation)
			w.settle(token)
			close(settled)
			w.until(run, "completed")
			require.Equal(t, 1, w.count("promise.settled", `"resolved"`))
			w.sound()
			require.Equal(t, []string{"completed 2"}, w.calls(run))
		})
	}
}

// works takes a tool's messages off the work queue, and returns the operation
// and the token that they all have.
func (w *world) works(tool string, messages int) (operation, token string) {
	w.Helper()
	c := awssqs.NewFromConfig(w.stack.Config.Copy())
	url := aws.String(w.stack.Outputs["WorkQueueUrl"])
	w.eventually(func() bool {
		out, err := c.ReceiveMessage(w.Context(), &awssqs.ReceiveMessageInput{QueueUrl: url, MaxNumberOfMessages: 10, VisibilityTimeout: 1, WaitTimeSeconds: 1})
		require.NoError(w, err)
		for _, m := range out.Messages {
			var call struct {
				Tool, OperationID string
				Promise           struct{ Token string }
			}
			require.NoError(w, json.Unmarshal([]byte(*m.Body), &call))
			if call.Tool != tool {
				continue // another test's; it comes again
			}
			if operation == "" {
				operation, token = call.OperationID, call.Promise.Token
			}
			require.Equal(w, []string{operation, token}, []string{call.OperationID, call.Promise.Token})
			_, err = c.DeleteMessage(w.Context(), &awssqs.DeleteMessageInput{QueueUrl: url, ReceiptHandle: m.ReceiptHandle})
			require.NoError(w, err)
			messages--
		}
		return messages <= 0
	}, "the work does not come")
	return operation, token
}

// settle answers a promise as a worker does.
func (w *world) settle(token string) {
	w.Helper()
	resp, err := w.stack.Ask(w.Context(), http.MethodPost, "/v1/promises/"+token, "", []byte(`{"status":"resolved","value":"it is done"}`))
	require.NoError(w, err)
	require.NoError(w, resp.Body.Close())
	require.Equal(w, http.StatusOK, resp.StatusCode)
}
