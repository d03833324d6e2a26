package localstack_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/adapter/sqs"
	"github.com/perdure/perdure/internal/host"
	"github.com/perdure/perdure/localstack/target"
)

// stackPatience is a hang guard for what goes through a queue.
const stackPatience = 5 * time.Minute

// deployed is the stack with the queue in front of its inbox.
type deployed struct {
	t     *testing.T
	stack *target.Stack
	queue *awssqs.Client
	url   string
	inbox *sqs.Inbox
}

func stacked(t *testing.T) *deployed {
	t.Helper()
	stack := target.Deployed(t)
	d := &deployed{t: t, stack: stack, queue: awssqs.NewFromConfig(stack.Config), url: stack.Outputs["InboxUrl"]}
	d.inbox = sqs.NewInbox(stack.Config, d.url, nil)
	return d
}

// hurry has messages that failed delivered again after some seconds, which a busy
// machine needs for one try. It is minutes else, and afterwards.
func (d *deployed) hurry() {
	t := d.t
	t.Helper()
	const name = string(types.QueueAttributeNameVisibilityTimeout)
	old := d.attribute(types.QueueAttributeNameVisibilityTimeout)
	set := func(ctx context.Context, to string) {
		_, err := d.queue.SetQueueAttributes(ctx, &awssqs.SetQueueAttributesInput{QueueUrl: &d.url, Attributes: map[string]string{name: to}})
		require.NoError(t, err)
	}
	set(t.Context(), "5")
	t.Cleanup(func() { set(context.WithoutCancel(t.Context()), old) })
}

func (d *deployed) attribute(name types.QueueAttributeName) string {
	d.t.Helper()
	out, err := d.queue.GetQueueAttributes(d.t.Context(), &awssqs.GetQueueAttributesInput{QueueUrl: &d.url, AttributeNames: []types.QueueAttributeName{name}})
	require.NoError(d.t, err)
	return out.Attributes[string(name)]
}

// api asks the stack's API.
func (d *deployed) api(method, path, body string, into any) {
	d.t.Helper()
	resp, err := d.stack.Ask(d.t.Context(), method, path, "", []byte(body))
	require.NoError(d.t, err)
	defer func() { require.NoError(d.t, resp.Body.Close()) }()
	data, err := io.ReadAll(resp.Body)
	require.NoError(d.t, err)
	require.Less(d.t, resp.StatusCode, 300, string(data))
	require.NoError(d.t, json.Unmarshal(data, into))
}

// open makes a session.
func (d *deployed) open() host.Key {
	d.t.Helper()
	var s struct{ ID string }
	d.api(http.MethodPost, "/v1/sessions", `{"id":"inbox-`+strings.ToLower(rand.Text())+`"}`, &s)
	return host.Key{Tenant: "default", Session: ident.SessionID(s.ID)}
}

func (d *deployed) send(key host.Key, text string) {
	d.t.Helper()
	body, err := json.Marshal(map[string]string{"input": text})
	require.NoError(d.t, err)
	require.NoError(d.t, d.inbox.Send(d.t.Context(), sqs.Command{
		Key: key, Path: "/v1/sessions/" + string(key.Session) + "/runs", Idempotency: ident.SubmissionID(rand.Text()), Actor: "U1", Via: "slack", Body: body,
	}))
}

type fed struct {
	Kind string
	Data struct {
		ID, Source, Code string
		Input            []struct{ Text string }
	}
}

func (e fed) asks(text string) bool {
	return e.Kind == "run.accepted" && e.Data.Input[0].Text == text
}

func completed(e fed) bool { return e.Kind == "run.completed" }

// until waits for an event of a session, and returns all up to then.
func (d *deployed) until(key host.Key, is func(fed) bool) []fed {
	d.t.Helper()
	var page struct{ Events []fed }
	require.Eventually(d.t, func() bool {
		d.api(http.MethodGet, "/v1/sessions/"+string(key.Session)+"/events?limit=512", "", &page)
		return slices.ContainsFunc(page.Events, is)
	}, stackPatience, 200*time.Millisecond)
	return page.Events
}

// T79 on the stack itself: a poisoned command comes to the dead-letter queue, its
// session shows it, and the next command of that session is carried out. Another
// session's goes on at once.
func TestT79APoisonedCommandOnTheStack(t *testing.T) {
	t.Parallel()
	d := stacked(t)
	d.hurry()
	a, b := d.open(), d.open()
	group := sqs.GroupID(a)
	poison, err := d.queue.SendMessage(t.Context(), &awssqs.SendMessageInput{
		QueueUrl: &d.url, MessageGroupId: &group, MessageDeduplicationId: aws.String(rand.Text()),
		MessageBody: aws.String(`{"v":1,"tenant":"default","session":"` + string(a.Session) + `","method":"POST","path":"/v1/tools/x","key":"k","actor":{"id":"U1","roles":[]},"via":"slack"}`),
	})
	require.NoError(t, err)
	d.send(a, "go on")
	d.send(b, "hello")
	d.until(b, completed)
	events := d.until(a, completed)
	dead := slices.IndexFunc(events, func(e fed) bool { return e.Kind == "command.dead" })
	require.GreaterOrEqual(t, dead, 0, "%+v", events)
	got := events[dead].Data
	require.Equal(t, []string{*poison.MessageId, "inbox", "malformed"}, []string{got.ID, got.Source, got.Code})
	require.Less(t, dead, slices.IndexFunc(events, func(e fed) bool { return e.asks("go on") }), "the next command waits until the poison is given up")

	var redrive struct{ DeadLetterTargetArn string }
	require.NoError(t, json.Unmarshal([]byte(d.attribute(types.QueueAttributeNameRedrivePolicy)), &redrive))
	name := redrive.DeadLetterTargetArn[strings.LastIndexByte(redrive.DeadLetterTargetArn, ':')+1:]
	letters, err := d.queue.GetQueueUrl(t.Context(), &awssqs.GetQueueUrlInput{QueueName: &name})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		letter, err := d.queue.ReceiveMessage(t.Context(), &awssqs.ReceiveMessageInput{QueueUrl: letters.QueueUrl, MaxNumberOfMessages: 10, VisibilityTimeout: 1})
		require.NoError(t, err)
		return slices.ContainsFunc(letter.Messages, func(one types.Message) bool {
			if *one.MessageId != *poison.MessageId {
				return false
			}
			_, err := d.queue.DeleteMessage(t.Context(), &awssqs.DeleteMessageInput{QueueUrl: letters.QueueUrl, ReceiptHandle: one.ReceiptHandle})
			require.NoError(t, err)
			return true
		})
	}, stackPatience, 200*time.Millisecond, "the poison is in no dead-letter queue")
}

// T35 on the stack: the same command in two messages is one run.
func TestT35ACommandInTwoMessagesOnTheStack(t *testing.T) {
	t.Parallel()
	d := stacked(t)
	a := d.open()
	group := sqs.GroupID(a)
	for range 2 {
		_, err := d.queue.SendMessage(t.Context(), &awssqs.SendMessageInput{
			QueueUrl: &d.url, MessageGroupId: &group, MessageDeduplicationId: aws.String(rand.Text()),
			MessageBody: aws.String(`{"v":1,"tenant":"default","session":"` + string(a.Session) + `","method":"POST","path":"/v1/sessions/` + string(a.Session) +
				`/runs","key":"once","actor":{"id":"U1","roles":[]},"via":"slack","body":"{\"input\":\"hello\"}"}`),
		})
		require.NoError(t, err)
	}
	d.send(a, "and now this")
	// It came last: what is before it is all that there will be.
	accepted := 0
	for _, e := range d.until(a, func(e fed) bool { return e.asks("and now this") }) {
		if e.Kind == "run.accepted" {
			accepted++
		}
	}
	require.Equal(t, 2, accepted)
}
