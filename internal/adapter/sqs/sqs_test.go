package sqs_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/oklog/ulid/v2"
	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/adapter/sqs"
	"github.com/perdure/perdure/internal/host"
	"github.com/perdure/perdure/localstack/target"
)

// patience is how long a test waits for what must come; it is no measure.
const patience = time.Minute

var key = host.Key{Tenant: "default", Session: "s"}

func run(text string) sqs.Command {
	body, err := json.Marshal(map[string]string{"input": text})
	if err != nil {
		panic(err)
	}
	return sqs.Command{
		Key: key, Inc: "01JQ", Path: "/v1/sessions/s/runs", Idempotency: "k1", Actor: "U1", Roles: []string{"ops"}, Via: "slack", Body: body,
	}
}

// bodies is a Bodies.
type bodies map[blob.Ref][]byte

func (b bodies) PutBlob(_ context.Context, _ host.Key, x host.Blob) error {
	b[x.Ref] = x.Data
	return nil
}

// queue makes a queue on the target and returns its URL.
func queue(t *testing.T, fifo bool) (cfg aws.Config, url string, client *awssqs.Client) {
	t.Helper()
	cfg = target.AWS(t)
	client = awssqs.NewFromConfig(cfg)
	in := &awssqs.CreateQueueInput{QueueName: aws.String("perdure-" + ulid.Make().String()), Attributes: map[string]string{}}
	if fifo {
		in.QueueName, in.Attributes["FifoQueue"] = aws.String(*in.QueueName+".fifo"), "true"
	}
	out, err := client.CreateQueue(t.Context(), in)
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := client.DeleteQueue(context.WithoutCancel(t.Context()), &awssqs.DeleteQueueInput{QueueUrl: out.QueueUrl})
		require.NoError(t, err)
	})
	return cfg, *out.QueueUrl, client
}

// take receives n messages and takes them off the queue.
func take(t *testing.T, client *awssqs.Client, url string, n int) (got []types.Message) {
	t.Helper()
	require.Eventually(t, func() bool {
		out, err := client.ReceiveMessage(t.Context(), &awssqs.ReceiveMessageInput{
			QueueUrl: &url, MaxNumberOfMessages: 10, WaitTimeSeconds: 1,
			MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameAll},
		})
		require.NoError(t, err)
		for _, m := range out.Messages {
			_, err = client.DeleteMessage(t.Context(), &awssqs.DeleteMessageInput{QueueUrl: &url, ReceiptHandle: m.ReceiptHandle})
			require.NoError(t, err)
		}
		got = append(got, out.Messages...)
		return len(got) >= n
	}, patience, time.Millisecond)
	require.Len(t, got, n)
	return got
}

// read decodes a command's message.
func read(t *testing.T, text string) (m map[string]any) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(text), &m))
	return m
}

func TestACommandSaysWhoAsksWhat(t *testing.T) {
	t.Parallel()
	cfg, url, client := queue(t, true)
	inbox := sqs.NewInbox(cfg, url, bodies{})
	require.NoError(t, inbox.Send(t.Context(), run("hi")))
	got := take(t, client, url, 1)[0]
	require.Equal(t, `{"v":1,"tenant":"default","session":"s","inc":"01JQ","method":"POST","path":"/v1/sessions/s/runs","key":"k1",`+
		`"actor":{"id":"U1","roles":["ops"]},"via":"slack","body":"{\"input\":\"hi\"}"}`, *got.Body)
	require.Equal(t, sqs.GroupID(key), got.Attributes["MessageGroupId"])
	require.Equal(t, sqs.DedupID(key, "k1"), got.Attributes["MessageDeduplicationId"])
}

func TestCommandsOfASessionKeepTheirOrderAndComeOnce(t *testing.T) {
	t.Parallel()
	cfg, url, client := queue(t, true)
	inbox := sqs.NewInbox(cfg, url, bodies{})
	var want []string
	for i := range 8 {
		c := run(strconv.Itoa(i))
		c.Idempotency = ident.SubmissionID(fmt.Sprintf("k%d", i))
		for range 2 {
			require.NoError(t, inbox.Send(t.Context(), c))
		}
		want = append(want, string(c.Body))
	}
	var got []string
	for _, m := range take(t, client, url, 8) {
		got = append(got, read(t, *m.Body)["body"].(string))
	}
	require.Equal(t, want, got)
}

// hard is text with what a queue refuses in it, or cannot be trusted with.
const hard = "nul \x00 vt \x0b esc \x1b del \x7f fffe \ufffe ffff \uffff ls \u2028 caf\u00e9 \U0001F600 <&> \\ \""

func TestT59CharactersThatAQueueRefusesComeThrough(t *testing.T) {
	t.Parallel()
	cfg, url, client := queue(t, true)
	inbox := sqs.NewInbox(cfg, url, bodies{})
	c := run(hard)
	// As somebody else's encoder writes it: with nothing escaped that need not be.
	c.Body = []byte(`{"input":"fffe ` + "\ufffe ffff \uffff del \x7f \U0001F600" + ` \u0000\u000b","half":"\ud800"}`)
	for _, body := range [][]byte{run(hard).Body, c.Body} {
		c.Body, c.Idempotency = body, ident.SubmissionID(fmt.Sprintf("k%d", len(body)))
		require.NoError(t, inbox.Send(t.Context(), c))
		got := *take(t, client, url, 1)[0].Body
		for i := range len(got) {
			require.True(t, got[i] >= 0x20 && got[i] < 0x7f, "byte 0x%02x", got[i])
		}
		require.Equal(t, string(body), read(t, got)["body"], "byte for byte")
	}

	// A queue of other things takes JSON of any text, too.
	cfg, url, client = queue(t, false)
	require.NoError(t, sqs.New(cfg).Send(t.Context(), url, string(c.Body)))
	var want, got any
	require.NoError(t, json.Unmarshal(c.Body, &want))
	require.NoError(t, json.Unmarshal([]byte(*take(t, client, url, 1)[0].Body), &got))
	require.Equal(t, want, got)
	for name, bad := range map[string]string{"no JSON with a nul": "a\x00b", "no JSON with U+FFFF": "a\uffffb", "no UTF-8": "\"\xff\"", "nothing": ""} {
		require.ErrorIs(t, sqs.New(cfg).Send(t.Context(), url, bad), sqs.ErrMessage, name)
	}
	require.NoError(t, sqs.New(cfg).Send(t.Context(), url, "plain text, caf\u00e9"))
	require.Equal(t, "plain text, caf\u00e9", *take(t, client, url, 1)[0].Body)
}

func TestT60AGroupIsNamedByAHash(t *testing.T) {
	t.Parallel()
	// Its value is part of the contract between builds: were it to change, two
	// commands of a session could overtake one another during an update.
	require.Equal(t, "0c845396216bbbd0e2d5be5e784c189e", sqs.GroupID(key))
	require.Equal(t, "cb49ce5439c2b7baf0c3f41d22f17f732e6df42ab927f634363f87801db9c004", sqs.DedupID(key, "k1"))

	long := host.Key{Tenant: ident.TenantID(strings.Repeat("t", 128)), Session: ident.SessionID("slack.C\u00e4f\u00e9 \u6771\u4eac:1700000000.000100")}
	seen := map[string]bool{}
	for _, k := range []host.Key{key, long, {Tenant: "defaults", Session: ""}, {Tenant: "default", Session: "s.t"}, {Tenant: "defaul", Session: "ts"}} {
		id := sqs.GroupID(k)
		require.Regexp(t, "^[0-9a-f]{32}$", id)
		require.False(t, seen[id])
		seen[id] = true
		require.Equal(t, id, sqs.GroupID(k))
		require.Regexp(t, "^[0-9a-f]{64}$", sqs.DedupID(k, "k"))
	}
}

func TestT56ALongBodyIsKeptBesideItsSession(t *testing.T) {
	t.Parallel()
	cfg, url, client := queue(t, true)
	kept := bodies{}
	inbox := sqs.NewInbox(cfg, url, kept)
	for i, text := range []string{
		strings.Repeat("x", 1<<20),
		strings.Repeat("\u00e9", 40<<10), // short as it is, long as ASCII
		strings.Repeat("\"", 150<<10),
	} {
		c := run(text)
		c.Idempotency = ident.SubmissionID(fmt.Sprintf("long%d", i))
		require.NoError(t, inbox.Send(t.Context(), c))
		got := *take(t, client, url, 1)[0].Body
		require.Less(t, len(got), 1<<10)
		m := read(t, got)
		require.Nil(t, m["body"])
		require.Equal(t, c.Body, kept[blob.Ref(m["ref"].(string))])
	}

	// The longest that rides along, in the worst case of escaping, fits a queue.
	clear(kept)
	for i, unit := range []string{"<", "\\\\", "\\u0000", "\u2028"} {
		size := len(unit)
		if unit == "\u2028" {
			size = 6
		}
		c := run("")
		c.Body = []byte(`"` + strings.Repeat(unit, (sqs.InlineBytesMax-2)/size) + `"`)
		c.Idempotency = ident.SubmissionID(fmt.Sprintf("short%d", i))
		require.NoError(t, inbox.Send(t.Context(), c))
		got := *take(t, client, url, 1)[0].Body
		require.Less(t, len(got), sqs.MessageBytesMax)
		require.Equal(t, string(c.Body), read(t, got)["body"])
	}
	require.Empty(t, kept)
}

func TestABodyThatCannotBeKeptIsNotSent(t *testing.T) {
	t.Parallel()
	inbox := sqs.NewInbox(aws.Config{}, "nowhere", gone{})
	c := run(strings.Repeat("x", 1<<20))
	require.ErrorIs(t, inbox.Send(t.Context(), c), host.ErrNotFound)
}

type gone struct{}

func (gone) PutBlob(context.Context, host.Key, host.Blob) error { return host.ErrNotFound }

func TestNoMessageIsMadeOfWhatIsNoCommand(t *testing.T) {
	t.Parallel()
	inbox := sqs.NewInbox(aws.Config{}, "nowhere", bodies{})
	for name, change := range map[string]func(c *sqs.Command){
		"no tenant":    func(c *sqs.Command) { c.Key.Tenant = "" },
		"no session":   func(c *sqs.Command) { c.Key.Session = "a#b" },
		"no key":       func(c *sqs.Command) { c.Idempotency = "" },
		"no JSON":      func(c *sqs.Command) { c.Body = []byte("{") },
		"broken UTF-8": func(c *sqs.Command) { c.Body = []byte("\"\xff\"") },
	} {
		c := run("hi")
		change(&c)
		require.ErrorIs(t, inbox.Send(t.Context(), c), sqs.ErrMessage, name)
	}
	require.ErrorIs(t, sqs.New(aws.Config{}).Send(t.Context(), "nowhere", `"`+strings.Repeat("x", 1<<20)+`"`), sqs.ErrMessage)
	done, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, inbox.Send(done, run("hi")), context.Canceled)
}

func TestWhatAQueueRefusesSaysWhatToDo(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	var code atomic.Value
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		w.WriteHeader(http.StatusBadRequest)
		_ = json.NewEncoder(w).Encode(map[string]string{"__type": "com.amazonaws.sqs#" + code.Load().(string), "message": "no"})
	}))
	t.Cleanup(server.Close)
	q := sqs.New(aws.Config{
		Region: "us-east-1", BaseEndpoint: &server.URL, HTTPClient: server.Client(),
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	}, func(o *awssqs.Options) { o.Retryer = retry.AddWithMaxBackoffDelay(o.Retryer, time.Microsecond) })
	for _, c := range []struct {
		code  string
		says  string
		is    error
		tries int32
	}{
		{"QueueDoesNotExist", "queue " + server.URL + "/q does not exist; deploy the stack", nil, 1},
		{"AccessDeniedException", "not allowed to call sqs:SendMessage on " + server.URL + "/q; add it to the role", nil, 1},
		{"InvalidMessageContents", "", sqs.ErrMessage, 1},
		{"ThrottlingException", "", host.ErrUnavailable, 4},
		{"RequestThrottled", "", host.ErrUnavailable, 4},
	} {
		code.Store(c.code)
		asked.Store(0)
		err := q.Send(t.Context(), server.URL+"/q", "{}")
		require.Error(t, err)
		require.ErrorContains(t, err, c.says, c.code)
		if c.is != nil {
			require.ErrorIs(t, err, c.is, c.code)
		}
		require.Equal(t, c.tries, asked.Load(), c.code)
	}
}

func TestAQueueThatIsNotThere(t *testing.T) {
	t.Parallel()
	cfg, url, _ := queue(t, false)
	err := sqs.New(cfg).Send(t.Context(), url+"-not", "{}")
	require.ErrorContains(t, err, "does not exist; deploy the stack")
}

// FuzzPortable: what comes out is what a queue takes, and means the same.
func FuzzPortable(f *testing.F) {
	for _, s := range []string{"", "a", "\"\\u0000\"", "\"\uffff\"", "\"\U0001F600\"", "\x00", "[1,\"caf\u00e9\"]"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		out, err := sqs.Portable(text)
		if err != nil {
			require.ErrorIs(t, err, sqs.ErrMessage)
			return
		}
		for _, r := range out {
			require.False(t, r < 0x20 && !strings.ContainsRune("\t\n\r", r) || r == 0xFFFE || r == 0xFFFF, "U+%04X", r)
		}
		if !json.Valid([]byte(text)) {
			require.Equal(t, text, out)
			return
		}
		var want, got any
		dec := func(s string, v *any) {
			d := json.NewDecoder(bytes.NewReader([]byte(s)))
			d.UseNumber()
			require.NoError(t, d.Decode(v))
		}
		dec(text, &want)
		dec(out, &got)
		require.Equal(t, want, got)
	})
}
