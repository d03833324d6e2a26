package host_test

import (
	"archive/zip"
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/xml"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/lambda/types"
	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/localstack/target"
)

// aWorld is a LocalStack and clients of it.
type aWorld struct {
	target.Target
	lambda *lambda.Client
	over   bool // it has ended, or is about to: nothing can be deleted there
}

func world(t *testing.T, at target.Target) *aWorld {
	t.Helper()
	return &aWorld{Target: at, lambda: lambda.NewFromConfig(at.Config)}
}

// settings of a function. Zero values are what most tests want.
type settings struct {
	timeout, memory int32
	environ         map[string]string
	logging         *types.LoggingConfig
	file            string // where in the archive the program is
}

// event is what testdata/bootstrap does, by the names in its Event.
type event map[string]any

// answered is what testdata/bootstrap answers by itself.
type answered struct {
	PID, Server, Child, Count int
	Env                       []string
	Dir, Request, ARN         string
	Left                      int64
	Statuses                  []int
}

type failure struct {
	Type    string `json:"errorType"`
	Message string `json:"errorMessage"`
}

// outcome of an invocation.
type outcome struct {
	failed, id, log string
	payload         []byte
}

func (o outcome) parsed(t *testing.T) answered {
	t.Helper()
	var a answered
	require.Empty(t, o.failed, "%s\n%s", o.payload, o.log)
	require.NoError(t, json.Unmarshal(o.payload, &a))
	return a
}

func (o outcome) failure(t *testing.T) failure {
	t.Helper()
	var f failure
	require.NotEmpty(t, o.failed, "%.300s\n%s", o.payload, o.log)
	require.NoError(t, json.Unmarshal(o.payload, &f))
	return f
}

// function is one that is deployed.
type function struct {
	w               *aWorld
	name, qualifier string
	logging         *types.LoggingConfig
}

func (w *aWorld) function(t *testing.T, s settings) *function {
	t.Helper()
	f := &function{w: w, name: "host-" + strings.ToLower(rand.Text()), logging: s.logging}
	s.file = cmp.Or(s.file, "bootstrap")
	architecture := map[string]types.Architecture{"arm64": types.ArchitectureArm64, "amd64": types.ArchitectureX8664}[runtime.GOARCH]
	made, err := w.lambda.CreateFunction(t.Context(), &lambda.CreateFunctionInput{
		FunctionName: &f.name, Runtime: types.RuntimeProvidedal2023, Handler: aws.String("bootstrap"), Role: aws.String("arn:aws:iam::000000000000:role/r"),
		Timeout: aws.Int32(cmp.Or(s.timeout, 20)), MemorySize: aws.Int32(cmp.Or(s.memory, 128)), Architectures: []types.Architecture{architecture},
		Environment: &types.Environment{Variables: s.environ}, Code: &types.FunctionCode{ZipFile: zipped(t, s.file, program(t))},
		LoggingConfig: s.logging,
	})
	require.NoError(t, err)
	t.Cleanup(func() {
		if w.over {
			return
		}
		_, err := w.lambda.DeleteFunction(context.WithoutCancel(t.Context()), &lambda.DeleteFunctionInput{FunctionName: made.FunctionName})
		require.NoError(t, err)
	})
	ready := lambda.NewFunctionActiveV2Waiter(w.lambda, func(o *lambda.FunctionActiveV2WaiterOptions) { o.MinDelay = pause })
	require.NoError(t, ready.Wait(t.Context(), &lambda.GetFunctionInput{FunctionName: &f.name}, ceiling))
	return f
}

// named is the qualifier of invocations, if they have one.
func (f *function) named() *string {
	if f.qualifier == "" {
		return nil
	}
	return &f.qualifier
}

func (f *function) group() string { return "/aws/lambda/" + f.name }

// updated waits until an update is done.
func (f *function) updated(t *testing.T) {
	t.Helper()
	done := lambda.NewFunctionUpdatedV2Waiter(f.w.lambda, func(o *lambda.FunctionUpdatedV2WaiterOptions) { o.MinDelay = pause })
	require.NoError(t, done.Wait(t.Context(), &lambda.GetFunctionInput{FunctionName: &f.name}, ceiling))
}

// report finds the id of an invocation in its log, which is text or JSON.
var report = regexp.MustCompile(`REPORT RequestId: (\S+)|"platform.report","record":{"requestId":"([^"]+)`)

func (f *function) try(ctx context.Context, e event) (outcome, error) {
	payload, err := json.Marshal(e)
	if err != nil {
		return outcome{}, err
	}
	got, err := f.w.lambda.Invoke(ctx, &lambda.InvokeInput{FunctionName: &f.name, Qualifier: f.named(), Payload: payload, LogType: types.LogTypeTail})
	if err != nil {
		return outcome{}, err
	}
	log, err := base64.StdEncoding.DecodeString(aws.ToString(got.LogResult))
	o := outcome{failed: aws.ToString(got.FunctionError), payload: got.Payload, log: string(log)}
	if found := report.FindStringSubmatch(o.log); found != nil {
		o.id = found[1] + found[2]
	}
	return o, err
}

func (f *function) invoke(t *testing.T, e event) outcome {
	t.Helper()
	o, err := f.try(t.Context(), e)
	require.NoError(t, err)
	return o
}

// running is an invocation that has begun.
type running struct {
	outcome outcome
	err     error
	over    chan struct{}
}

func (f *function) begin(t *testing.T, e event) *running {
	t.Helper()
	r := &running{over: make(chan struct{})}
	go func() {
		defer close(r.over)
		r.outcome, r.err = f.try(t.Context(), e)
	}()
	return r
}

func (r *running) end(t *testing.T) outcome {
	t.Helper()
	<-r.over
	require.NoError(t, r.err)
	return r.outcome
}

func (f *function) answer(t *testing.T, e event) answered {
	t.Helper()
	return f.invoke(t, e).parsed(t)
}

// find returns the entries of a log group that have some words.
func (w *aWorld) find(t *testing.T, group, words string) []string {
	t.Helper()
	var found []string
	for next := ""; ; {
		request := event{"logGroupName": group}
		if next != "" {
			request["nextToken"] = next
		}
		var page struct {
			Events    []struct{ Message string }
			NextToken string
		}
		if !w.ask(t, "FilterLogEvents", request, &page) {
			return nil // there is no such group yet
		}
		for _, one := range page.Events {
			if strings.Contains(one.Message, words) {
				found = append(found, one.Message)
			}
		}
		if next = page.NextToken; next == "" {
			return found
		}
	}
}

// ask asks CloudWatch Logs, and says whether it had an answer.
func (w *aWorld) ask(t *testing.T, action string, request, into any) bool {
	t.Helper()
	body, err := json.Marshal(request)
	require.NoError(t, err)
	answer := w.post(t, "logs", http.Header{"Content-Type": {"application/x-amz-json-1.1"}, "X-Amz-Target": {"Logs_20140328." + action}}, body)
	if answer == nil {
		return false
	}
	require.NoError(t, json.Unmarshal(answer, into))
	return true
}

// sum asks CloudWatch for the sum of a function's metric in the last hour.
func (w *aWorld) sum(t *testing.T, metric, function string) int {
	t.Helper()
	now := time.Now().UTC()
	form := url.Values{
		"Action": {"GetMetricStatistics"}, "Version": {"2010-08-01"}, "Namespace": {"AWS/Lambda"}, "MetricName": {metric}, "Period": {"60"}, "Statistics.member.1": {"Sum"},
		"StartTime": {now.Add(-time.Hour).Format(time.RFC3339)}, "EndTime": {now.Add(time.Hour).Format(time.RFC3339)},
		"Dimensions.member.1.Name": {"FunctionName"}, "Dimensions.member.1.Value": {function},
	}
	var answer struct {
		Sums []float64 `xml:"GetMetricStatisticsResult>Datapoints>member>Sum"`
	}
	said := w.post(t, "monitoring", http.Header{"Content-Type": {"application/x-www-form-urlencoded; charset=utf-8"}}, []byte(form.Encode()))
	require.NoError(t, xml.Unmarshal(said, &answer))
	sum := 0.0
	for _, one := range answer.Sums {
		sum += one
	}
	return int(sum)
}

// post sends a request of a protocol that this module has no client for. An
// error is answered with nothing.
func (w *aWorld) post(t *testing.T, service string, headers http.Header, body []byte) []byte {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.Endpoint+"/", bytes.NewReader(body))
	require.NoError(t, err)
	r.Header = headers
	who, err := w.Config.Credentials.Retrieve(t.Context())
	require.NoError(t, err)
	sum := sha256.Sum256(body)
	require.NoError(t, v4.NewSigner().SignHTTP(t.Context(), who, r, hex.EncodeToString(sum[:]), service, target.Region, time.Now()))
	response, err := w.Config.HTTPClient.Do(r)
	require.NoError(t, err)
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	require.NoError(t, err)
	if response.StatusCode != http.StatusOK {
		return nil
	}
	return answer
}

// logged waits until a log group has some words.
func (w *aWorld) logged(t *testing.T, group, words string) {
	t.Helper()
	require.Eventually(t, func() bool { return len(w.find(t, group, words)) > 0 }, ceiling, pause, "the log has no %q", words)
}

// gate is a server that keeps a function waiting until a test lets it go on.
type gate struct {
	url     string
	came    chan struct{}
	let     chan struct{}
	release func()
}

func newGate(t *testing.T) *gate {
	t.Helper()
	g := &gate{came: make(chan struct{}, 1000), let: make(chan struct{})}
	g.release = sync.OnceFunc(func() { close(g.let) })
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		g.came <- struct{}{}
		select {
		case <-g.let:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(server.Close)
	t.Cleanup(g.release)
	g.url = server.URL
	return g
}

// arrived waits until one more function waits.
func (g *gate) arrived(t *testing.T) {
	t.Helper()
	select {
	case <-g.came:
	case <-time.After(ceiling):
		require.Fail(t, "no function came")
	}
}

// pass lets one of those that wait go on.
func (g *gate) pass() { g.let <- struct{}{} }

// open lets all go on, and those that come later.
func (g *gate) open() { g.release() }

// program builds testdata/bootstrap, once.
func program(t *testing.T) string {
	t.Helper()
	content, err := built()
	require.NoError(t, err)
	return content
}

var built = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "bootstrap")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	file := filepath.Join(dir, "bootstrap")
	build := exec.CommandContext(context.Background(), "go", "build", "-trimpath", "-tags", "lambda.norpc", "-ldflags", "-s -w", "-o", file, "./testdata/bootstrap")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if said, err := build.CombinedOutput(); err != nil {
		return string(said), err
	}
	content, err := os.ReadFile(file)
	return string(content), err
})

// zipped is an archive with one program.
func zipped(t *testing.T, name, content string) []byte {
	t.Helper()
	var buffer bytes.Buffer
	archive := zip.NewWriter(&buffer)
	header := &zip.FileHeader{Name: name, Method: zip.Deflate}
	header.SetMode(0o755)
	entry, err := archive.CreateHeader(header)
	require.NoError(t, err)
	_, err = entry.Write([]byte(content))
	require.NoError(t, err)
	require.NoError(t, archive.Close())
	return buffer.Bytes()
}
