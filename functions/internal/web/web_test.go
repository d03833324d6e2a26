package web_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"io"
	"io/fs"
	"net/http"
	"strings"
	"testing"

	lambdaevents "github.com/aws/aws-lambda-go/events"
	"github.com/aws/aws-lambda-go/lambdacontext"
	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/events"
	"github.com/perdure/perdure/functions/internal/web"
)

// gateway reads a sample invocation.
func gateway(t *testing.T, name string) *lambdaevents.APIGatewayV2HTTPRequest {
	t.Helper()
	data, err := fs.ReadFile(events.Files(), "invoke/"+name)
	require.NoError(t, err)
	var e lambdaevents.APIGatewayV2HTTPRequest
	require.NoError(t, json.Unmarshal(data, &e))
	return &e
}

// seen is what a handler was asked.
type seen struct {
	*http.Request

	body []byte
	id   string
}

// ask hands an event over and returns what the handler saw.
func ask(t *testing.T, e *lambdaevents.APIGatewayV2HTTPRequest) seen {
	t.Helper()
	var got seen
	_, err := web.Handler(func(w http.ResponseWriter, r *http.Request, id string) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		got = seen{r, body, id}
	})(lambdacontext.NewContext(t.Context(), &lambdacontext.LambdaContext{AwsRequestID: "req-1"}), e)
	require.NoError(t, err)
	return got
}

func TestARequestIsTheOneThatTheClientSent(t *testing.T) {
	t.Parallel()
	e := gateway(t, "api/list_events.json")
	e.Headers["x-multi"] = "a, b"
	e.Cookies = []string{"a=1", "b=2"}
	got := ask(t, e)
	require.Equal(t, http.MethodGet, got.Method)
	require.Equal(t, "/v1/sessions/triage-7/events", got.URL.Path)
	require.Equal(t, "after=0&limit=10", got.URL.RawQuery)
	require.Equal(t, "/v1/sessions/triage-7/events?after=0&limit=10", got.RequestURI)
	require.Equal(t, "a1b2c3d4e5.execute-api.eu-west-1.amazonaws.com", got.Host)
	require.Empty(t, got.Header.Values("Host"))
	require.Equal(t, []string{"a, b"}, got.Header.Values("X-Multi"), "a header is not split: commas are also in dates")
	require.Equal(t, "a=1; b=2", got.Header.Get("Cookie"))
	require.True(t, strings.HasPrefix(got.Header.Get("Authorization"), "Bearer pk_admin_"))
	require.Equal(t, "192.0.2.7:0", got.RemoteAddr)
	require.Equal(t, "req-1", got.id)
	require.Empty(t, got.body)
	require.Zero(t, got.ContentLength)
}

func TestPathsAndQueriesKeepTheirBytes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ raw, stage, path, escaped string }{
		{"/v1/a%3Ab/c", "$default", "/v1/a:b/c", "/v1/a%3Ab/c"},
		{"/v1/a%2Fb", "$default", "/v1/a/b", "/v1/a%2Fb"},
		// A gateway has unescaped these; the client sent %20, %25 and %C3%A9.
		{"/v1/a b", "$default", "/v1/a b", "/v1/a%20b"},
		{"/v1/100%.txt", "$default", "/v1/100%.txt", "/v1/100%25.txt"},
		{"/v1/é#?", "$default", "/v1/é#?", "/v1/%C3%A9%23%3F"},
		{"/prod/v1/me", "prod", "/v1/me", "/v1/me"},
		{"/production/me", "prod", "/production/me", "/production/me"},
		{"/prod", "prod", "/", "/"},
		{"", "$default", "/", "/"},
	} {
		e := gateway(t, "api/me.json")
		e.RawPath, e.RequestContext.Stage, e.RawQueryString = c.raw, c.stage, "q=a+b%20c&q=2&x=%ff"
		got := ask(t, e)
		require.Equal(t, c.path, got.URL.Path, c.raw)
		require.Equal(t, c.escaped, got.URL.EscapedPath(), c.raw)
		require.Equal(t, "q=a+b%20c&q=2&x=%ff", got.URL.RawQuery)
	}
}

// TestT70TheBodyIsCheckedByteForByte signs bodies as Slack and GitHub do, and
// verifies them behind the gateway, whatever it has made of them on the way.
func TestT70TheBodyIsCheckedByteForByte(t *testing.T) {
	t.Parallel()
	secret := []byte("shhh")
	bodies := map[string][]byte{
		"bytes":   {0xff, 0xfe, 0x00, 0x80, '\r', '\n', 0xc3, 0x28},
		"emoji":   []byte("text=\U0001F4DD+ok"),
		"form":    []byte("payload=%7B%22a%22%3A%20%22b+c%22%7D&x=%20y"),
		"json":    []byte("{\"a\":  \"\\u00e9\u00e9\\n\"}\n\n"),
		"bom":     []byte("\ufeff{}"),
		"nothing": {},
	}
	for name, body := range bodies {
		for _, header := range []string{"X-Perdure-Signature", "x-perdure-signature", "X-PERDURE-SIGNATURE", "x-pErDuRe-SiGnAtUrE"} {
			for _, encode := range []bool{true, false} {
				if !encode && name == "bytes" {
					continue // no gateway does that: such bytes are no text
				}
				mac := hmac.New(sha256.New, secret)
				mac.Write(body)
				e := gateway(t, "api/create_session.json")
				e.Headers[header] = hex.EncodeToString(mac.Sum(nil))
				e.Body, e.IsBase64Encoded = string(body), encode
				if encode {
					e.Body = base64.StdEncoding.EncodeToString(body)
				}
				got := ask(t, e)
				require.Equal(t, string(body), string(got.body), "%s %t", name, encode)
				require.Equal(t, int64(len(body)), got.ContentLength)
				again := hmac.New(sha256.New, secret)
				again.Write(got.body)
				require.Equal(t, got.Header.Get("X-Perdure-Signature"), hex.EncodeToString(again.Sum(nil)), "%s %s %t", name, header, encode)
			}
		}
	}
}

func TestBothFormsOfASampleAreTheSameRequest(t *testing.T) {
	t.Parallel()
	plain, coded := ask(t, gateway(t, "api/create_session.json")), ask(t, gateway(t, "api/create_session_base64.json"))
	require.True(t, json.Valid(plain.body))
	require.Equal(t, string(plain.body), string(coded.body))
	require.Equal(t, plain.Header, coded.Header)
}

func TestABodyThatIsNoBase64IsAnError(t *testing.T) {
	t.Parallel()
	e := gateway(t, "api/create_session.json")
	e.Body, e.IsBase64Encoded = "!", true
	_, err := web.Handler(func(http.ResponseWriter, *http.Request, string) { t.Error("it was served") })(t.Context(), e)
	require.ErrorContains(t, err, "no base64")
}

func answer(t *testing.T, serve http.HandlerFunc) *lambdaevents.APIGatewayV2HTTPResponse {
	t.Helper()
	out, err := web.Handler(func(w http.ResponseWriter, r *http.Request, _ string) { serve(w, r) })(t.Context(), gateway(t, "api/me.json"))
	require.NoError(t, err)
	return out
}

func TestAnAnswerIsWhatTheHandlerWrote(t *testing.T) {
	t.Parallel()
	out := answer(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", "12")
		w.Header().Add("Vary", "A")
		w.Header().Add("Vary", "B")
		w.Header().Add("Set-Cookie", "a=1; Path=/, x")
		w.Header().Add("Set-Cookie", "b=2")
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusCreated)
		w.WriteHeader(http.StatusTeapot)
		w.Header().Set("Late", "1")
		_, err := io.WriteString(w, "[1,2,3,\"é\"]")
		if err != nil {
			t.Error(err)
		}
	})
	require.Equal(t, http.StatusCreated, out.StatusCode)
	require.Equal(t, map[string]string{"Content-Type": "application/json", "Vary": "A, B"}, out.Headers)
	require.Equal(t, []string{"a=1; Path=/, x", "b=2"}, out.Cookies)
	require.Equal(t, "[1,2,3,\"é\"]", out.Body)
	require.False(t, out.IsBase64Encoded)

	require.Equal(t, http.StatusOK, answer(t, func(http.ResponseWriter, *http.Request) {}).StatusCode)
}

func TestAnAnswerTakesTheFormThatFits(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"bytes":  "\xff\xfe\x00",
		"quotes": strings.Repeat(`"`, 4<<20),
		"text":   strings.Repeat("abcdefgh", 600_000),
		"pages":  strings.Repeat(`{"a":"bcdefg"},`, 280_000),
	} {
		out := answer(t, func(w http.ResponseWriter, _ *http.Request) {
			if _, err := io.WriteString(w, body); err != nil {
				t.Error(err)
			}
		})
		require.Equal(t, http.StatusOK, out.StatusCode, name)
		got := []byte(out.Body)
		if out.IsBase64Encoded {
			var err error
			got, err = base64.StdEncoding.DecodeString(out.Body)
			require.NoError(t, err)
		}
		require.True(t, bytes.Equal([]byte(body), got), name)
		var wire bytes.Buffer
		enc := json.NewEncoder(&wire)
		enc.SetEscapeHTML(false)
		require.NoError(t, enc.Encode(out))
		require.Less(t, wire.Len(), 6<<20, name)
	}
	out := answer(t, func(w http.ResponseWriter, _ *http.Request) {
		if _, err := w.Write(make([]byte, 6<<20)); err != nil {
			t.Error(err)
		}
	})
	require.Equal(t, http.StatusInternalServerError, out.StatusCode)
	require.Contains(t, out.Body, "larger than a function may give")
}

// stream hands an event of a function URL to a streaming handler.
func stream(t *testing.T, serve http.HandlerFunc) *lambdaevents.LambdaFunctionURLStreamingResponse {
	t.Helper()
	data, err := fs.ReadFile(events.Files(), "invoke/stream/follow.json")
	require.NoError(t, err)
	var e lambdaevents.LambdaFunctionURLRequest
	require.NoError(t, json.Unmarshal(data, &e))
	out, err := web.Streamer(func(w http.ResponseWriter, r *http.Request, _ string) { serve(w, r) })(t.Context(), &e)
	require.NoError(t, err)
	return out
}

func TestAStreamIsHandedOnAsItIsWritten(t *testing.T) {
	t.Parallel()
	more := make(chan string)
	out := stream(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/sessions/triage-7/stream" || r.URL.RawQuery != "after=head" || r.Header.Get("Accept") != "text/event-stream" {
			t.Error(r.URL)
		}
		w.Header().Set("Content-Type", "text/event-stream")
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Error(err)
		}
		for piece := range more {
			if _, err := io.WriteString(w, piece); err != nil {
				t.Error(err)
			}
		}
	})
	require.Equal(t, http.StatusOK, out.StatusCode)
	require.Equal(t, "text/event-stream", out.Headers["Content-Type"])
	for _, piece := range []string{"event: ping\n\n", "id: 7\n\n"} {
		more <- piece
		got := make([]byte, len(piece))
		_, err := io.ReadFull(out.Body, got)
		require.NoError(t, err)
		require.Equal(t, piece, string(got))
	}
	close(more)
	rest, err := io.ReadAll(out.Body)
	require.NoError(t, err)
	require.Empty(t, rest)
	require.NoError(t, out.Close())
}

func TestAStreamThatNobodyTakesEndsItsHandler(t *testing.T) {
	t.Parallel()
	ended := make(chan error, 2)
	out := stream(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		<-r.Context().Done()
		_, err := io.WriteString(w, "x")
		ended <- err
		ended <- context.Cause(r.Context())
	})
	require.NoError(t, out.Close(), "it waits for the handler")
	require.Len(t, ended, 2)
	require.ErrorIs(t, <-ended, io.ErrClosedPipe)
	require.ErrorIs(t, <-ended, context.Canceled)
}

func TestAStreamThatBreaksOffDoesNotLookWhole(t *testing.T) {
	t.Parallel()
	out := stream(t, func(w http.ResponseWriter, _ *http.Request) {
		if _, err := io.WriteString(w, "half"); err != nil {
			t.Error(err)
		}
		panic("broken")
	})
	got, err := io.ReadAll(out.Body)
	require.Equal(t, "half", string(got))
	require.ErrorContains(t, err, "broke off")
	require.NoError(t, out.Close())

	// One that has not begun is a plain failure.
	out = stream(t, func(http.ResponseWriter, *http.Request) { panic("broken") })
	require.Equal(t, http.StatusInternalServerError, out.StatusCode)
	require.NoError(t, out.Close())
}
