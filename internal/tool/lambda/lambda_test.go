package lambda_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/internal/host"
	"github.com/perdure/perdure/internal/tool"
	"github.com/perdure/perdure/internal/tool/lambda"
	"github.com/perdure/perdure/internal/tool/outside"
)

// function is an Invoker that answers with one thing, and keeps what it got.
type function struct {
	answer string
	failed bool
	err    error
	name   string
	got    string
}

func (f *function) Invoke(_ context.Context, name string, payload []byte) ([]byte, bool, error) {
	f.name, f.got = name, string(payload)
	return []byte(f.answer), f.failed, f.err
}

func definition() outside.Definition {
	return outside.Definition{
		Name: "crm.find", Target: outside.Lambda, Function: "crm:live", Description: "Find a customer.",
		Parameters: `{"type":"object","properties":{"name":{"type":"string"}}}`, Kind: tool.KindRead, Completion: outside.Joined,
	}
}

// call runs the tool through a registry, as the host does.
func call(t *testing.T, f *function, d outside.Definition, token string) (host.ToolResult, error) {
	t.Helper()
	c := &lambda.Caller{Invoker: f, SettleURL: func(token string) string { return "https://perdure.example/v1/promises/" + token }}
	spec := c.Spec(d)
	require.NoError(t, spec.Invalid)
	r, err := tool.New(nil, []tool.Spec{spec})
	require.NoError(t, err)
	return r.Run(t.Context(), host.ToolCall{
		Key: host.Key{Tenant: "acme", Session: "s1"}, Run: 2, Call: ident.CallID{Turn: 3, Index: 1}, Tool: d.Name,
		Actor: session.Actor{ID: "ann"}, Operation: "op_7", Attempt: 2, Arguments: `{"name":"<é>"}`, Token: token, Deadline: 1_700_000_000_123,
	})
}

func TestWhatTheFunctionGets(t *testing.T) {
	t.Parallel()
	f := &function{answer: `"done"`}
	res, err := call(t, f, definition(), "")
	require.NoError(t, err)
	require.Equal(t, host.ToolResult{Text: "done"}, res)
	require.Equal(t, "crm:live", f.name)
	require.Equal(t, `{"v":1,"operationId":"op_7","attempt":2,"tenant":"acme","session":"s1","run":"run_2","call":"call_3_1","tool":"crm.find",`+
		`"actor":{"id":"ann"},"arguments":{"name":"<é>"},"deadline":"2023-11-14T22:13:20.123Z"}`, f.got)

	d := definition()
	d.Completion = outside.Promise
	f.answer = `{"accepted":true}`
	res, err = call(t, f, d, "pt_1")
	require.NoError(t, err)
	require.Equal(t, host.ToolResult{Accepted: true}, res)
	require.Contains(t, f.got, `"promise":{"token":"pt_1","settleUrl":"https://perdure.example/v1/promises/pt_1"}`)
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	const effects = `"effects":[{"kind":"crm.read","subject":"customer 7"}]`
	read := []session.ToolEffect{{Kind: "crm.read", Subject: "customer 7"}}
	for answer, want := range map[string]host.ToolResult{
		`"text"`:                              {Text: "text"},
		`null`:                                {Text: "null"},
		`[1, 2.50]`:                           {Text: `[1,2.50]`},
		`{}`:                                  {Text: `{}`},
		`{"id":7,"result":"mine"}`:            {Text: `{"id":7,"result":"mine"}`},
		`{"error":"x","code":3}`:              {Text: `{"code":3,"error":"x"}`},
		`{"result":{"b":1,"a":2}}`:            {Text: `{"a":2,"b":1}`},
		`{"text":"é",` + effects + `}`:        {Text: "é", Effects: read},
		`{"error":"no such",` + effects + `}`: {Text: "no such", Error: true, Effects: read},
	} {
		res, err := call(t, &function{answer: answer}, definition(), "")
		require.NoError(t, err)
		require.Equal(t, want, res, answer)
	}
	for answer, why := range map[string]string{
		``:                                      "no JSON",
		`{"a":1,"a":2}`:                         "twice",
		`{"effects":[]}`:                        "not with one of",
		`{"result":1,"error":"x"}`:              "not with one of",
		`{"error":7}`:                           `"error" is no text`,
		`{"text":7}`:                            `"text" is no text`,
		`{"accepted":false}`:                    `"accepted" is not true`,
		`{"accepted":true}`:                     "only a tool whose completion is promise",
		`{"result":1,"effects":[{"kind":"x"}]}`: "effects are no list",
	} {
		res, err := call(t, &function{answer: answer}, definition(), "")
		require.NoError(t, err)
		require.True(t, res.Error, answer)
		require.Contains(t, res.Text, why, answer)
		require.Contains(t, res.Text, "the work may have been done", answer)
	}
}

func TestALargeAnswerIsWhole(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("0123456789abcdef", 5<<20/16)
	res, err := call(t, &function{answer: `"` + text + `"`}, definition(), "")
	require.NoError(t, err)
	require.Len(t, res.Text, len(text))
	require.Equal(t, text, res.Text)
}

func TestAnActionSaysWhatItInvoked(t *testing.T) {
	t.Parallel()
	d := definition()
	d.Kind = tool.KindAction
	res, err := call(t, &function{answer: `{"text":"sent","effects":[{"kind":"mail.sent","subject":"ann"}]}`}, d, "")
	require.NoError(t, err)
	require.Equal(t, []session.ToolEffect{{Kind: "lambda.invoked", Subject: "crm:live"}, {Kind: "mail.sent", Subject: "ann"}}, res.Effects)
}

func TestTheResultFitsTheSchema(t *testing.T) {
	t.Parallel()
	d := definition()
	d.ResultSchema = `{"type":"object","required":["id"]}`
	res, err := call(t, &function{answer: `{"id":7}`}, d, "")
	require.NoError(t, err)
	require.False(t, res.Error)
	res, err = call(t, &function{answer: `"seven"`}, d, "")
	require.NoError(t, err)
	require.True(t, res.Error)
	require.Contains(t, res.Text, "resultSchema")
}

func TestAFunctionThatFails(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]string{
		`{"errorMessage":"no such customer","errorType":"errorString","stackTrace":["secret/main.go:7"]}`: "the tool's function failed: no such customer",
		`{"errorMessage":"","errorType":"Odd"}`:                                                           "the tool's function failed (Odd)",
		`not JSON`:                                                                                        "the tool's function failed",
		`{"errorType":"Function.ResponseSizeTooLarge","errorMessage":"Response payload size exceeded"}`: "the tool's function failed: Response payload size exceeded",
	} {
		res, err := call(t, &function{answer: answer, failed: true}, definition(), "")
		require.NoError(t, err)
		require.Equal(t, host.ToolResult{Text: want, Error: true}, res)
	}
	long, err := json.Marshal(map[string]string{"errorMessage": strings.Repeat("é", session.ErrorTextMax)})
	require.NoError(t, err)
	res, err := call(t, &function{answer: string(long), failed: true}, definition(), "")
	require.NoError(t, err)
	require.LessOrEqual(t, len(res.Text), session.ErrorTextMax)
	require.Greater(t, len(res.Text), session.ErrorTextMax-8)
}

// TestAFunctionThatIsCutOffLeavesItsOutcomeUnknown: the session tries again if
// the tool is retry-safe, and else says that nobody knows.
func TestAFunctionThatIsCutOffLeavesItsOutcomeUnknown(t *testing.T) {
	t.Parallel()
	for answer, class := range map[string]string{
		`{"errorType":"Sandbox.Timedout","errorMessage":"RequestId: 1 Error: Task timed out after 3.00 seconds"}`:         host.ClassTimeout,
		`{"errorMessage":"2026-11-30T13:00:00.000Z 1 Task timed out after 3.00 seconds"}`:                                 host.ClassTimeout,
		`{"errorType":"Runtime.ExitError","errorMessage":"RequestId: 1 Error: Runtime exited with error: exit status 1"}`: host.ClassServer,
		`{"errorType":"Runtime.OutOfMemory","errorMessage":"signal: killed"}`:                                             host.ClassServer,
	} {
		_, err := call(t, &function{answer: answer, failed: true}, definition(), "")
		var f *host.Fault
		require.ErrorAs(t, err, &f, answer)
		require.Equal(t, class, f.Class)
		require.True(t, f.Sent)
	}
	want := &host.Fault{Class: host.ClassRateLimit, Message: "busy"}
	_, err := call(t, &function{err: want}, definition(), "")
	require.Equal(t, want, err)
}

func TestWhatIsOffered(t *testing.T) {
	t.Parallel()
	c := &lambda.Caller{Invoker: &function{}}
	spec := c.Spec(definition())
	require.Equal(t, session.ClassInline, spec.Class, "the invocation is the wait")
	require.EqualValues(t, 90_000, spec.DeadlineMs)
	require.Equal(t, "lambda crm:live", spec.Target, "an approval binds what is invoked")
	d := definition()
	d.TimeoutSeconds, d.RetrySafe, d.Parallel = 600, true, true
	spec = c.Spec(d)
	require.EqualValues(t, 600_000, spec.DeadlineMs)
	require.True(t, spec.RetrySafe && spec.Parallel)
	d.Completion = outside.Promise
	require.Equal(t, session.ClassPromise, c.Spec(d).Class)
	d.Function = "crm live"
	require.ErrorContains(t, c.Spec(d).Invalid, "function is neither")
}

func FuzzAnswer(f *testing.F) {
	for _, answer := range []string{`{"result":1}`, `{"error":"x"}`, `{"accepted":true}`, `"x"`, `{"text":"a","effects":[{"kind":"a","subject":"b"}]}`} {
		f.Add(answer, false)
		f.Add(`{"errorMessage":`+answer+`}`, true)
	}
	f.Fuzz(func(t *testing.T, answer string, failed bool) {
		res, err := call(t, &function{answer: answer, failed: failed}, definition(), "")
		if err != nil {
			var fault *host.Fault
			require.ErrorAs(t, err, &fault)
			return
		}
		require.False(t, res.Accepted)
		_, err = json.Marshal(res.Text)
		require.NoError(t, err)
	})
}
