package target_test

import (
	"errors"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/internal/env"
	"github.com/perdure/perdure/localstack/target"
)

func TestTargetAnswers(t *testing.T) {
	t.Parallel()
	settings := target.AWS(t)

	queue, err := sqs.NewFromConfig(settings).CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: aws.String("target-test")})
	require.NoError(t, err)
	_, err = sqs.NewFromConfig(settings).SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: queue.QueueUrl, MessageBody: aws.String("m")})
	require.NoError(t, err)

	// An address for an endpoint makes the client put the bucket into the path.
	objects := s3.NewFromConfig(settings)
	_, err = objects.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: aws.String("target-test")})
	require.NoError(t, err)
	_, err = objects.PutObject(t.Context(), &s3.PutObjectInput{Bucket: aws.String("target-test"), Key: aws.String("a/b"), Body: strings.NewReader("x")})
	require.NoError(t, err)
}

// The emulator must not outlive a test binary that is killed: it holds memory
// and a port, and nobody would know of it.
func TestEmulatorEndsWithItsParent(t *testing.T) {
	t.Parallel()
	if os.Getenv("TARGET_TEST_CHILD") != "" {
		// The child of the parent below: it starts its emulator and hangs.
		_, _ = os.Stdout.WriteString("endpoint " + target.Get(t).Endpoint + "\n")
		select {}
	}
	target.Get(t) // what is missing here is missing there
	if os.Getenv(env.AWSEndpoint) != "" {
		t.Skip("the target is given, and is not ours to start")
	}
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestEmulatorEndsWithItsParent$", "-test.timeout", "5m")
	child.Env = append(os.Environ(), "TARGET_TEST_CHILD=1")
	out, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	endpoint := ""
	buffer := make([]byte, 4096)
	for endpoint == "" {
		n, err := out.Read(buffer)
		require.NoError(t, err)
		for line := range strings.Lines(string(buffer[:n])) {
			endpoint, _ = strings.CutPrefix(strings.TrimSpace(line), "endpoint ")
		}
	}
	require.True(t, answers(t, endpoint))
	require.NoError(t, child.Process.Kill())
	require.Error(t, child.Wait())
	require.Eventually(t, func() bool { return !answers(t, endpoint) }, time.Minute, 50*time.Millisecond)
}

func answers(t *testing.T, endpoint string) bool {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, endpoint+"/_localstack/health", http.NoBody)
	require.NoError(t, err)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		return false
	}
	return errors.Join(response.Body.Close()) == nil && response.StatusCode == http.StatusOK
}
