package localstack_test

import (
	"archive/zip"
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"
	"github.com/stretchr/testify/require"
)

// urlStreams asks a function that writes a word, waits three seconds and writes
// another: the first one comes while the function runs, or both at its end.
func urlStreams(t *testing.T, w *world) bool {
	url := w.streamer(t)
	return w.streams(t, url) && w.streams(t, url+"/typed")
}

func (w *world) streams(t *testing.T, url string) bool {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	require.NoError(t, err)
	response, err := w.http.Do(request)
	require.NoError(t, err)
	defer response.Body.Close()
	require.Equal(t, http.StatusCreated, response.StatusCode)
	body := bufio.NewReader(response.Body)
	first, err := body.ReadString('\n')
	require.NoError(t, err)
	came := time.Now()
	rest, err := io.ReadAll(body)
	require.NoError(t, err)
	require.Equal(t, "first\nlast\n", first+string(rest))
	require.Equal(t, "text/plain", response.Header.Get("Content-Type"))
	return time.Since(came) > time.Second
}

// streamer makes a function of testdata/streamer and a URL for it.
func (w *world) streamer(t *testing.T) string {
	t.Helper()
	name := aws.String("perdure-probe-" + rand.Text())
	arch := map[string]types.Architecture{"arm64": types.ArchitectureArm64, "amd64": types.ArchitectureX8664}[w.Can.Arch]
	_, err := w.lambda.CreateFunction(t.Context(), &lambda.CreateFunctionInput{
		FunctionName: name, Runtime: types.RuntimeProvidedal2023, Handler: aws.String("bootstrap"), Role: aws.String(w.out["Role"]),
		Architectures: []types.Architecture{arch}, Timeout: aws.Int32(30), Code: &types.FunctionCode{ZipFile: w.zip(t)},
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := w.lambda.DeleteFunction(context.WithoutCancel(t.Context()), &lambda.DeleteFunctionInput{FunctionName: name})
		require.NoError(t, err)
	})
	made, err := w.lambda.CreateFunctionUrlConfig(t.Context(), &lambda.CreateFunctionUrlConfigInput{
		FunctionName: name, AuthType: types.FunctionUrlAuthTypeNone, InvokeMode: types.InvokeModeResponseStream,
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
	ready := lambda.NewFunctionActiveV2Waiter(w.lambda, func(o *lambda.FunctionActiveV2WaiterOptions) { o.MinDelay = 100 * time.Millisecond })
	require.NoError(t, ready.Wait(t.Context(), &lambda.GetFunctionInput{FunctionName: name}, ceiling))
	url, err := w.Reach(*made.FunctionUrl)
	require.NoError(t, err)
	return url
}

// zip builds the function for the target.
func (w *world) zip(t *testing.T) []byte {
	t.Helper()
	bootstrap := filepath.Join(t.TempDir(), "bootstrap")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", bootstrap, "./testdata/streamer")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+w.Can.Arch)
	said, err := build.CombinedOutput()
	require.NoError(t, err, "%s", said)
	code, err := os.ReadFile(bootstrap)
	require.NoError(t, err)
	return zipped(t, "bootstrap", code)
}

// zipped is a zip with one file that may be run.
func zipped(t *testing.T, name string, content []byte) []byte {
	t.Helper()
	var buffer bytes.Buffer
	archive := zip.NewWriter(&buffer)
	header := &zip.FileHeader{Name: name, Method: zip.Deflate}
	header.SetMode(0o755)
	entry, err := archive.CreateHeader(header)
	require.NoError(t, err)
	_, err = entry.Write(content)
	require.NoError(t, err)
	require.NoError(t, archive.Close())
	return buffer.Bytes()
}
