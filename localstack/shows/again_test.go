package shows

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	ddb "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/internal/adapter/dynamo"
	"github.com/perdure/perdure/internal/adapter/openai/openaitest"
	"github.com/perdure/perdure/internal/api"
	"github.com/perdure/perdure/internal/cloud"
	"github.com/perdure/perdure/internal/env"
	"github.com/perdure/perdure/internal/host"
)

// A submission that comes several times, at once and later, is one run, and each
// sender is told of it.
func TestADuplicateSubmissionIsOneRun(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.open(nil)
	w.model.Enqueue(openaitest.Text("Once.", 1))
	var senders sync.WaitGroup
	answers := make([]answer, 4)
	for i := range answers {
		senders.Go(func() { answers[i] = w.post("/runs", object{"input": "Do it."}, "Idempotency-Key", "the-one") })
	}
	senders.Wait()
	accepted := 0
	for _, a := range answers {
		require.Contains(t, []int{http.StatusOK, http.StatusAccepted}, a.status, "%s", a.body)
		require.Equal(t, "run_1", read[api.Run](a).ID)
		if a.status == http.StatusAccepted {
			accepted++
		}
	}
	require.Equal(t, 1, accepted)
	require.Equal(t, "Once.", w.ends("run_1"))
	require.Equal(t, "completed", read[api.Run](w.post("/runs", object{"input": "Do it."}, "Idempotency-Key", "the-one").is(http.StatusOK)).Status)
	w.post("/runs", object{"input": "Do something else."}, "Idempotency-Key", "the-one").is(http.StatusConflict)
	require.Equal(t, 1, w.count("run.accepted"))
}

// invoke calls a function as whatever stands before it would.
func (w *world) invoke(role string, event any) []byte {
	w.Helper()
	payload, err := json.Marshal(event)
	require.NoError(w, err)
	out, err := w.lambda.Invoke(w.Context(), &lambda.InvokeInput{FunctionName: aws.String(w.function(role)), Payload: payload})
	require.NoError(w, err)
	require.Empty(w, aws.ToString(out.FunctionError), "%s", out.Payload)
	return out.Payload
}

// A queue delivers a message again that was handled, when its deletion came too
// late: the same message, to functions at once and one after the other.
func TestADuplicateDeliveryIsOneRun(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.open(nil)
	w.model.Enqueue(openaitest.Text("Once.", 1))
	body, err := json.Marshal(object{
		"v": 1, "tenant": cloud.Tenant, "session": w.session, "method": "POST", "path": w.path("/runs"), "key": "the-one",
		"actor": object{"id": "U1", "roles": []string{}}, "via": "slack", "body": `{"input":"hello"}`,
	})
	require.NoError(t, err)
	deliver := func(receives string) {
		answer := w.invoke(env.FunctionInbox, object{"Records": []object{{
			"messageId": "the-message", "receiptHandle": "r" + receives, "body": string(body), "eventSource": "aws:sqs",
			"attributes": object{"ApproximateReceiveCount": receives}, "messageAttributes": object{},
		}}})
		var batch struct{ BatchItemFailures []any }
		require.NoError(t, json.Unmarshal(answer, &batch), "%s", answer)
		require.Empty(t, batch.BatchItemFailures)
	}
	var twins sync.WaitGroup
	for range 2 {
		twins.Go(func() { deliver("1") })
	}
	twins.Wait()
	deliver("2")
	require.Equal(t, "Once.", w.ends("run_1"))
	deliver("3")
	require.Equal(t, 1, w.count("run.accepted"))
	require.Zero(t, w.count("command.dead"))
}

// items are the sort keys of all that the table has of the session.
func (w *world) items() []string {
	w.Helper()
	var keys []string
	pages := dynamodb.NewScanPaginator(dynamo.NewClient(w.Config), &dynamodb.ScanInput{TableName: aws.String(w.Outputs["Table"]), ConsistentRead: aws.Bool(true)})
	for pages.HasMorePages() {
		page, err := pages.NextPage(w.Context())
		require.NoError(w, err)
		for _, item := range page.Items {
			// However its key is made: anything that names the session is its.
			text, err := json.Marshal(plain(item))
			require.NoError(w, err)
			if strings.Contains(string(text), w.session) {
				keys = append(keys, string(text[:min(len(text), 200)]))
			}
		}
	}
	return keys
}

// plain are the texts of an item.
func plain(item map[string]ddb.AttributeValue) map[string]string {
	texts := map[string]string{}
	for name, value := range item {
		switch v := value.(type) {
		case *ddb.AttributeValueMemberS:
			texts[name] = v.Value
		case *ddb.AttributeValueMemberB:
			texts[name] = string(v.Value)
		}
	}
	return texts
}

// objectsOf are the keys of all objects that the bucket has of the session.
func (w *world) objectsOf() []string {
	w.Helper()
	var keys []string
	pages := awss3.NewListObjectsV2Paginator(w.bucket, &awss3.ListObjectsV2Input{Bucket: aws.String(w.Outputs["Bucket"])})
	for pages.HasMorePages() {
		page, err := pages.NextPage(w.Context())
		require.NoError(w, err)
		for _, o := range page.Contents {
			if strings.Contains(*o.Key, w.session) {
				keys = append(keys, *o.Key)
			}
		}
	}
	return keys
}

// What was deleted is gone from the API at once, and from the table and the
// bucket when the sweep has been there.
func TestADeleteLeavesNothing(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.set(env.PurgeAgain, purgeAgain)
	w.open([]string{"files.*"}, object{"approvals": object{"default": "never"}})
	large := strings.Repeat("long text ", megabyte/10)
	w.model.Enqueue(openaitest.Calls(call("a", "files.write", object{"path": "a.md", "content": "A"})), openaitest.Text(large, 4), openaitest.Text("Yes.", 1))
	w.ends(w.run("Write.").ID)
	w.ends(w.run("And?").ID)
	w.driven(host.DriveIdle)
	require.NotEmpty(t, w.items())
	objects := w.objectsOf()
	require.True(t, slices.ContainsFunc(objects, func(key string) bool { return strings.HasPrefix(key, "workspaces/") }), "%v", objects)
	require.True(t, slices.ContainsFunc(objects, func(key string) bool { return strings.Contains(key, "/blob/") }), "%v", objects)

	w.ask(http.MethodDelete, w.path(""), nil).is(http.StatusConflict)
	w.post("/close", object{}).is(http.StatusOK)
	w.ask(http.MethodDelete, w.path(""), nil).is(http.StatusNoContent)
	w.get("").is(http.StatusNotFound)
	w.get("/events").is(http.StatusNotFound)
	var left []string
	defer func() {
		if t.Failed() {
			t.Log(strings.Join(left, "\n"))
		}
	}()
	eventually(t, "something is left of a deleted session", func() bool {
		w.invoke(env.FunctionSweep, object{})
		left = append(w.items(), w.objectsOf()...)
		return len(left) == 0
	})
	w.get("").is(http.StatusNotFound)

	// The id is free, and nothing of the old session comes back with it.
	w.open(nil)
	w.model.Enqueue(openaitest.Text("Hello.", 1))
	requests := len(w.model.Requests())
	require.Equal(t, "Hello.", w.ends(w.run("Who are you?").ID))
	require.Len(t, w.asked(requests+1), 1)
}
