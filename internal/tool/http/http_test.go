package http_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/internal/host"
	"github.com/perdure/perdure/internal/tool"
	toolhttp "github.com/perdure/perdure/internal/tool/http"
	"github.com/perdure/perdure/internal/tool/outside"
)

const now ident.Instant = 1_700_000_000_123

// permanent is an error like that of a guarded dialer.
type permanentError struct{}

func (permanentError) Error() string   { return "refused by rule" }
func (permanentError) Permanent() bool { return true }

func caller(transport http.RoundTripper) *toolhttp.Caller {
	return &toolhttp.Caller{
		Transport: transport,
		Secret: func(_ context.Context, tenant ident.TenantID, name string) (string, error) {
			if tenant == "acme" && name == "CRM_SECRET" {
				return "s3cret", nil
			}
			return "", errors.New("not set")
		},
		Now:       func() ident.Instant { return now },
		SettleURL: func(token string) string { return "https://perdure.example/v1/promises/" + token },
	}
}

func definition(url string) outside.Definition {
	return outside.Definition{
		Name: "crm.update", URL: url, Secret: "CRM_SECRET", Description: "Update a customer.",
		Parameters: `{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}`,
		Kind:       tool.KindAction, Completion: outside.Joined, TimeoutSeconds: 30,
	}
}

// call runs the tool through a registry, as the host does.
func call(t *testing.T, c *toolhttp.Caller, d outside.Definition) (host.ToolResult, error) {
	t.Helper()
	return callWith(t.Context(), t, c, d)
}

func toolCall() host.ToolCall {
	return host.ToolCall{
		Key: host.Key{Tenant: "acme", Session: "s1"}, Run: 2, Call: ident.CallID{Turn: 3, Index: 1}, Tool: "crm.update",
		Actor: session.Actor{ID: "ann"}, Operation: "op_7", Attempt: 2, Arguments: `{"name":"<é>"}`, Token: "pt_1", Deadline: now,
	}
}

func callWith(ctx context.Context, t *testing.T, c *toolhttp.Caller, d outside.Definition) (host.ToolResult, error) {
	t.Helper()
	spec := c.Spec(d)
	require.NoError(t, spec.Invalid)
	r, err := tool.New(nil, []tool.Spec{spec})
	require.NoError(t, err)
	return r.Run(ctx, toolCall())
}

// serve answers every request the same way.
func serve(t *testing.T, status int, contentType, body string, header ...string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(server.Close)
	return server.URL + "/crm?key=hidden"
}

func fault(t *testing.T, err error) *host.Fault {
	t.Helper()
	var f *host.Fault
	require.ErrorAs(t, err, &f)
	return f
}

func TestACallSaysWhatItIsAndIsSigned(t *testing.T) {
	t.Parallel()
	got := make(chan *http.Request, 1)
	bodies := make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- r
		bodies <- string(body)
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		_, _ = io.WriteString(w, `{"result":"done","effects":[{"kind":"crm.updated","subject":"customer 7","detail":"name"}]}`)
	}))
	t.Cleanup(server.Close)
	res, err := call(t, caller(http.DefaultTransport), definition(server.URL+"/crm?key=hidden"))
	require.NoError(t, err)
	require.Equal(t, host.ToolResult{Text: "done", Effects: []session.ToolEffect{
		{Kind: "http.sent", Subject: server.URL + "/crm", Detail: "200"},
		{Kind: "crm.updated", Subject: "customer 7", Detail: "name"},
	}}, res)
	r, body := <-got, <-bodies
	require.Equal(t, http.MethodPost, r.Method)
	require.Equal(t, "key=hidden", r.URL.RawQuery)
	require.Equal(t, "application/json", r.Header.Get("Content-Type"))
	require.Equal(t, "op_7", r.Header.Get("Idempotency-Key"))
	require.Equal(t, toolhttp.Sign("s3cret", now, body), r.Header.Get("X-Perdure-Signature"))
	require.Equal(t, `{"operationId":"op_7","attempt":2,"session":"s1","run":"run_2","call":"call_3_1","tool":"crm.update","actor":{"id":"ann"},`+
		`"arguments":{"name":"<é>"},"promise":{"token":"pt_1","settleUrl":"https://perdure.example/v1/promises/pt_1"},"deadline":"2023-11-14T22:13:20.123Z"}`, body)
}

func TestTheSignatureIsThatOfWebhooks(t *testing.T) {
	t.Parallel()
	// printf '1700000000.{}' | openssl dgst -sha256 -hmac s3cret
	require.Equal(t, "t=1700000000,v1=97926816e98fbb41ccb1673225ff29a2f35369099990e1b1561651e7bd097ebf", toolhttp.Sign("s3cret", now, "{}"))
	require.NotEqual(t, toolhttp.Sign("s3cret", now, "{}"), toolhttp.Sign("s3cret", now.Add(1000), "{}"))
	require.NotEqual(t, toolhttp.Sign("s3cret", now, "{}"), toolhttp.Sign("other", now, "{}"))
}

func TestAnswersAtOnce(t *testing.T) {
	t.Parallel()
	const js = "application/json"
	for _, c := range []struct {
		status     int
		media      string
		body, text string
		failed     bool
	}{
		{200, js, `{"result":"text"}`, "text", false},
		{200, "application/problem+json", `{"result":{"b":1.50,"a":[true]}}`, `{"a":[true],"b":1.50}`, false},
		{200, js, `{"result":null}`, "null", false},
		{200, js, `{"error":"no such customer"}`, "no such customer", true},
		{200, js, `{"result":1,"error":"x"}`, "either", true},
		{200, js, `{}`, "either", true},
		{200, js, `[]`, "either", true},
		{200, js, `{"error":""}`, "no text", true},
		{200, js, `{"error":{}}`, "no text", true},
		{200, js, `{"result":1,"result":2}`, "twice", true},
		{200, js, `{"result":`, "too early", true},
		{200, js, "{\"result\":\"\xff\"}", "UTF-8", true},
		{200, js, `{"result":1,"effects":{}}`, "effects", true},
		{200, js, `{"result":1,"effects":[{"kind":"x"}]}`, "effects", true},
		{200, js, `{"result":"` + strings.Repeat("x", 1<<20) + `"}`, "more than 1048576 bytes", true},
		{200, "text/html", `{"result":1}`, "not with JSON", true},
		{200, "", `{"result":1}`, "not with JSON", true},
		{204, js, ``, "answered 204", true},
		{201, js, `{"result":1}`, "answered 201", true},
		{302, js, ``, "redirect (302)", true},
		{400, "text/plain", "no \xff such\n", "refused the call (400): no \uFFFD such", true},
		{401, js, ``, "refused the call (401)", true},
		{404, js, `{"title":"gone"}`, `(404): {"title":"gone"}`, true},
	} {
		res, err := call(t, caller(http.DefaultTransport), definition(serve(t, c.status, c.media, c.body, "Location", "http://169.254.169.254/")))
		require.NoError(t, err, c.body)
		require.Equal(t, c.failed, res.Error, "%d %.80s: %s", c.status, c.body, res.Text)
		require.Contains(t, res.Text, c.text)
		require.NotContains(t, res.Text, "hidden")
		require.False(t, res.Accepted)
	}
	res, err := call(t, caller(http.DefaultTransport), definition(serve(t, 422, "text/plain", strings.Repeat("é", 20<<10))))
	require.NoError(t, err)
	require.LessOrEqual(t, len(res.Text), session.ErrorTextMax)
	res, err = call(t, caller(http.DefaultTransport), definition(serve(t, 422, "text/plain", strings.Repeat("é", 2<<20))))
	require.NoError(t, err)
	require.LessOrEqual(t, len(res.Text), session.ErrorTextMax)
}

func TestALaterAnswerIsAccepted(t *testing.T) {
	t.Parallel()
	for completion, class := range map[string]string{outside.Joined: session.ClassJoined, outside.Promise: session.ClassPromise} {
		d := definition(serve(t, 202, "text/plain", "ok"))
		d.Completion = completion
		require.Equal(t, class, caller(nil).Spec(d).Class)
		require.EqualValues(t, 30_000, caller(nil).Spec(d).DeadlineMs)
		res, err := call(t, caller(http.DefaultTransport), d)
		require.NoError(t, err)
		require.Equal(t, host.ToolResult{Accepted: true}, res)
	}
}

func TestAResultIsCheckedAgainstItsSchema(t *testing.T) {
	t.Parallel()
	d := definition(serve(t, 200, "application/json", `{"result":{"id":"SECRET"}}`))
	d.ResultSchema = `{"type":"object","properties":{"id":{"type":"integer"}}}`
	res, err := call(t, caller(http.DefaultTransport), d)
	require.NoError(t, err)
	require.True(t, res.Error)
	require.Contains(t, res.Text, `id: breaks type "integer"`)
	require.NotContains(t, res.Text, "SECRET")
	d.ResultSchema = `{"properties":{"id":{"type":"string"}}}`
	res, err = call(t, caller(http.DefaultTransport), d)
	require.NoError(t, err)
	require.False(t, res.Error)
}

func TestWhatMayBeSentAgainIsAFault(t *testing.T) {
	t.Parallel()
	date := time.UnixMilli(int64(now)).Add(90 * time.Second).UTC().Format(http.TimeFormat)
	for _, c := range []struct {
		status int
		after  string
		class  string
		waitMs int64
	}{
		{408, "", host.ClassTimeout, 0},
		{429, "7", host.ClassRateLimit, 7000},
		{500, "", host.ClassServer, 0},
		{503, "120", host.ClassServer, 120_000},
		{503, date, host.ClassServer, 89_877},
		{503, "-5", host.ClassServer, 0},
		{503, "99999999", host.ClassServer, ident.Day},
		{599, "soon", host.ClassServer, 0},
	} {
		_, err := call(t, caller(http.DefaultTransport), definition(serve(t, c.status, "text/plain", "secret detail", "Retry-After", c.after)))
		f := fault(t, err)
		require.Equal(t, c.class, f.Class, c.status)
		require.Equal(t, c.waitMs, f.RetryAfterMs, c.after)
		require.True(t, f.Sent)
		require.NotContains(t, f.Message, "secret")
	}
}

func TestWhetherTheRequestWasSentIsKnown(t *testing.T) {
	t.Parallel()
	// Refused: nothing is there.
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := free.Addr().String()
	require.NoError(t, free.Close())
	_, err = call(t, caller(http.DefaultTransport), definition("http://"+address))
	f := fault(t, err)
	require.Equal(t, host.ClassNetwork, f.Class)
	require.False(t, f.Sent)

	// Lost: the other side reads the request and goes away, every time. It is
	// asked exactly once.
	requests := make(chan struct{}, 10)
	lost := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		requests <- struct{}{}
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			_ = conn.Close()
		}
	}))
	t.Cleanup(lost.Close)
	_, err = call(t, caller(http.DefaultTransport), definition(lost.URL))
	f = fault(t, err)
	require.Equal(t, host.ClassNetwork, f.Class)
	require.True(t, f.Sent)
	require.Len(t, requests, 1)

	// Lost in the middle of the answer.
	half := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", "1000")
		_, _ = io.WriteString(w, `{"result":`)
	}))
	t.Cleanup(half.Close)
	_, err = call(t, caller(http.DefaultTransport), definition(half.URL))
	f = fault(t, err)
	require.Equal(t, host.ClassNetwork, f.Class)
	require.True(t, f.Sent)

	// Refused by a rule: final.
	guarded := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return nil, permanentError{} }}
	_, err = call(t, caller(guarded), definition("http://169.254.169.254/"))
	f = fault(t, err)
	require.Equal(t, host.ClassAccess, f.Class)
	require.False(t, f.Sent)
}

func TestWaitingForAnAnswerEnds(t *testing.T) {
	t.Parallel()
	entered := make(chan struct{}, 2)
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.ReadAll(r.Body)
		entered <- struct{}{}
		<-r.Context().Done()
	}))
	t.Cleanup(silent.Close)
	d := definition(silent.URL)
	d.TimeoutSeconds = 1
	_, err := call(t, caller(http.DefaultTransport), d)
	f := fault(t, err)
	require.Equal(t, host.ClassTimeout, f.Class)
	require.True(t, f.Sent)
	<-entered

	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-entered
		cancel()
	}()
	_, err = callWith(ctx, t, caller(http.DefaultTransport), definition(silent.URL))
	f = fault(t, err)
	require.Equal(t, host.ClassStopped, f.Class)
	require.True(t, f.Sent)
	require.ErrorIs(t, err, context.Canceled)
}

func TestWithoutItsSecretNothingIsSent(t *testing.T) {
	t.Parallel()
	d := definition("http://127.0.0.1:1")
	d.Secret = "OTHER"
	_, err := call(t, caller(http.DefaultTransport), d)
	f := fault(t, err)
	require.Equal(t, host.ClassAuthentication, f.Class)
	require.False(t, f.Sent)

	d = definition(serve(t, 200, "application/json", `{"result":1}`))
	d.Secret = ""
	c := caller(http.DefaultTransport)
	c.Secret = nil
	_, err = call(t, c, d)
	require.NoError(t, err, "a tool without a secret is called unsigned")
}

func TestLookupTellsWhatBecameOfACall(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status int
		body   string
		found  bool
		want   host.ToolResult
		fault  bool
	}{
		{200, `{"result":"done"}`, true, host.ToolResult{Text: "done"}, false},
		{200, `{"error":"failed"}`, true, host.ToolResult{Text: "failed", Error: true}, false},
		{202, ``, true, host.ToolResult{Accepted: true}, false},
		{404, ``, false, host.ToolResult{}, false},
		{403, ``, false, host.ToolResult{}, false},
		{503, ``, false, host.ToolResult{}, true},
	} {
		got := make(chan *http.Request, 1)
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			got <- r
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(c.status)
			_, _ = io.WriteString(w, c.body)
		}))
		t.Cleanup(server.Close)
		d := definition(server.URL + "/crm?key=k")
		d.Lookup, d.Kind = true, tool.KindRead
		r, err := tool.New(nil, []tool.Spec{caller(http.DefaultTransport).Spec(d)})
		require.NoError(t, err)
		res, found, err := r.Lookup(t.Context(), toolCall())
		if c.fault {
			require.Equal(t, host.ClassServer, fault(t, err).Class)
		} else {
			require.NoError(t, err)
		}
		require.Equal(t, c.found, found, c.status)
		require.Equal(t, c.want, res)
		req := <-got
		require.Equal(t, http.MethodGet, req.Method)
		require.Equal(t, "key=k&operation=op_7", req.URL.RawQuery)
		require.Equal(t, toolhttp.Sign("s3cret", now, "op_7"), req.Header.Get("X-Perdure-Signature"))
	}
	require.Nil(t, caller(nil).Spec(definition("http://x")).Lookup)
}

// set is what a tenant has set up.
type set []tool.Spec

func (s set) OutsideTools(context.Context, ident.TenantID) ([]tool.Spec, error) { return s, nil }

func TestADefinitionThatCannotBeUsedIsQuarantined(t *testing.T) {
	t.Parallel()
	var specs set
	var cfg session.Config
	for i, c := range []struct {
		change func(*outside.Definition)
		says   string
	}{
		{func(d *outside.Definition) { d.URL = "ftp://example.com" }, "neither http nor https"},
		{func(d *outside.Definition) { d.URL = "https://" }, "no host"},
		{func(d *outside.Definition) { d.URL = "https://user:pw@example.com" }, "credential"},
		{func(d *outside.Definition) { d.URL = "https://example.com/#x" }, "fragment"},
		{func(d *outside.Definition) { d.URL = "https://example.com/" + strings.Repeat("x", 3000) }, "allowed are 2048"},
		{func(d *outside.Definition) { d.URL = "https://exa mple/%zz" }, "cannot be read"},
		{func(d *outside.Definition) { d.Kind = tool.KindAgent }, "kind"},
		{func(d *outside.Definition) { d.Completion = "" }, "completion"},
		{func(d *outside.Definition) { d.TimeoutSeconds = -1 }, "timeoutSeconds"},
		{func(d *outside.Definition) { d.TimeoutSeconds = 366 * 86400 }, "timeoutSeconds"},
		{func(d *outside.Definition) { d.Description = "" }, "description"},
		{func(d *outside.Definition) { d.Parameters = `{}` }, "parameters"},
		{func(d *outside.Definition) { d.ResultSchema = `{"type":"strin"}` }, "resultSchema"},
	} {
		d := definition("https://example.com")
		d.Name = fmt.Sprintf("bad.t%02d", i)
		c.change(&d)
		spec := caller(nil).Spec(d)
		require.ErrorContains(t, spec.Invalid, c.says)
		specs = append(specs, spec)
	}
	specs = append(specs, caller(nil).Spec(definition("https://example.com")))
	r, err := tool.New(specs)
	require.NoError(t, err)
	cfg.Tools = []session.ToolGrant{{Name: "bad.*"}, {Name: "crm.*"}}
	offer, err := r.Offer(t.Context(), host.Key{Tenant: "acme", Session: "s1"}, cfg)
	require.NoError(t, err)
	require.Len(t, offer, 1)
	require.Equal(t, "crm_update", offer[0].Def.WireName)
	bad, err := r.Quarantined(t.Context(), "acme")
	require.NoError(t, err)
	require.Len(t, bad, len(specs)-1)
}

func FuzzAnswer(f *testing.F) {
	for _, body := range []string{`{"result":1}`, `{"error":"x"}`, `{"result":{},"effects":[{"kind":"a","subject":"b"}]}`, `[]`, `{"effects":1}`} {
		f.Add(200, body)
	}
	f.Fuzz(func(t *testing.T, status int, body string) {
		transport := answering(func() *http.Response {
			return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body))}
		})
		res, err := call(t, caller(transport), definition("http://example.com"))
		if err != nil {
			require.NotEmpty(t, fault(t, err).Class)
			return
		}
		_, err = json.Marshal(res.Text)
		require.NoError(t, err)
		require.True(t, res.Accepted || res.Error || status == http.StatusOK)
	})
}

type answering func() *http.Response

func (a answering) RoundTrip(*http.Request) (*http.Response, error) { return a(), nil }
