package openai

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/internal/adapter/openai/openaitest"
	"github.com/perdure/perdure/internal/host"
)

// refusedWith has a server answer with a status and a body.
func refusedWith(t *testing.T, reply openaitest.Reply) *host.Fault {
	t.Helper()

	server := openaitest.New(t)
	server.Enqueue(reply)

	m, err := New(Config{Name: "p", BaseURL: server.URL, APIKey: "sk-own-0123456789"})
	require.NoError(t, err)

	req := host.ModelRequest{Messages: []host.ModelMessage{{Role: host.RoleUser}}}
	req.Model.Model = "m"

	_, err = m.Generate(t.Context(), req, func(host.Delta) {})

	var f *host.Fault

	require.ErrorAs(t, err, &f)
	require.True(t, f.Sent)
	require.Len(t, server.Requests(), 1, "nothing is retried here")
	require.True(t, utf8.ValidString(f.Message))
	require.LessOrEqual(t, len(f.Message), messageBytesMax)
	require.True(t, strings.HasPrefix(f.Message, "p: status "+strconv.Itoa(reply.Status)+": "), f.Message)

	return f
}

func TestRefusalsAreSorted(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		status int
		body   string
		class  string
		says   string
	}{
		"key":                   {401, `{"error":{"message":"Incorrect API key provided: sk-own-0123456789. Or sk-abcdefghijklmnop, Bearer xyz.","type":"invalid_request_error","code":"invalid_api_key"}}`, host.ClassAuthentication, "provided: [redacted]. Or [redacted], Bearer [redacted]"},
		"access":                {403, `{"error":{"message":"Country not supported"}}`, host.ClassAccess, "Country"},
		"model":                 {404, `{"error":{"message":"The model 'm' does not exist","code":"model_not_found"}}`, host.ClassNotFound, "does not exist"},
		"rate":                  {429, `{"error":{"message":"Rate limit reached for m on requests per min. Add a payment method at /account/billing","type":"requests","code":"rate_limit_exceeded"}}`, host.ClassRateLimit, "Rate limit"},
		"quota":                 {429, `{"error":{"message":"You exceeded your current quota, please check your plan and billing details.","type":"insufficient_quota","code":"insufficient_quota"}}`, host.ClassQuota, "quota"},
		"quota in an array":     {429, `[{"error":{"code":429,"message":"You exceeded your current quota","status":"RESOURCE_EXHAUSTED"}}]`, host.ClassQuota, "quota"},
		"more than a minute":    {429, `{"error":{"message":"Request too large for m on tokens per min (TPM): Limit 30000, Requested 50000.","code":"rate_limit_exceeded"}}`, host.ClassContextLength, "too large"},
		"credits":               {402, `{"error":{"message":"Insufficient credits","code":402}}`, host.ClassQuota, "credits"},
		"length":                {400, `{"error":{"message":"This model's maximum context length is 8192 tokens.","code":"context_length_exceeded"}}`, host.ClassContextLength, "8192"},
		"length of llama.cpp":   {400, `{"error":{"code":400,"message":"the request exceeds the available context size. try increasing it","type":"exceed_context_size_error"}}`, host.ClassContextLength, "exceeds"},
		"length of vLLM":        {400, `{"object":"error","message":"This model's maximum context length is 4096 tokens","type":"BadRequestError","param":null,"code":400}`, host.ClassContextLength, "4096"},
		"length as an accident": {500, `{"error":"input exceeds the context window"}`, host.ClassContextLength, "window"},
		"body":                  {413, `<html><h1>413</h1></html>`, host.ClassContextLength, "Too Large"},
		"filter":                {400, `{"error":{"message":"The response was filtered","code":"content_filter"}}`, host.ClassContentFilter, "filtered"},
		"shape":                 {400, `{"error":{"message":"Invalid value for 'temperature'","param":"temperature"}}`, host.ClassInvalid, "temperature"},
		"shape of FastAPI":      {422, `{"detail":[{"loc":["body","messages"],"msg":"field required"}]}`, host.ClassInvalid, "field required"},
		"behind a gateway":      {400, `{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"no such voice","provider_name":"x"}}}`, host.ClassInvalid, "Provider returned error: no such voice"},
		"request timeout":       {408, ``, host.ClassTimeout, "Request Timeout"},
		"gateway timeout":       {504, `<html>504</html>`, host.ClassTimeout, "Gateway Timeout"},
		"proxy timeout":         {524, ``, host.ClassTimeout, ""},
		"conflict":              {409, `{"error":"lock"}`, host.ClassServer, "lock"},
		"server":                {500, `oh no`, host.ClassServer, "oh no"},
		"gateway":               {502, `<html>Bad Gateway</html>`, host.ClassServer, "Bad Gateway"},
		"unavailable":           {503, `{"error":{"message":"Loading model","type":"unavailable_error","code":503}}`, host.ClassServer, "Loading"},
		"overloaded":            {529, `{"error":{"type":"overloaded_error","message":"Overloaded"}}`, host.ClassServer, "Overloaded"},
		"redirect":              {302, ``, host.ClassOther, "redirect"},
		"long and broken":       {400, "\xff" + strings.Repeat("ü", 90_000), host.ClassInvalid, "üüü"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			reply := openaitest.Reply{Status: c.status, Body: c.body, ContentType: "application/json"}
			f := refusedWith(t, reply)
			require.Equal(t, c.class, f.Class)
			require.Contains(t, f.Message, c.says)
			require.NotContains(t, f.Message, "sk-")
			require.Zero(t, f.RetryAfterMs)
		})
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		header map[string]string
		want   int64
	}{
		"seconds":        {map[string]string{"Retry-After": "7"}, 7000},
		"part of one":    {map[string]string{"Retry-After": "0.5"}, 500},
		"milliseconds":   {map[string]string{"Retry-After-Ms": "1234.5", "Retry-After": "7"}, 1235},
		"too long":       {map[string]string{"Retry-After": "86400"}, 60_000},
		"endless":        {map[string]string{"Retry-After": "inf"}, 60_000},
		"nonsense":       {map[string]string{"Retry-After": "soon"}, 0},
		"negative":       {map[string]string{"Retry-After": "-5"}, 0},
		"no number":      {map[string]string{"Retry-After": "NaN"}, 0},
		"a date to be":   {map[string]string{"Retry-After": time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)}, 60_000},
		"a date gone":    {map[string]string{"Retry-After": "Mon, 02 Jan 2006 15:04:05 GMT"}, 0},
		"nothing at all": {nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			reply := openaitest.Refuse(http.StatusTooManyRequests, "requests", "rate_limit_exceeded", "slow down")
			reply.Header = c.header
			f := refusedWith(t, reply)
			require.Equal(t, host.ClassRateLimit, f.Class)
			require.Equal(t, c.want, f.RetryAfterMs)
		})
	}
}

func TestWhatToDoAboutAKey(t *testing.T) {
	t.Parallel()

	for name, c := range map[string]struct {
		cfg  Config
		own  bool
		says string
	}{
		"refused":        {cfg: Config{APIKey: "sk-0123456789", KeyName: "THE_KEY"}, says: "the key is that of THE_KEY"},
		"missing":        {cfg: Config{KeyName: "THE_KEY"}, says: "set one as THE_KEY"},
		"never sent":     {cfg: Config{Compatible: true, KeyName: "THE_KEY"}, own: true, says: "set the server up as a provider"},
		"nothing to say": {cfg: Config{}, says: "Incorrect API key provided"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()

			server := openaitest.New(t)
			server.Enqueue(openaitest.Refuse(http.StatusUnauthorized, "invalid_request_error", "invalid_api_key", "Incorrect API key provided"))

			req := host.ModelRequest{Messages: []host.ModelMessage{{Role: host.RoleUser}}}
			req.Model.Model, req.Model.BaseURL = "m", server.URL

			if !c.own {
				c.cfg.BaseURL, req.Model.BaseURL = server.URL, ""
			}

			m, err := New(c.cfg)
			require.NoError(t, err)

			_, err = m.Generate(t.Context(), req, func(host.Delta) {})

			var f *host.Fault

			require.ErrorAs(t, err, &f)
			require.Equal(t, host.ClassAuthentication, f.Class)
			require.Contains(t, f.Message, c.says)
		})
	}
}

// A base URL that leads to somebody's home page is no trouble that passes.
func TestAPageIsNoAnswer(t *testing.T) {
	t.Parallel()

	server := openaitest.New(t)
	server.Enqueue(openaitest.Reply{Body: "<html>Welcome</html>", ContentType: "text/html; charset=utf-8"})

	m, err := New(Config{BaseURL: server.URL, Compatible: true})
	require.NoError(t, err)

	req := host.ModelRequest{Messages: []host.ModelMessage{{Role: host.RoleUser}}}
	req.Model.Model = "m"

	_, err = m.Generate(t.Context(), req, func(host.Delta) {})

	var f *host.Fault

	require.ErrorAs(t, err, &f)
	require.Equal(t, host.ClassNotFound, f.Class)
	require.Contains(t, f.Message, "base URL")
}

func TestACutConnectionIsANetworkFault(t *testing.T) {
	t.Parallel()

	server := openaitest.New(t)
	server.Enqueue(openaitest.Reply{Text: "half of", Chunks: 2, Cut: true}, openaitest.Reply{Text: "whole", NoDone: true, Finish: "-"})

	m, err := New(Config{Name: "p", BaseURL: server.URL})
	require.NoError(t, err)

	req := host.ModelRequest{Messages: []host.ModelMessage{{Role: host.RoleUser}}}
	req.Model.Model = "m"

	for _, text := range []string{"half of", "whole"} {
		res, err := m.Generate(t.Context(), req, func(host.Delta) {})

		var f *host.Fault

		require.ErrorAs(t, err, &f)
		require.Equal(t, host.ClassNetwork, f.Class)
		require.True(t, f.Sent)
		require.Equal(t, text, res.Text)
	}
}
