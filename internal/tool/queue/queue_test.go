package queue_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/internal/host"
	"github.com/perdure/perdure/internal/tool"
	"github.com/perdure/perdure/internal/tool/outside"
	"github.com/perdure/perdure/internal/tool/queue"
)

const own = "https://sqs.us-east-1.amazonaws.com/123456789012/work"

// box is a Sender that keeps what it got.
type box struct {
	url, body string
	err       error
}

func (b *box) Send(_ context.Context, url, body string) error {
	b.url, b.body = url, body
	return b.err
}

func definition() outside.Definition {
	return outside.Definition{
		Name: "render.video", Target: outside.Queue, Description: "Render a video.", Parameters: `{"type":"object"}`,
		Kind: tool.KindAction, Completion: outside.Promise, TimeoutSeconds: 7200,
	}
}

func caller(s queue.Sender) *queue.Caller {
	return &queue.Caller{Sender: s, Queue: own, SettleURL: func(token string) string { return "https://perdure.example/v1/promises/" + token }}
}

// call runs the tool through a registry, as the host does.
func call(ctx context.Context, t *testing.T, c *queue.Caller, d outside.Definition, arguments string) (host.ToolResult, error) {
	t.Helper()
	spec := c.Spec(d)
	require.NoError(t, spec.Invalid)
	r, err := tool.New(nil, []tool.Spec{spec})
	require.NoError(t, err)
	return r.Run(ctx, host.ToolCall{
		Key: host.Key{Tenant: "acme", Session: "s1"}, Run: 2, Call: ident.CallID{Turn: 3, Index: 1}, Tool: d.Name,
		Actor: session.Actor{ID: "änn"}, Operation: "op_7", Attempt: 2, Arguments: arguments, Token: "pt_1", Deadline: 1_700_000_000_123,
	})
}

func TestWhatAWorkerGets(t *testing.T) {
	t.Parallel()
	b := &box{}
	res, err := call(t.Context(), t, caller(b), definition(), `{"name":"é😀<"}`)
	require.NoError(t, err)
	require.Equal(t, host.ToolResult{Accepted: true}, res)
	require.Equal(t, own, b.url)
	require.Equal(t, `{"v":1,"operationId":"op_7","attempt":2,"tenant":"acme","session":"s1","run":"run_2","call":"call_3_1","tool":"render.video",`+
		`"actor":{"id":"\u00e4nn"},"arguments":{"name":"\u00e9\ud83d\ude00<"},`+
		`"promise":{"token":"pt_1","settleUrl":"https://perdure.example/v1/promises/pt_1"},"deadline":"2023-11-14T22:13:20.123Z"}`, b.body)

	d := definition()
	d.Queue = "https://sqs.us-east-1.amazonaws.com/123456789012/gpu"
	_, err = call(t.Context(), t, caller(b), d, `{}`)
	require.NoError(t, err)
	require.Equal(t, d.Queue, b.url)
}

func TestLargeArgumentsAreFetched(t *testing.T) {
	t.Parallel()
	read := func(arguments string, c *queue.Caller) outside.Call {
		b := &box{}
		c.Sender = b
		_, err := call(t.Context(), t, c, definition(), arguments)
		require.NoError(t, err)
		var got outside.Call
		require.NoError(t, json.Unmarshal([]byte(b.body), &got))
		require.Less(t, len(b.body), queue.InlineMax+1024)
		return got
	}
	fits := `{"a":"` + strings.Repeat("x", queue.InlineMax-8) + `"}`
	require.Len(t, fits, queue.InlineMax)
	require.Equal(t, fits, string(read(fits, caller(nil)).Arguments))
	// What counts is what is sent: an é has six bytes there.
	for _, large := range []string{`{"a":"` + strings.Repeat("x", queue.InlineMax-7) + `"}`, `{"a":"` + strings.Repeat("é", queue.InlineMax/6) + `"}`} {
		got := read(large, caller(nil))
		require.Empty(t, got.Arguments)
		require.Equal(t, "https://perdure.example/v1/promises/pt_1/input", got.InputURL)
		nowhere := caller(nil)
		nowhere.SettleURL = func(string) string { return "" }
		got = read(large, nowhere)
		require.Equal(t, "/v1/promises/pt_1/input", got.InputURL)
		require.Equal(t, "/v1/promises/pt_1", got.Promise.SettleURL)
	}
}

func TestWhatIsOffered(t *testing.T) {
	t.Parallel()
	spec := caller(nil).Spec(definition())
	require.Equal(t, session.ClassPromise, spec.Class)
	require.True(t, spec.RetrySafe, "a worker knows an operation that it has seen")
	require.Equal(t, "queue", spec.Target)
	require.EqualValues(t, 7_200_000, spec.DeadlineMs)
	d := definition()
	d.Queue = own
	require.Equal(t, "queue "+own, caller(nil).Spec(d).Target)
	none := caller(nil)
	none.Queue = ""
	require.NoError(t, none.Spec(d).Invalid)
	require.ErrorContains(t, none.Spec(definition()).Invalid, "no work queue of its own")
	d.Completion = outside.Joined
	require.ErrorContains(t, caller(nil).Spec(d).Invalid, "completion of target queue is promise")
}

func TestAMessageThatIsNotSent(t *testing.T) {
	t.Parallel()
	denied := &host.Fault{Class: host.ClassAccess, Message: "no"}
	for _, c := range []struct {
		err   error
		class string
	}{{errors.New("broken"), host.ClassServer}, {denied, host.ClassAccess}} {
		_, err := call(t.Context(), t, caller(&box{err: c.err}), definition(), `{}`)
		var f *host.Fault
		require.ErrorAs(t, err, &f)
		require.Equal(t, c.class, f.Class)
		require.ErrorIs(t, err, c.err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := call(ctx, t, caller(&box{err: context.Canceled}), definition(), `{}`)
	var f *host.Fault
	require.ErrorAs(t, err, &f)
	require.Equal(t, host.ClassStopped, f.Class)
}

func FuzzMessage(f *testing.F) {
	f.Add(`{"a":"\u0000é"}`)
	f.Add("{\"a\":\"\u2028\U0001f600\x7f\"}")
	f.Fuzz(func(t *testing.T, arguments string) {
		b := &box{}
		res, err := call(t.Context(), t, caller(b), definition(), arguments)
		if err != nil || res.Error {
			return // not an object, and so never sent
		}
		for i := range len(b.body) {
			require.Less(t, b.body[i], byte(utf8.RuneSelf))
			require.GreaterOrEqual(t, b.body[i], byte(' '))
		}
		var got outside.Call
		require.NoError(t, json.Unmarshal([]byte(b.body), &got))
		if got.InputURL == "" {
			require.JSONEq(t, arguments, string(got.Arguments))
		}
	})
}
