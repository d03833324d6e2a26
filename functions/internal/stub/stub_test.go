package stub_test

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	lambdaevents "github.com/aws/aws-lambda-go/events"
	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/events"
	"github.com/perdure/perdure/functions/internal/stub"
	"github.com/perdure/perdure/internal/env"
)

// hang is a ceiling for what must come; nothing is held to it. tick is between
// two looks, and within what a function is given for an invocation.
const (
	hang   = 2 * time.Minute
	tick   = 5 * time.Millisecond
	within = 8 * time.Second
)

// built is a folder with the functions' binaries for this machine, built as they
// are deployed.
var built = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "functions-")
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(context.Background(), "go", "build", "-trimpath", "-tags", "lambda.norpc", "-ldflags", "-s -w", "-o", dir,
		"../../api", "../../deliver", "../../drive", "../../sweep")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, out)
	}
	return dir, err
})

func TestMain(m *testing.M) {
	code := m.Run()
	if dir, err := built(); err == nil {
		_ = os.RemoveAll(dir)
	}
	os.Exit(code)
}

const (
	keySecret     = `{"id":"admin","secret":"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}`
	signingSecret = `{"id":"1","secret":"bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"}`
)

// newAWS is an account with the stack's secrets in it, and nothing else.
func newAWS(tb testing.TB) *stub.AWS {
	tb.Helper()
	a := stub.NewAWS()
	tb.Cleanup(a.Close)
	a.Secrets(map[string]string{"key": keySecret, "signing": signingSecret})
	return a
}

// environ is a function's, as the stack sets it, with changes by name; an empty
// value unsets one.
func environ(endpoint string, changes map[string]string) []string {
	all := map[string]string{
		"AWS_REGION": "eu-west-1", "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", env.AWSFunction: "perdure-f", env.AWSEndpointURL: endpoint,
		env.Table: "table", env.Bucket: "bucket", env.Machine: "arn:aws:states:eu-west-1:111122223333:stateMachine:perdure",
		env.Inbox: endpoint + "/1/inbox.fifo", env.Outbox: endpoint + "/1/outbox", env.Work: endpoint + "/1/work",
		env.KeySecret: "key", env.SigningSecret: "signing", env.PublicURL: "https://p.example", env.Secrets: "perdure/p/",
	}
	maps.Copy(all, changes)
	var out []string
	for name, value := range all {
		if value != "" {
			out = append(out, name+"="+value)
		}
	}
	return out
}

// start starts a function and waits until it asks for work.
func start(tb testing.TB, role string, environ []string) *stub.Lambda {
	tb.Helper()
	dir, err := built()
	require.NoError(tb, err)
	l, err := stub.Start(context.WithoutCancel(tb.Context()), filepath.Join(dir, role), environ...)
	require.NoError(tb, err)
	tb.Cleanup(func() { require.NoError(tb, l.Stop()) })
	ctx, cancel := context.WithTimeout(tb.Context(), hang)
	defer cancel()
	require.NoError(tb, l.Ready(ctx))
	return l
}

// ask hands an event over and returns the answer's bytes.
func ask(tb testing.TB, l *stub.Lambda, event []byte) (body []byte, failed bool) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), hang)
	defer cancel()
	body, failed, err := l.Ask(ctx, within, event)
	require.NoError(tb, err)
	return body, failed
}

func sample(tb testing.TB, name string) []byte {
	tb.Helper()
	data, err := fs.ReadFile(events.Files(), "invoke/"+name)
	require.NoError(tb, err)
	return data
}

// response is what an HTTP function answers to a sample.
func response(tb testing.TB, l *stub.Lambda, event []byte) lambdaevents.APIGatewayV2HTTPResponse {
	tb.Helper()
	body, failed := ask(tb, l, event)
	require.False(tb, failed, "%s\n%s", body, l.Log())
	var r lambdaevents.APIGatewayV2HTTPResponse
	require.NoError(tb, json.Unmarshal(body, &r), "%s", body)
	return r
}

func TestTheBuiltAPIAnswersItsGateway(t *testing.T) {
	t.Parallel()
	aws := newAWS(t)
	api := start(t, "api", environ(aws.URL, nil))
	me := response(t, api, sample(t, "api/me.json"))
	require.Equal(t, http.StatusOK, me.StatusCode, api.Log())
	require.JSONEq(t, `{"tenant":"default","actor":"admin","roles":[],"key":"admin",
		"scopes":["sessions:read","sessions:write","approvals:decide","files","admin","act-as"]}`, me.Body)
	require.Equal(t, "application/json", me.Headers["Content-Type"])

	var e lambdaevents.APIGatewayV2HTTPRequest
	require.NoError(t, json.Unmarshal(sample(t, "api/me.json"), &e))
	e.Headers["authorization"] = "Bearer pk_admin_aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab"
	event, err := json.Marshal(e)
	require.NoError(t, err)
	require.Equal(t, http.StatusUnauthorized, response(t, api, event).StatusCode)
	require.Equal(t, 2, aws.Asked("secretsmanager.GetSecretValue"), "once each, at the start")
	require.NotContains(t, api.Log(), "aaaaaaaa")
	require.NotContains(t, api.Log(), "bbbbbbbb")
}

// zipMost is the largest archive that a function may be deployed as: what is
// larger takes long to start cold.
const zipMost = 15 << 20

func TestFunctionsAreSmall(t *testing.T) {
	t.Parallel()
	dir, err := built()
	require.NoError(t, err)
	for _, role := range []string{"api", "drive"} {
		binary, err := os.ReadFile(filepath.Join(dir, role))
		require.NoError(t, err)
		var packed bytes.Buffer
		w := zip.NewWriter(&packed)
		f, err := w.Create("bootstrap")
		require.NoError(t, err)
		_, err = f.Write(binary)
		require.NoError(t, err)
		require.NoError(t, w.Close())
		t.Logf("%s: %d KB, packed %d KB", role, len(binary)>>10, packed.Len()>>10)
		require.Less(t, packed.Len(), zipMost, role)
	}
}

// wrong is one way in which a function's surroundings can be wrong.
type wrong struct {
	changes map[string]string
	script  func(a *stub.AWS)
	path    string
	says    []string
}

// TestWrongSurroundings starts built functions where something is missing: each
// comes up, answers, and says in one line what to do.
func TestWrongSurroundings(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]wrong{
		"a variable is missing": {
			changes: map[string]string{env.Bucket: ""}, path: "/v1/me",
			says: []string{"PERDURE_BUCKET is not set: the stack sets it, so deploy it again"},
		},
		"the region is missing": {
			changes: map[string]string{"AWS_REGION": ""}, path: "/v1/me", says: []string{"AWS_REGION is not set"},
		},
		"the machine is none": {
			changes: map[string]string{env.Machine: "perdure"}, path: "/v1/me", says: []string{"PERDURE_MACHINE", "is not the ARN of a state machine"},
		},
		"a secret is missing": {
			script: func(a *stub.AWS) { a.Secrets(map[string]string{"signing": signingSecret}) }, path: "/v1/me",
			says: []string{"the Secrets Manager entry that PERDURE_KEY_SECRET names is not there", "deploy the stack again"},
		},
		"a secret may not be read": {
			script: func(a *stub.AWS) { a.On("secretsmanager.GetSecretValue", stub.Denied()) }, path: "/v1/me",
			says: []string{"PERDURE_SIGNING_SECRET names cannot be read", "the function's role may not do this"},
		},
		"secrets hang": {
			script: func(a *stub.AWS) { a.On("secretsmanager.GetSecretValue", stub.Hangs()) }, path: "/v1/me",
			says: []string{"names cannot be read", "deadline exceeded"},
		},
		"the table is missing": {
			script: func(a *stub.AWS) {
				a.On("DynamoDB.GetItem", stub.Missing("the table")).On("DynamoDB.Query", stub.Missing("the table"))
			},
			path: "/readyz", says: []string{"there is no such table", "PERDURE_TABLE"},
		},
		"the table may not be read": {
			script: func(a *stub.AWS) { a.On("DynamoDB.GetItem", stub.Denied()) }, path: "/readyz",
			says: []string{"the function's role may not do this"},
		},
		"the table hangs": {
			script: func(a *stub.AWS) { a.On("DynamoDB.GetItem", stub.Hangs()) }, path: "/readyz", says: []string{"deadline exceeded"},
		},
		"the bucket is missing": {
			script: func(a *stub.AWS) {
				a.On("DynamoDB.GetItem", stub.OK("{}"))
				a.On("GET bucket", stub.Script{Status: http.StatusNotFound, Body: `<Error><Code>NoSuchBucket</Code><Message>no</Message></Error>`})
			},
			path: "/readyz", says: []string{"there is no such bucket", "PERDURE_BUCKET"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			aws := newAWS(t)
			if c.script != nil {
				c.script(aws)
			}
			api := start(t, "api", environ(aws.URL, c.changes))
			var e lambdaevents.APIGatewayV2HTTPRequest
			require.NoError(t, json.Unmarshal(sample(t, "api/me.json"), &e))
			e.RawPath = c.path
			event, err := json.Marshal(e)
			require.NoError(t, err)
			got := response(t, api, event)
			require.Equal(t, http.StatusServiceUnavailable, got.StatusCode, "%s\n%s", got.Body, api.Log())
			require.Contains(t, got.Body, `"code":"unavailable"`)
			for _, says := range c.says {
				// What a process writes comes by another way than its answer.
				require.Eventually(t, func() bool { return strings.Contains(api.Log(), says) }, hang, tick, "%q is not said in: %s", says, api.Log())
			}
		})
	}
}

// BenchmarkInit measures the time from the start of a process to its first
// question for work, with AWS on this machine.
func BenchmarkInit(b *testing.B) {
	for _, role := range []string{"api", "drive"} {
		b.Run(role, func(b *testing.B) {
			aws := newAWS(b)
			dir, err := built()
			require.NoError(b, err)
			total := time.Duration(0)
			n := 0
			for b.Loop() {
				l, err := stub.Start(b.Context(), filepath.Join(dir, role), environ(aws.URL, nil)...)
				require.NoError(b, err)
				require.NoError(b, l.Ready(b.Context()))
				total += l.Took
				n++
				require.NoError(b, l.Stop())
			}
			b.ReportMetric(float64(total.Microseconds())/float64(n)/1000, "init-ms/op")
		})
	}
}
