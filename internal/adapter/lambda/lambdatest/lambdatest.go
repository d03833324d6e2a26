// Package lambdatest deploys functions to whatever stands for AWS, for tests.
//
// A customer's does what the arguments of its call ask for, misbehaviour
// included: {"do": "echo|answer|large|fail|panic|exit|sleep", "with": …}. A
// stand-in asks a server of the test. Each program is built once for a test
// binary. The package is linked into tests only, and may import the standard
// library, testify and the AWS SDK.
package lambdatest

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/rand"
	"embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awslambda "github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"
	"github.com/stretchr/testify/require"
)

//go:embed testdata
var sources embed.FS

// Timeouts of the functions, in seconds.
const (
	Timeout        = 3
	standInTimeout = 60
)

// ready is a ceiling for what takes a moment.
const ready = 2 * time.Minute

// Deploy builds the customer's function for an architecture, in Go's words, and
// creates it. It returns its name and its ARN. It goes with the test.
func Deploy(t *testing.T, cfg aws.Config, arch string) (name, arn string) {
	t.Helper()
	name = "customer-" + strings.ToLower(rand.Text())
	return name, create(t, cfg, program{"customer", arch}, &awslambda.CreateFunctionInput{FunctionName: &name, Timeout: aws.Int32(Timeout)})
}

// StandIn creates a function that posts each event to a URL, and does what that
// answers: {"answer": …} is its own answer, {"error": "Name"} the error that it
// fails with. It returns its ARN, and goes with the test.
func StandIn(t *testing.T, cfg aws.Config, arch, name, url string) (arn string) {
	t.Helper()
	return create(t, cfg, program{"standin", arch}, &awslambda.CreateFunctionInput{
		FunctionName: &name, Timeout: aws.Int32(standInTimeout),
		Environment: &types.Environment{Variables: map[string]string{"STAGE": url}},
	})
}

func create(t *testing.T, cfg aws.Config, p program, in *awslambda.CreateFunctionInput) (arn string) {
	t.Helper()
	if cfg.BaseEndpoint == nil {
		t.Skip("a function on AWS itself needs a role, which this test does not make")
	}
	code, err := archive(p)
	require.NoError(t, err)
	in.Runtime, in.Handler = types.RuntimeProvidedal2023, aws.String("bootstrap")
	in.Role, in.Code = aws.String("arn:aws:iam::000000000000:role/stand-in"), &types.FunctionCode{ZipFile: code}
	in.Architectures = []types.Architecture{types.ArchitectureX8664}
	if p.arch == "arm64" {
		in.Architectures[0] = types.ArchitectureArm64
	}
	client := awslambda.NewFromConfig(cfg)
	_, err = client.CreateFunction(t.Context(), in)
	if _, there := errors.AsType[*types.ResourceConflictException](err); there {
		err = nil // The first answer was lost, and the client has asked again: the name is ours.
	}
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := client.DeleteFunction(context.WithoutCancel(t.Context()), &awslambda.DeleteFunctionInput{FunctionName: in.FunctionName})
		require.NoError(t, err)
	})
	out, err := awslambda.NewFunctionActiveV2Waiter(client, func(o *awslambda.FunctionActiveV2WaiterOptions) {
		o.MinDelay, o.MaxDelay = 20*time.Millisecond, time.Second
	}).WaitForOutput(t.Context(), &awslambda.GetFunctionInput{FunctionName: in.FunctionName}, ready)
	require.NoError(t, err)
	return *out.Configuration.FunctionArn
}

// program is a folder below testdata, built for an architecture.
type program struct{ name, arch string }

// built has the archives of this test binary.
var built = struct {
	sync.Mutex

	archives map[program][]byte
}{archives: map[program][]byte{}}

// archive makes a program's archive, if nobody has.
func archive(p program) ([]byte, error) {
	built.Lock()
	defer built.Unlock()
	if code := built.archives[p]; code != nil {
		return code, nil
	}
	binary, err := build(p)
	if err != nil {
		return nil, err
	}
	var code bytes.Buffer
	w := zip.NewWriter(&code)
	header := &zip.FileHeader{Name: "bootstrap", Method: zip.Deflate}
	header.SetMode(0o755)
	f, err := w.CreateHeader(header)
	if err == nil {
		_, err = f.Write(binary)
	}
	if err = errors.Join(err, w.Close()); err != nil {
		return nil, err
	}
	built.archives[p] = code.Bytes()
	return code.Bytes(), nil
}

func build(p program) ([]byte, error) {
	source, err := sources.ReadFile("testdata/" + p.name + "/main.go")
	if err != nil {
		return nil, fmt.Errorf("%s has no source: %w", p.name, err)
	}
	dir, err := os.MkdirTemp("", "function-")
	if err != nil {
		return nil, fmt.Errorf("%s has nowhere to be built: %w", p.name, err)
	}
	defer func() { _ = os.RemoveAll(dir) }() // what is left is the system's to clear
	err = errors.Join(os.WriteFile(filepath.Join(dir, "main.go"), source, 0o600), os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module function\n"), 0o600))
	if err != nil {
		return nil, err
	}
	//nolint:forbidigo // what is built is every test's, and outlives the one that comes first
	cmd := exec.CommandContext(context.Background(), "go", "build", "-trimpath", "-ldflags=-s -w", "-o", "bootstrap", ".")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH="+p.arch, "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%s does not build: %w: %s", p.name, err, out)
	}
	binary, err := os.ReadFile(filepath.Join(dir, "bootstrap"))
	if err != nil {
		return nil, fmt.Errorf("%s was not built: %w", p.name, err)
	}
	return binary, nil
}
