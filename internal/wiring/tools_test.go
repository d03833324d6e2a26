package wiring_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/internal/adapter/gosched"
	"github.com/perdure/perdure/internal/adapter/lambda"
	"github.com/perdure/perdure/internal/adapter/lambda/lambdatest"
	"github.com/perdure/perdure/internal/adapter/memory"
	"github.com/perdure/perdure/internal/api"
	"github.com/perdure/perdure/internal/host"
	"github.com/perdure/perdure/internal/netguard"
	"github.com/perdure/perdure/internal/tool/outside"
	"github.com/perdure/perdure/internal/wiring"
	"github.com/perdure/perdure/localstack/target"
)

const tenant = "acme"

// newTools makes the tools of a server over a store of settings.
func newTools(t *testing.T, stash host.Stash, change func(*wiring.ToolsConfig)) *wiring.Tools {
	t.Helper()
	cfg := wiring.ToolsConfig{
		Settings: wiring.NewSettings(stash, gosched.New(), true), Guard: netguard.Guard{}, Now: gosched.New().Now,
		URL: func() string { return "https://perdure.example" },
	}
	change(&cfg)
	tools, err := wiring.NewTools(cfg)
	require.NoError(t, err)
	return tools
}

func definition(name string, change func(*api.ToolDefinition)) api.Tool {
	d := api.ToolDefinition{Description: "does", Parameters: api.Object(`{"type":"object"}`), Kind: "read", Completion: "joined"}
	change(&d)
	return api.Tool{Name: name, ToolDefinition: d}
}

func toFunction(function string) func(*api.ToolDefinition) {
	return func(d *api.ToolDefinition) { d.Target, d.Function = outside.Lambda, function }
}

func TestATargetThatIsNotServedIsRefused(t *testing.T) {
	t.Parallel()
	stash := memory.New(memory.Options{})
	local := newTools(t, stash, func(*wiring.ToolsConfig) {})
	for _, d := range []api.Tool{
		definition("t.one", toFunction("f")),
		definition("t.one", func(d *api.ToolDefinition) { d.Target, d.Completion = outside.Queue, outside.Promise }),
	} {
		_, err := local.Store.PutTool(t.Context(), tenant, d)
		var refused *host.Rejection
		require.ErrorAs(t, err, &refused)
		require.Equal(t, host.CodeValidation, refused.Code)
		require.Equal(t, "target "+d.Target+" is not served by this server, which serves http", refused.Message)
	}

	// What another server has set up over the same settings is listed, and left
	// out of every offer with the reason.
	cloud := newTools(t, stash, func(c *wiring.ToolsConfig) { c.Functions = lambda.Open(aws.Config{Region: "us-east-1"}) })
	created, err := cloud.Store.PutTool(t.Context(), tenant, definition("t.one", toFunction("f")))
	require.NoError(t, err)
	require.True(t, created)
	got, err := local.Store.Tool(t.Context(), tenant, "t.one")
	require.NoError(t, err)
	require.Equal(t, "f", got.Function)
	require.Equal(t, outside.Lambda, got.Target)
	bad, err := local.Registry.Quarantined(t.Context(), tenant)
	require.NoError(t, err)
	require.Len(t, bad, 1)
	require.Contains(t, bad[0].Reason, "target lambda is not served by this server")
	require.Empty(t, offer(t, local))
	require.Len(t, offer(t, cloud), 1)
}

func offer(t *testing.T, tools *wiring.Tools) []host.Tool {
	t.Helper()
	offered, err := tools.Registry.Offer(t.Context(), host.Key{Tenant: tenant, Session: "s1"}, session.Config{Tools: []session.ToolGrant{{Name: "t.*"}}})
	require.NoError(t, err)
	return offered
}

// TestSettingsOfBeforeTargets: what an older build has stored is a tool over
// HTTP.
func TestSettingsOfBeforeTargets(t *testing.T) {
	t.Parallel()
	stash := memory.New(memory.Options{})
	old := `{"tools":{"t.one":{"name":"t.one","url":"https://example.com/t","secret":"S","description":"does",` +
		`"parameters":"{\"type\":\"object\"}","kind":"action","retrySafe":true,"completion":"joined","timeoutSeconds":30}}}`
	_, err := stash.PutStash(t.Context(), host.Key{Tenant: tenant}, "settings", []byte(old), wiring.Forever, false)
	require.NoError(t, err)
	tools := newTools(t, stash, func(*wiring.ToolsConfig) {})
	got, err := tools.Store.Tool(t.Context(), tenant, "t.one")
	require.NoError(t, err)
	require.Equal(t, outside.HTTP, got.Target)
	require.Equal(t, "https://example.com/t", got.URL)
	require.Len(t, offer(t, tools), 1)
	_, err = tools.Store.PutTool(t.Context(), tenant, got)
	require.NoError(t, err, "it can be put as it was read")
}

func run(ctx context.Context, tools *wiring.Tools, arguments any, token string) (host.ToolResult, error) {
	text, err := json.Marshal(arguments)
	if err != nil {
		return host.ToolResult{}, err
	}
	return tools.Registry.Run(ctx, host.ToolCall{
		Key: host.Key{Tenant: tenant, Session: "s1"}, Run: 2, Call: ident.CallID{Turn: 3, Index: 1}, Tool: "t.one",
		Operation: "op_7", Attempt: 1, Arguments: string(text), Token: token,
	})
}

type m map[string]any

func TestACustomersFunctionIsATool(t *testing.T) {
	t.Parallel()
	at := target.Get(t)
	_, arn := lambdatest.Deploy(t, at.Config, at.Can.Arch)
	tools := newTools(t, memory.New(memory.Options{}), func(c *wiring.ToolsConfig) { c.Functions = lambda.Open(at.Config) })
	_, err := tools.Store.PutTool(t.Context(), tenant, definition("t.one", toFunction(arn)))
	require.NoError(t, err)
	defs := offer(t, tools)
	require.Len(t, defs, 1)
	require.Equal(t, session.ClassInline, defs[0].Def.Class)

	do := func(t *testing.T, what string, with any) (host.ToolResult, error) {
		t.Helper()
		return run(t.Context(), tools, m{"do": what, "with": with}, "")
	}
	fault := func(t *testing.T, what, class string) {
		t.Helper()
		_, err := do(t, what, nil)
		var f *host.Fault
		require.ErrorAs(t, err, &f)
		require.Equal(t, class, f.Class)
		require.True(t, f.Sent, "nobody knows what it did")
	}
	t.Run("Echo", func(t *testing.T) {
		t.Parallel()
		res, err := do(t, "echo", "é")
		require.NoError(t, err)
		require.False(t, res.Error)
		require.JSONEq(t, `{"v":1,"operationId":"op_7","attempt":1,"tenant":"acme","session":"s1","run":"run_2","call":"call_3_1","tool":"t.one",`+
			`"actor":{"id":""},"arguments":{"do":"echo","with":"é"}}`, res.Text)
	})
	t.Run("OneMegabyte", func(t *testing.T) {
		t.Parallel()
		res, err := do(t, "large", 1<<20)
		require.NoError(t, err)
		require.Equal(t, strings.Repeat("x", 1<<20), res.Text)
	})
	t.Run("ATextWithEffects", func(t *testing.T) {
		t.Parallel()
		res, err := do(t, "answer", m{"text": "done", "effects": []m{{"kind": "mail.sent", "subject": "ann"}}})
		require.NoError(t, err)
		require.Equal(t, host.ToolResult{Text: "done", Effects: []session.ToolEffect{{Kind: "mail.sent", Subject: "ann"}}}, res)
	})
	t.Run("AnError", func(t *testing.T) {
		t.Parallel()
		res, err := do(t, "fail", nil)
		require.NoError(t, err)
		require.Equal(t, host.ToolResult{Text: "the tool's function failed: no such customer", Error: true}, res)
	})
	t.Run("APanicWithoutItsStack", func(t *testing.T) {
		t.Parallel()
		res, err := do(t, "panic", nil)
		require.NoError(t, err)
		require.Equal(t, host.ToolResult{Text: "the tool's function failed: index out of range", Error: true}, res)
	})
	t.Run("AnEndWithoutAWord", func(t *testing.T) { t.Parallel(); fault(t, "exit", host.ClassServer) })
	t.Run("ItsTimeout", func(t *testing.T) { t.Parallel(); fault(t, "sleep", host.ClassTimeout) })
}

// sender sends to SQS.
type sender struct{ client *sqs.Client }

func (s sender) Send(ctx context.Context, url, body string) error {
	_, err := s.client.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: &url, MessageBody: &body})
	return err
}

// workQueue is a tool that sends to a queue of its own, and what arrives there.
func workQueue(t *testing.T) (tools *wiring.Tools, receive func() outside.Call) {
	t.Helper()
	client := sqs.NewFromConfig(target.AWS(t))
	made, err := client.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: aws.String("work-" + strings.ToLower(rand.Text()))})
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := client.DeleteQueue(context.WithoutCancel(t.Context()), &sqs.DeleteQueueInput{QueueUrl: made.QueueUrl})
		require.NoError(t, err)
	})
	tools = newTools(t, memory.New(memory.Options{}), func(c *wiring.ToolsConfig) { c.Queues, c.WorkQueue = sender{client}, *made.QueueUrl })
	_, err = tools.Store.PutTool(t.Context(), tenant, definition("t.one", func(d *api.ToolDefinition) { d.Target, d.Completion = outside.Queue, outside.Promise }))
	require.NoError(t, err)
	return tools, func() (got outside.Call) {
		out, err := client.ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: made.QueueUrl, WaitTimeSeconds: 20})
		require.NoError(t, err)
		require.Len(t, out.Messages, 1)
		require.NoError(t, json.Unmarshal([]byte(*out.Messages[0].Body), &got))
		_, err = client.DeleteMessage(t.Context(), &sqs.DeleteMessageInput{QueueUrl: made.QueueUrl, ReceiptHandle: out.Messages[0].ReceiptHandle})
		require.NoError(t, err)
		return got
	}
}

func TestAQueueIsATool(t *testing.T) {
	t.Parallel()
	tools, receive := workQueue(t)
	for _, size := range []int{10, 100 << 10} {
		text := strings.Repeat("é", size/2)
		res, err := run(t.Context(), tools, m{"text": text}, "pt_1")
		require.NoError(t, err)
		require.Equal(t, host.ToolResult{Accepted: true}, res)
		got := receive()
		require.Equal(t, "op_7", got.OperationID)
		require.Equal(t, "https://perdure.example/v1/promises/pt_1", got.Promise.SettleURL)
		if size == 10 {
			require.JSONEq(t, `{"text":"`+text+`"}`, string(got.Arguments))
		} else {
			require.Empty(t, got.Arguments)
			require.Equal(t, "https://perdure.example/v1/promises/pt_1/input", got.InputURL)
		}
	}
}

// TestT59AMessageTakesEveryText: SQS refuses some characters, and a call may
// have any.
func TestT59AMessageTakesEveryText(t *testing.T) {
	t.Parallel()
	tools, receive := workQueue(t)
	text := "\x00\x01\x0b\x1f\x7f\u0085\u2028\ufffe\uffff\U0001f600\U0010ffff é\t\r\n\"\\"
	_, err := run(t.Context(), tools, m{"text": text}, "pt_1")
	require.NoError(t, err)
	var arrived map[string]string
	require.NoError(t, json.Unmarshal(receive().Arguments, &arrived))
	require.Equal(t, text, arrived["text"])
}
