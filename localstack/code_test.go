package localstack_test

import (
	"archive/zip"
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	lambdatypes "github.com/aws/aws-sdk-go-v2/service/lambda/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/stretchr/testify/require"
)

// codeKey is where the functions' code is in its bucket.
const codeKey = "probe.zip"

// bootstraps are what testdata/probe has been built to, by architecture.
var bootstraps struct {
	mu sync.Mutex
	of map[string][]byte
}

// bootstrap builds the program of all functions for an architecture, once.
func bootstrap(t *testing.T, arch string) []byte {
	t.Helper()
	bootstraps.mu.Lock()
	defer bootstraps.mu.Unlock()
	if program := bootstraps.of[arch]; program != nil {
		return program
	}
	path := filepath.Join(t.TempDir(), "bootstrap")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", path, "./testdata/probe")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch)
	said, err := build.CombinedOutput()
	require.NoError(t, err, "%s", said)
	program, err := os.ReadFile(path)
	require.NoError(t, err)
	if bootstraps.of == nil {
		bootstraps.of = map[string][]byte{}
	}
	bootstraps.of[arch] = program
	return program
}

// archive is the code of a function, with a word by which builds differ.
func (w *world) archive(t *testing.T, word string) []byte {
	t.Helper()
	return pack(t, []file{{"bootstrap", bootstrap(t, w.Can.Arch)}, {"word", []byte(word)}})
}

func (w *world) architecture() lambdatypes.Architecture {
	if w.Can.Arch == "arm64" {
		return lambdatypes.ArchitectureArm64
	}
	return lambdatypes.ArchitectureX8664
}

// upload puts the functions' code where a template finds it.
func (w *world) upload(t *testing.T) {
	t.Helper()
	w.code = w.name + "-code"
	in := &s3.CreateBucketInput{Bucket: &w.code}
	if region := w.Config.Region; region != "us-east-1" {
		in.CreateBucketConfiguration = &types.CreateBucketConfiguration{LocationConstraint: types.BucketLocationConstraint(region)}
	}
	_, err := w.s3.CreateBucket(t.Context(), in)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		_, err := w.s3.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &w.code, Key: aws.String(codeKey)})
		require.NoError(t, err)
		_, err = w.s3.DeleteBucket(ctx, &s3.DeleteBucketInput{Bucket: &w.code})
		require.NoError(t, err)
	})
	_, err = w.s3.PutObject(t.Context(), &s3.PutObjectInput{Bucket: &w.code, Key: aws.String(codeKey), Body: bytes.NewReader(w.archive(t, "old"))})
	require.NoError(t, err)
}

type file struct {
	name    string
	content []byte
}

// zipped is a zip with one file that may be run.
func zipped(t *testing.T, name string, content []byte) []byte {
	t.Helper()
	return pack(t, []file{{name, content}})
}

func pack(t *testing.T, files []file) []byte {
	t.Helper()
	var buffer bytes.Buffer
	archive := zip.NewWriter(&buffer)
	for _, f := range files {
		header := &zip.FileHeader{Name: f.name, Method: zip.Deflate}
		header.SetMode(0o755)
		entry, err := archive.CreateHeader(header)
		require.NoError(t, err)
		_, err = entry.Write(f.content)
		require.NoError(t, err)
	}
	require.NoError(t, archive.Close())
	return buffer.Bytes()
}
