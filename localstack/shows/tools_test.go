package shows

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/internal/adapter/lambda/lambdatest"
	"github.com/perdure/perdure/internal/adapter/openai/openaitest"
	"github.com/perdure/perdure/internal/adapter/sqs"
	"github.com/perdure/perdure/internal/host"
)

const megabyte = 1 << 20

// settle answers a promise as whoever got its token would: where the call said,
// without a key.
func (w *world) settle(url string, body any) {
	w.Helper()
	w.ask(http.MethodPost, url, body, "Authorization", "").is(http.StatusOK)
}

func TestAPromiseIsSettledByHTTP(t *testing.T) {
	t.Parallel()
	w := setup(t)
	job := w.outside("job", nil)
	job.answers(says(http.StatusAccepted, object{}))
	w.open([]string{job.name})
	w.model.Enqueue(openaitest.Calls(call("a", job.name, object{})), openaitest.Text("It is 42.", 1))
	run := w.run("Compute.")
	got := soon(t, job.calls)
	w.waits(run.ID, "promise")
	w.rests()
	w.settle(got.Promise.SettleURL, object{"status": "resolved", "value": object{"answer": 42}})
	require.Equal(t, "It is 42.", w.ends(run.ID))
	require.JSONEq(t, `{"answer":42}`, last(w.asked(2)))
	w.driven(host.DriveIdle)
	require.NotContains(t, strings.Join(payloads(w.history(w.execution(1))), "\n"), got.Promise.Token)
}

// A pause longer than a slice would sit out is a wait of the machine, which ends
// by its own clock.
func TestASleepIsAWait(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.open([]string{"sleep"})
	w.model.Enqueue(openaitest.Calls(call("a", "sleep", object{"seconds": 7})), openaitest.Text("Good morning.", 1))
	run := w.run("Rest a little.")
	require.NotZero(t, w.waits(run.ID, "timer").Until)
	w.rests()
	require.Equal(t, "Good morning.", w.ends(run.ID))
	w.driven(host.DriveIdle)
	w.succeeds(w.execution(1))
	require.Equal(t, []string{"Model", "Next", "Wait", "Model", "Next", "Done"}, states(w.history(w.execution(1))))
}

func TestOneCallOfABatchFails(t *testing.T) {
	t.Parallel()
	w := setup(t)
	mail := w.outside("mail", nil)
	mail.answers(func(rw http.ResponseWriter, c outsideCall) {
		if c.Arguments["n"] == 2.0 {
			says(http.StatusOK, object{"error": "no such address"})(rw, c)
			return
		}
		says(http.StatusOK, object{"result": c.Arguments["n"]})(rw, c)
	})
	w.open([]string{mail.name})
	w.model.Enqueue(
		openaitest.Calls(call("a", mail.name, object{"n": 1}), call("b", mail.name, object{"n": 2}), call("c", mail.name, object{"n": 3})),
		openaitest.Text("One failed.", 1),
	)
	run := w.run("Send three.")
	require.Equal(t, "One failed.", w.ends(run.ID))
	require.Equal(t, []string{"completed", "failed", "completed"}, w.statuses(run.ID))
	results := w.asked(2)[2:]
	require.Len(t, results, 3)
	require.Equal(t, "1", results[0].Content)
	require.Contains(t, results[1].Content, "no such address")
	require.Equal(t, "3", results[2].Content)
}

// customer is a tool that is a customer's function, and does as its calls say.
func (w *world) customer() string {
	w.Helper()
	function, _ := lambdatest.Deploy(w.T, w.Config, w.Can.Arch)
	return w.tool("customer", object{"target": "lambda", "function": function, "completion": "joined"})
}

// Calls of a customer's function run beside each other in the state Tools, each
// in a function of ours; one that fails is a result like the others.
func TestACustomersFunctionIsATool(t *testing.T) {
	t.Parallel()
	w := setup(t)
	name := w.customer()
	w.open([]string{name})
	w.model.Enqueue(
		openaitest.Calls(call("a", name, object{"do": "echo", "with": "one"}), call("b", name, object{"do": "fail"}), call("c", name, object{"do": "echo", "with": "three"})),
		openaitest.Text("Two of three.", 1),
	)
	run := w.run("Ask it.")
	require.Equal(t, "Two of three.", w.ends(run.ID))
	require.Equal(t, []string{"completed", "failed", "completed"}, w.statuses(run.ID))
	results := w.asked(2)[2:]
	require.Contains(t, results[0].Content, `"with":"one"`)
	require.Contains(t, results[1].Content, "no such customer")
	require.Contains(t, results[2].Content, `"with":"three"`)
	w.driven(host.DriveIdle)
	w.succeeds(w.execution(1))
	require.Contains(t, states(w.history(w.execution(1))), "Tools")
	w.small("three")
}

// One that answers with a megabyte: what the machine moves has none of it.
func TestACustomersFunctionAnswersWithAMegabyte(t *testing.T) {
	t.Parallel()
	w := setup(t)
	name := w.customer()
	w.open([]string{name})
	w.model.Enqueue(openaitest.Calls(call("a", name, object{"do": "large", "with": megabyte})), openaitest.Text("That was a lot.", 1))
	run := w.run("Ask for all.")
	require.Equal(t, "That was a lot.", w.ends(run.ID))
	c := w.calls(run.ID)[0]
	require.Equal(t, "completed", c.Status, "%+v", c.Error)
	require.NotNil(t, c.Result)
	require.GreaterOrEqual(t, c.OutputBytes, int64(megabyte))
	require.NotEmpty(t, c.Result.Ref, "%+v", c)
	t.Logf("of %d bytes the model got %d", c.OutputBytes, len(last(w.asked(2))))
	require.Equal(t, c.Result.Size, int64(len(w.blob(c.Result.Ref))))
	w.driven(host.DriveIdle)
	w.small("xxxxxxxxxx")
}

// job is one call of the work queue.
func (w *world) job() outsideCall {
	w.Helper()
	queue := w.Outputs["WorkQueueUrl"]
	var got outsideCall
	eventually(w, "there is no such call in the work queue", func() bool {
		out, err := w.queues.ReceiveMessage(w.Context(), &awssqs.ReceiveMessageInput{QueueUrl: &queue, WaitTimeSeconds: 5, MaxNumberOfMessages: 10, VisibilityTimeout: 2})
		require.NoError(w, err)
		for _, m := range out.Messages {
			var c outsideCall
			require.NoError(w, json.Unmarshal([]byte(aws.ToString(m.Body)), &c))
			if c.Session != w.session {
				continue // another test's
			}
			_, err := w.queues.DeleteMessage(w.Context(), &awssqs.DeleteMessageInput{QueueUrl: &queue, ReceiptHandle: m.ReceiptHandle})
			require.NoError(w, err)
			require.Less(w, len(*m.Body), 256<<10, "a queue takes no more")
			got = c
			return true
		}
		return false
	})
	return got
}

// awaited is the turn in which the model awaits what the first call promised.
func awaited() openaitest.Reply {
	return openaitest.Calls(call("w", "await", object{"promises": []string{"promise_1"}}))
}

// A worker takes the call from the queue and answers by HTTP; meanwhile nothing
// runs.
func TestAWorkQueueIsATool(t *testing.T) {
	t.Parallel()
	w := setup(t)
	name := w.tool("render", object{"target": "queue", "completion": "promise"})
	w.open([]string{name, "await"})
	w.model.Enqueue(openaitest.Calls(call("a", name, object{"scene": "é😀"})), awaited(), openaitest.Text("Rendered.", 1))
	run := w.run("Render it.")
	got := w.job()
	require.Equal(t, []string{run.ID, "call_1_1"}, []string{got.Run, got.Call})
	require.Equal(t, map[string]any{"scene": "é😀"}, got.Arguments)
	w.waits(run.ID, "promise")
	w.rests()
	w.settle(got.Promise.SettleURL, object{"status": "resolved", "value": "a film"})
	require.Equal(t, "Rendered.", w.ends(run.ID))
	require.Contains(t, last(w.asked(3)), "a film")
}

// T56: a message of a megabyte is admitted, by HTTP and by queue, and reaches the
// model whole. The machine carries a reference, and so do the queues: the one
// that commands come in through, and the one that workers take large calls from.
func TestT56AMegabyteIsAReference(t *testing.T) {
	t.Parallel()
	w := setup(t)
	name := w.tool("print", object{"target": "queue", "completion": "promise"})
	w.open([]string{name, "await"})
	text := strings.Repeat("mega byte ", megabyte/10)
	page := text[:200<<10] // arguments have at most 256 KiB
	w.model.Enqueue(openaitest.Calls(call("a", name, object{"text": page})), awaited(), openaitest.Text("Printed.", 1))
	run := w.run(text)
	require.Equal(t, text, last(w.asked(1)))
	got := w.job()
	require.Empty(t, got.Arguments)
	input := w.ask(http.MethodGet, got.InputURL, nil, "Authorization", "").is(http.StatusOK)
	require.Equal(t, object{"text": page}, read[object](input))
	w.waits(run.ID, "promise")
	w.settle(got.Promise.SettleURL, object{"status": "resolved", "value": "on paper"})
	require.Equal(t, "Printed.", w.ends(run.ID))

	w.model.Enqueue(openaitest.Text("Again.", 1))
	inbox := sqs.NewInbox(w.Config, w.Outputs["InboxUrl"], w.objects())
	body := fmt.Appendf(nil, `{"input":%q}`, text+"twice")
	require.NoError(t, inbox.Send(t.Context(), sqs.Command{Key: w.key(), Path: w.path("/runs"), Idempotency: "by-queue", Actor: "U1", Via: "slack", Body: body}))
	require.Equal(t, body, w.blob(string(blob.Sum(body))))
	require.Equal(t, text+"twice", last(w.asked(4)))
	require.Equal(t, "Again.", w.ends("run_2"))
	w.driven(host.DriveIdle)
	t.Logf("machine data has %d bytes at most", w.small("mega byte"))
}
