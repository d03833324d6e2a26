package target_test

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/internal/adapter/lambda/lambdatest"
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

// A server must not outlive a test binary that is killed, nor must what it has
// started: it holds memory and a port, and nobody would know of it. A function is
// in the midst of an invocation then, and waits for an answer of this process.
func TestAServerEndsWithItsParent(t *testing.T) {
	t.Parallel()
	if stage := os.Getenv(childStage); stage != "" {
		hang(t, os.Getenv(childFunction), stage)
	}
	target.Get(t) // what is missing here is missing there
	if os.Getenv(env.AWSEndpoint) != "" {
		t.Skip("the target is given, and is not ours to start")
	}
	for name, end := range map[string]os.Signal{"killed": os.Kill, "interrupted": os.Interrupt} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			stage, running := silent(t)
			function := "hangs-" + strings.ToLower(rand.Text())
			child := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestAServerEndsWithItsParent$", "-test.timeout", "5m")
			child.Env = append(os.Environ(), childFunction+"="+function, childStage+"="+stage)
			out, err := child.StdoutPipe()
			require.NoError(t, err)
			require.NoError(t, child.Start())
			endpoint := said(t, out)
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				_, _ = io.Copy(io.Discard, out)
			}()
			select {
			case <-running:
			case <-ended:
				require.Fail(t, "the child ends before its function runs")
			}
			require.True(t, answers(t, endpoint))
			family := descendants(child.Process.Pid)
			if runtime.GOOS == "linux" {
				require.True(t, slices.ContainsFunc(family, func(id int) bool { return is(id, function) }), "the function's process is none of %v", family)
			}
			require.NoError(t, child.Process.Signal(end))
			require.Error(t, child.Wait())
			require.Eventually(t, func() bool { return !answers(t, endpoint) && len(living(family)) == 0 }, time.Minute, 50*time.Millisecond,
				"what outlives it: %v", living(family))
		})
	}
}

// What the test above tells its child: a function's name, and the URL that the
// function asks what to do.
const childFunction, childStage = "TARGET_TEST_FUNCTION", "TARGET_TEST_STAGE"

// hang is the child of the test above: it has its server start all that it
// starts, and waits for its end.
func hang(t *testing.T, function, stage string) {
	t.Helper()
	at := target.Get(t)
	_, err := dynamodb.NewFromConfig(at.Config).ListTables(t.Context(), &dynamodb.ListTablesInput{})
	require.NoError(t, err)
	lambdatest.StandIn(t, at.Config, at.Can.Arch, function, stage)
	_, _ = os.Stdout.WriteString("endpoint " + at.Endpoint + "\n")
	_, err = lambda.NewFromConfig(at.Config).Invoke(t.Context(), &lambda.InvokeInput{FunctionName: &function})
	require.NoError(t, err)
	require.Fail(t, "the invocation has ended before its server")
}

// silent is a server that is asked and never answers, until the test ends.
func silent(t *testing.T) (url string, asked <-chan struct{}) {
	t.Helper()
	first, over := make(chan struct{}, 1), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		select {
		case first <- struct{}{}:
		default: // it was asked before
		}
		<-over
	}))
	t.Cleanup(func() { close(over); server.Close() })
	return server.URL, first
}

// said reads where the child's server is.
func said(t *testing.T, out io.Reader) string {
	t.Helper()
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if endpoint, ok := strings.CutPrefix(lines.Text(), "endpoint "); ok {
			return endpoint
		}
	}
	require.NoError(t, lines.Err())
	require.Fail(t, "the child ends without a server")
	return ""
}

// descendants lists what a process has started, and what that has, as far as the
// system shows it.
func descendants(pid int) []int {
	var all []int
	entries, _ := os.ReadDir("/proc")
	for _, entry := range entries {
		id, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if parent, _ := status(id); parent == pid {
			all = append(append(all, id), descendants(id)...)
		}
	}
	return all
}

// is says whether a process is a function's, as far as the system shows it.
func is(pid int, function string) bool {
	environ, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	return slices.Contains(strings.Split(string(environ), "\x00"), "AWS_LAMBDA_FUNCTION_NAME="+function)
}

func living(ids []int) []int {
	return slices.DeleteFunc(slices.Clone(ids), func(id int) bool {
		_, state := status(id)
		return state == "" || state == "Z"
	})
}

// status reads a process's parent and state from /proc; of one that is not there
// they are zero.
func status(pid int) (parent int, state string) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0, ""
	}
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	parent, _ = strconv.Atoi(fields[1])
	return parent, fields[0]
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
