package host_test

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"
	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/localstack/target"
)

// https://docs.aws.amazon.com/lambda/latest/dg/configuration-response-streaming.html
var ofURLs = map[string]func(*testing.T, *aWorld){
	"a stream comes while it is written":                streams,
	"a stream that breaks off ends abnormally":          breaks,
	"a timeout in the midst of a stream breaks it":      streamTimesOut,
	"a client that leaves does not stop the function":   leaves,
	"an error before the stream is a bad gateway":       failsBefore,
	"an answer of one piece comes through a stream too": whole,
	"a stream is collected where that is asked for":     collected,
	"a refusal has its status":                          refused,
}

func streams(t *testing.T, w *aWorld) {
	f, g := w.function(t, settings{timeout: 120}), newGate(t)
	warm := f.answer(t, event{}).PID
	response := f.request(t, f.url(t, types.InvokeModeResponseStream), event{"stream": event{"pieces": []string{"", "first\n", "last\n"}, "wait": g.url}})
	// Each is read while the function waits: nothing that comes later can be in it.
	require.Equal(t, http.StatusCreated, response.StatusCode)
	require.Equal(t, "text/plain", response.Header.Get("Content-Type"))
	require.Equal(t, "yes", response.Header.Get("X-Own"))
	require.Equal(t, []string{"a=1", "b=2"}, response.Header.Values("Set-Cookie"))
	g.arrived(t)
	g.pass()
	body := bufio.NewReader(response.Body)
	first, err := body.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "first\n", first)
	g.arrived(t)
	g.pass()
	rest, err := io.ReadAll(body)
	require.NoError(t, err)
	require.Equal(t, "last\n", string(rest))
	f.stays(t, warm)
}

// stays sees that a process takes invocations still. Its environment is free a
// moment after the client has the end of a stream; until then another is started.
func (f *function) stays(t *testing.T, pid int) {
	t.Helper()
	require.Eventually(t, func() bool { return f.answer(t, event{}).PID == pid }, ceiling, pause)
}

func breaks(t *testing.T, w *aWorld) {
	f := w.function(t, settings{})
	warm := f.answer(t, event{}).PID
	response := f.request(t, f.url(t, types.InvokeModeResponseStream), event{"stream": event{"pieces": []string{"first\n"}, "fail": true}})
	require.Equal(t, http.StatusCreated, response.StatusCode)
	got, err := io.ReadAll(response.Body)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.Equal(t, "first\n", string(got))
	f.stays(t, warm)
}

func streamTimesOut(t *testing.T, w *aWorld) {
	f, g := w.function(t, settings{timeout: 4}), newGate(t)
	response := f.request(t, f.url(t, types.InvokeModeResponseStream), event{"stream": event{"pieces": []string{"first\n", "never"}, "wait": g.url}})
	got, err := io.ReadAll(response.Body)
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	require.Equal(t, "first\n", string(got))
	w.logged(t, f.group(), "Task timed out after 4.00 seconds")
}

func leaves(t *testing.T, w *aWorld) {
	f, g := w.function(t, settings{timeout: 120}), newGate(t)
	warm := f.answer(t, event{}).PID
	response := f.request(t, f.url(t, types.InvokeModeResponseStream), event{"stream": event{"pieces": []string{"first\n", "second\n", "last\n"}, "wait": g.url}})
	g.arrived(t)
	require.NoError(t, response.Body.Close())
	g.pass()
	g.arrived(t)
	g.pass()
	f.stays(t, warm)
}

func failsBefore(t *testing.T, w *aWorld) {
	f := w.function(t, settings{})
	at := f.url(t, types.InvokeModeResponseStream)
	for _, e := range []event{{"fail": "no"}, {"exit": 1}} {
		response := f.request(t, at, e)
		require.Equal(t, http.StatusBadGateway, response.StatusCode)
		require.Equal(t, "Internal Server Error", text(t, response))
	}
}

func whole(t *testing.T, w *aWorld) {
	f := w.function(t, settings{})
	for _, mode := range []types.InvokeMode{types.InvokeModeResponseStream, types.InvokeModeBuffered} {
		response := f.request(t, f.url(t, mode), event{"cookie": "c=3"})
		require.Equal(t, http.StatusOK, response.StatusCode)
		require.Equal(t, []string{"c=3"}, response.Header.Values("Set-Cookie"))
		require.Equal(t, "answer", text(t, response))
	}
}

func collected(t *testing.T, w *aWorld) {
	f := w.function(t, settings{})
	binary := "first \u00ff\n"
	asked := event{"stream": event{"pieces": []string{binary, "last\n"}}}
	response := f.request(t, f.url(t, types.InvokeModeBuffered), asked)
	require.Equal(t, http.StatusCreated, response.StatusCode)
	require.Equal(t, binary+"last\n", text(t, response))
	got := f.invoke(t, asked)
	require.Empty(t, got.failed)
	head, body, found := strings.Cut(string(got.payload), strings.Repeat("\x00", 8))
	require.True(t, found)
	require.JSONEq(t, `{"statusCode":201,"headers":{"Content-Type":"text/plain","X-Own":"yes"},"cookies":["a=1","b=2"]}`, head)
	require.Equal(t, binary+"last\n", body)
	asked["stream"].(event)["fail"] = true
	require.Equal(t, failure{Type: "errorString", Message: "broken off"}, f.invoke(t, asked).failure(t))
}

func refused(t *testing.T, w *aWorld) {
	f := w.function(t, settings{})
	for _, mode := range []types.InvokeMode{types.InvokeModeResponseStream, types.InvokeModeBuffered} {
		at := f.url(t, mode)
		require.Equal(t, http.StatusRequestEntityTooLarge, f.request(t, at, event{"x": strings.Repeat("y", 6*1024*1024)}).StatusCode)
	}
	_, err := w.lambda.PutFunctionConcurrency(t.Context(), &lambda.PutFunctionConcurrencyInput{FunctionName: &f.name, ReservedConcurrentExecutions: aws.Int32(0)})
	require.NoError(t, err)
	for _, mode := range []types.InvokeMode{types.InvokeModeResponseStream, types.InvokeModeBuffered} {
		require.Equal(t, http.StatusTooManyRequests, f.request(t, f.url(t, mode), event{}).StatusCode)
	}
}

// url makes a URL for the function, or changes the mode of the one that it has.
func (f *function) url(t *testing.T, mode types.InvokeMode) string {
	t.Helper()
	made, err := f.w.lambda.CreateFunctionUrlConfig(t.Context(), &lambda.CreateFunctionUrlConfigInput{FunctionName: &f.name, AuthType: types.FunctionUrlAuthTypeNone, InvokeMode: mode})
	if err == nil {
		return *made.FunctionUrl
	}
	changed, err := f.w.lambda.UpdateFunctionUrlConfig(t.Context(), &lambda.UpdateFunctionUrlConfigInput{FunctionName: &f.name, InvokeMode: mode})
	require.NoError(t, err)
	return *changed.FunctionUrl
}

func (f *function) request(t *testing.T, at string, e event) *http.Response {
	t.Helper()
	where, err := url.Parse(at)
	require.NoError(t, err)
	body, err := json.Marshal(e)
	require.NoError(t, err)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.w.Endpoint+"/some/path", strings.NewReader(string(body)))
	require.NoError(t, err)
	request.Host = where.Host
	request.Header.Set("Content-Type", "application/json")
	client := target.HTTP()
	t.Cleanup(client.CloseIdleConnections)
	response, err := client.Do(request)
	require.NoError(t, err)
	t.Cleanup(func() { _ = response.Body.Close() })
	return response
}

func text(t *testing.T, response *http.Response) string {
	t.Helper()
	got, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	return string(got)
}
