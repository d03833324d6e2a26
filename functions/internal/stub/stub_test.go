package stub_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	lambdaevents "github.com/aws/aws-lambda-go/events"
	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/events"
	"github.com/perdure/perdure/functions/internal/stub"
	"github.com/perdure/perdure/internal/env"
)

// hang is a ceiling for what must come; nothing is held to it.
const hang = 2 * time.Minute

// built is a folder with the functions' binaries for this machine, built as they
// are deployed.
var built = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "functions-")
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(context.Background(), "go", "build", "-trimpath", "-tags", "lambda.norpc", "-ldflags", "-s -w", "-o", dir,
		"../../api", "../../drive", "../../deliver", "../../sweep")
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
	body, failed, err := l.Ask(ctx, 30*time.Second, event)
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
