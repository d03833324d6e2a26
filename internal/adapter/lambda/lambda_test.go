package lambda_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/internal/adapter/lambda"
	"github.com/perdure/perdure/internal/adapter/lambda/lambdatest"
	"github.com/perdure/perdure/internal/host"
	"github.com/perdure/perdure/localstack/target"
)

func payload(do string, with any) []byte {
	text, err := json.Marshal(map[string]any{"operationId": "op_7", "arguments": map[string]any{"do": do, "with": with}})
	if err != nil {
		panic(err)
	}
	return text
}

func fault(t *testing.T, err error) *host.Fault {
	t.Helper()
	var f *host.Fault
	require.ErrorAs(t, err, &f)
	return f
}

func TestAFunctionIsInvoked(t *testing.T) {
	t.Parallel()
	at := target.Get(t)
	name, arn := lambdatest.Deploy(t, at.Config, at.Can.Arch)
	i := lambda.Open(at.Config)

	t.Run("ByNameAndByARN", func(t *testing.T) {
		t.Parallel()
		for _, function := range []string{name, arn, name + ":$LATEST"} {
			sent := payload("echo", "é\u2028\U0001f600")
			answer, failed, err := i.Invoke(t.Context(), function, sent)
			require.NoError(t, err, function)
			require.False(t, failed)
			require.JSONEq(t, string(sent), string(answer))
		}
	})
	t.Run("OneMegabyteComesBack", func(t *testing.T) {
		t.Parallel()
		answer, failed, err := i.Invoke(t.Context(), name, payload("large", 1<<20))
		require.NoError(t, err)
		require.False(t, failed)
		require.Len(t, answer, 1<<20+2)
	})
	t.Run("WhatItFailsWith", func(t *testing.T) {
		t.Parallel()
		answer, failed, err := i.Invoke(t.Context(), name, payload("fail", nil))
		require.NoError(t, err)
		require.True(t, failed)
		require.Contains(t, string(answer), "no such customer")
	})
	t.Run("ACrashIsAFailure", func(t *testing.T) {
		t.Parallel()
		answer, failed, err := i.Invoke(t.Context(), name, payload("exit", nil))
		require.NoError(t, err)
		require.True(t, failed)
		require.Contains(t, string(answer), "Runtime.ExitError")
	})
	t.Run("ItsOwnTimeoutIsAFailure", func(t *testing.T) {
		t.Parallel()
		answer, failed, err := i.Invoke(t.Context(), name, payload("sleep", nil))
		require.NoError(t, err)
		require.True(t, failed)
		require.Contains(t, string(answer), "timed out")
	})
	t.Run("AFunctionThatIsNotThere", func(t *testing.T) {
		t.Parallel()
		_, _, err := i.Invoke(t.Context(), "no-such-function", payload("echo", nil))
		f := fault(t, err)
		require.Equal(t, host.ClassNotFound, f.Class)
		require.False(t, f.Sent)
		require.Contains(t, f.Message, "no-such-function")
	})
}

// config reaches a server of the test's own.
func config(url string, client aws.HTTPClient) aws.Config {
	return aws.Config{
		Region: "us-east-1", Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""), BaseEndpoint: &url, HTTPClient: client,
	}
}

// serve counts the requests that it answers.
func serve(t *testing.T, handler http.HandlerFunc) (url string, seen *atomic.Int64) {
	t.Helper()
	seen = new(atomic.Int64)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		seen.Add(1)
		handler(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL, seen
}

// TestT36AClientThatLosesPatienceInvokesOnce: the SDKs of AWS repeat an
// invocation whose answer they no longer wait for, and the function runs again.
// This one waits longer than any function may run, and repeats nothing.
func TestT36AClientThatLosesPatienceInvokesOnce(t *testing.T) {
	t.Parallel()
	t.Run("ItOutlastsEveryFunction", func(t *testing.T) {
		t.Parallel()
		// As the clients of a function are set that has short answers in mind.
		cfg := config("http://127.0.0.1:1", awshttp.NewBuildableClient().WithTimeout(time.Second).WithTransportOptions(func(tr *http.Transport) {
			tr.ResponseHeaderTimeout = time.Second
		}))
		cfg.RetryMaxAttempts = 4
		o := lambda.Open(cfg).Options()
		require.Equal(t, 1, o.Retryer.MaxAttempts())
		client, ok := o.HTTPClient.(*awshttp.BuildableClient)
		require.True(t, ok)
		require.Greater(t, client.GetTimeout(), lambda.FunctionMost)
		require.Zero(t, client.GetTransport().ResponseHeaderTimeout)
		require.Positive(t, client.GetDialer().KeepAlive)
	})
	t.Run("AnAnswerThatDoesNotComeInTime", func(t *testing.T) {
		t.Parallel()
		got, release := make(chan struct{}), make(chan struct{})
		url, seen := serve(t, func(_ http.ResponseWriter, r *http.Request) {
			close(got)
			<-release
		})
		t.Cleanup(func() { close(release) })
		// A client loses patience when the function is at work.
		impatient := doer(func(r *http.Request) (*http.Response, error) {
			go func() { _, _ = http.DefaultTransport.RoundTrip(r) }()
			<-got
			return nil, os.ErrDeadlineExceeded
		})
		_, _, err := lambda.Open(config(url, impatient)).Invoke(t.Context(), "f", payload("echo", nil))
		f := fault(t, err)
		require.Equal(t, host.ClassTimeout, f.Class)
		require.True(t, f.Sent, "the function may have run")
		require.EqualValues(t, 1, seen.Load())
	})
	t.Run("AConnectionThatIsLost", func(t *testing.T) {
		t.Parallel()
		url, seen := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err == nil {
				_ = conn.Close()
			}
		})
		_, _, err := lambda.Open(config(url, nil)).Invoke(t.Context(), "f", payload("echo", nil))
		f := fault(t, err)
		require.Equal(t, host.ClassNetwork, f.Class)
		require.True(t, f.Sent)
		require.EqualValues(t, 1, seen.Load())
	})
	for _, status := range []int{429, 500, 502, 503} {
		t.Run(fmt.Sprintf("AnAnswerOf%d", status), func(t *testing.T) {
			t.Parallel()
			url, seen := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("X-Amzn-Errortype", "ServiceException")
				w.WriteHeader(status)
			})
			_, _, err := lambda.Open(config(url, nil)).Invoke(t.Context(), "f", payload("echo", nil))
			require.Error(t, err)
			require.EqualValues(t, 1, seen.Load())
		})
	}
}

type doer func(*http.Request) (*http.Response, error)

func (d doer) Do(r *http.Request) (*http.Response, error) { return d(r) }

func TestWhatLambdaRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status     int
		code       string
		class      string
		sent       bool
		retryAfter int64
		says       string
	}{
		{429, "TooManyRequestsException", host.ClassRateLimit, false, 2000, "no room"},
		{403, "AccessDeniedException", host.ClassAccess, false, 0, "lambda:InvokeFunction"},
		{404, "ResourceNotFoundException", host.ClassNotFound, false, 0, "no such function"},
		{413, "RequestTooLargeException", host.ClassInvalid, false, 0, "too large"},
		{409, "ResourceConflictException", host.ClassServer, false, 0, "not ready"},
		{502, "EFSIOException", host.ClassServer, true, 0, "EFSIOException"},
		{500, "ServiceException", host.ClassServer, true, 0, "Lambda failed"},
		{400, "SomethingNewException", host.ClassInvalid, false, 0, "SomethingNewException"},
		{503, "", host.ClassServer, true, 0, ""},
	} {
		url, _ := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			if c.code != "" {
				w.Header().Set("X-Amzn-Errortype", c.code)
			}
			w.Header().Set("Retry-After", "2")
			w.WriteHeader(c.status)
			_, _ = io.WriteString(w, `{"Message":"as injected"}`)
		})
		_, _, err := lambda.Open(config(url, nil)).Invoke(t.Context(), "the-function", payload("echo", nil))
		f := fault(t, err)
		require.Equal(t, c.class, f.Class, c.code)
		require.Equal(t, c.sent, f.Sent, c.code)
		require.Equal(t, c.retryAfter, f.RetryAfterMs, c.code)
		require.Contains(t, f.Message, c.says)
		require.Contains(t, f.Message, "the-function")
	}
}

func TestWhatDoesNotReachLambda(t *testing.T) {
	t.Parallel()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	_, _, err = lambda.Open(config("http://"+listener.Addr().String(), nil)).Invoke(t.Context(), "f", payload("echo", nil))
	f := fault(t, err)
	require.Equal(t, host.ClassNetwork, f.Class)
	require.False(t, f.Sent)
}

func TestACallThatIsStopped(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	url, _ := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		cancel(errors.New("enough"))
		<-r.Context().Done()
	})
	_, _, err := lambda.Open(config(url, nil)).Invoke(ctx, "f", []byte(strings.Repeat(" ", 10)+"{}"))
	f := fault(t, err)
	require.Equal(t, host.ClassStopped, f.Class)
	require.True(t, f.Sent)
	require.ErrorIs(t, err, context.Canceled)
}
