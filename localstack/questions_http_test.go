package localstack_test

import (
	"bufio"
	"bytes"
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

const apiGuide = "https://docs.aws.amazon.com/apigateway/latest/developerguide/"

// httpQuestions are about functions behind an address.
var httpQuestions = []question{
	{
		name: "http-api-failures", gap: "http-api-failures", needs: target.HTTPAPI, source: apiGuide + "http-api-troubleshooting-lambda.html",
		aws: "For a function that fails the answer is 500, for one at its limit of concurrency 503, and neither says more.",
		ask: func(t *testing.T, w *world) bool {
			w.limit(t, "Limited", 0)
			failed, text := w.get(t, "/does?fail=Stranger", http.NoBody)
			limited, _ := w.get(t, "/limited", http.NoBody)
			return failed == http.StatusInternalServerError && limited == http.StatusServiceUnavailable && !strings.Contains(text, "stranger")
		},
	},
	{
		name: "http-api-time", gap: "http-api-time", needs: target.HTTPAPI, source: apiGuide + "http-api-quotas.html",
		aws: "A function that takes longer than its integration allows, at most 30 s, goes on, and the answer is 503.",
		ask: func(t *testing.T, w *world) bool {
			status, _ := w.get(t, "/hurried?seconds=10", http.NoBody)
			return status == http.StatusServiceUnavailable
		},
	},
	{
		name: "http-api-sizes", gap: "http-api-sizes", needs: target.HTTPAPI, source: apiGuide + "http-api-quotas.html",
		aws: "A request over 10 MB is refused with 413.",
		ask: func(t *testing.T, w *world) bool {
			status, _ := w.get(t, "/limited", bytes.NewReader(make([]byte, 11<<20)))
			return status == http.StatusRequestEntityTooLarge
		},
	},
	{
		name: "url-address", gap: "url-address", source: lambdaGuide + "urls-invocation.html",
		aws: "A function URL is answered at the address that it says.",
		ask: func(t *testing.T, w *world) bool {
			said := w.address(t, map[string]string{}, types.InvokeModeBuffered)
			// Where it is found from here.
			here, err := w.Reach(said)
			require.NoError(t, err)
			if here != strings.TrimRight(said, "/") {
				return false
			}
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, said, http.NoBody)
			require.NoError(t, err)
			response, err := w.http.Do(request)
			require.NoError(t, err)
			require.NoError(t, response.Body.Close())
			return response.StatusCode == http.StatusOK
		},
	},
	{
		name: "url-streams", gap: "url-streams", ask: urlStreams, source: lambdaGuide + "configuration-response-streaming.html",
		aws: "A function URL with RESPONSE_STREAM hands on what the function writes while it writes it.",
	},
}

// address is the URL of a function that is made for a question alone.
func (w *world) address(t *testing.T, environment map[string]string, mode types.InvokeMode) string {
	t.Helper()
	name := w.function(t, environment)
	made, err := w.lambda.CreateFunctionUrlConfig(t.Context(), &lambda.CreateFunctionUrlConfigInput{
		FunctionName: name, AuthType: types.FunctionUrlAuthTypeNone, InvokeMode: mode,
	})
	require.NoError(t, err)
	_, err = w.lambda.AddPermission(t.Context(), &lambda.AddPermissionInput{
		FunctionName: name, StatementId: aws.String("url"), Action: aws.String("lambda:InvokeFunctionUrl"), Principal: aws.String("*"), FunctionUrlAuthType: types.FunctionUrlAuthTypeNone,
	})
	require.NoError(t, err)
	_, err = w.lambda.AddPermission(t.Context(), &lambda.AddPermissionInput{
		FunctionName: name, StatementId: aws.String("invoke"), Action: aws.String("lambda:InvokeFunction"), Principal: aws.String("*"), InvokedViaFunctionUrl: aws.Bool(true),
	})
	require.NoError(t, err)
	return *made.FunctionUrl
}

// urlStreams asks a function that writes a word, and goes on when who asked has
// it: or it comes only at the function's end.
func urlStreams(t *testing.T, w *world) bool {
	at, err := w.Reach(w.address(t, map[string]string{"STREAMS": "1"}, types.InvokeModeResponseStream))
	require.NoError(t, err)
	return w.streams(t, at+"/") && w.streams(t, at+"/typed")
}

func (w *world) streams(t *testing.T, at string) bool {
	t.Helper()
	queue := w.queue(t, "")
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at+"?wait="+url.QueryEscape(queue), http.NoBody)
	require.NoError(t, err)
	response, err := w.http.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	require.Equal(t, http.StatusCreated, response.StatusCode)
	require.Equal(t, "text/plain", response.Header.Get("Content-Type"))
	body := bufio.NewReader(response.Body)
	first, err := body.ReadString('\n')
	require.NoError(t, err)
	require.Equal(t, "first\n", first)
	require.NoError(t, w.put(t, queue, "go", "", ""))
	rest, err := io.ReadAll(body)
	require.NoError(t, err)
	return string(rest) == "true\n"
}
