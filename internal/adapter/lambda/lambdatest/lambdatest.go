// Package lambdatest deploys a customer's function to whatever stands for AWS,
// for tests.
//
// The function does what the arguments of its call ask for, misbehaviour
// included: {"do": "echo|answer|large|fail|panic|exit|sleep", "with": …}. The
// package is linked into tests only, and may import the standard library,
// testify and the AWS SDK.
package lambdatest

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/rand"
	_ "embed"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awslambda "github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"
	"github.com/stretchr/testify/require"
)

//go:embed testdata/main.go
var source []byte

// Timeout of the function, in seconds.
const Timeout = 3

// ready is a ceiling for what takes a moment.
const ready = 2 * time.Minute

// Deploy builds the function for an architecture, in Go's words, and creates it.
// It returns its name and its ARN. It goes with the test.
func Deploy(t *testing.T, cfg aws.Config, arch string) (name, arn string) {
	t.Helper()
	if cfg.BaseEndpoint == nil {
		t.Skip("a function on AWS itself needs a role, which this test does not make")
	}
	client := awslambda.NewFromConfig(cfg)
	name = "customer-" + strings.ToLower(rand.Text())
	architecture := types.ArchitectureX8664
	if arch == "arm64" {
		architecture = types.ArchitectureArm64
	}
	made, err := client.CreateFunction(t.Context(), &awslambda.CreateFunctionInput{
		FunctionName: &name, Runtime: types.RuntimeProvidedal2023, Handler: aws.String("bootstrap"), Timeout: aws.Int32(Timeout),
		Role: aws.String("arn:aws:iam::000000000000:role/customer"), Architectures: []types.Architecture{architecture},
		Code: &types.FunctionCode{ZipFile: build(t, arch)},
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := client.DeleteFunction(context.WithoutCancel(t.Context()), &awslambda.DeleteFunctionInput{FunctionName: &name})
		require.NoError(t, err)
	})
	require.NoError(t, awslambda.NewFunctionActiveV2Waiter(client).Wait(t.Context(), &awslambda.GetFunctionInput{FunctionName: &name}, ready))
	return name, *made.FunctionArn
}

// build makes the function's archive.
func build(t *testing.T, arch string) []byte {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "main.go"), source, 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module customer\n"), 0o600))
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags=-s -w", "-o", "bootstrap", ".")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH="+arch, "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	binary, err := os.ReadFile(filepath.Join(dir, "bootstrap"))
	require.NoError(t, err)
	var archive bytes.Buffer
	w := zip.NewWriter(&archive)
	header := &zip.FileHeader{Name: "bootstrap", Method: zip.Deflate}
	header.SetMode(0o755)
	f, err := w.CreateHeader(header)
	require.NoError(t, err)
	_, err = f.Write(binary)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return archive.Bytes()
}
