package faults

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	awssfn "github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/internal/adapter/dynamo"
	"github.com/perdure/perdure/internal/adapter/dynamo/dynamotest"
	"github.com/perdure/perdure/internal/adapter/s3"
	"github.com/perdure/perdure/internal/adapter/secrets"
	"github.com/perdure/perdure/internal/adapter/sfn"
	"github.com/perdure/perdure/internal/adapter/sqs"
	"github.com/perdure/perdure/internal/client"
	"github.com/perdure/perdure/internal/cloud"
	"github.com/perdure/perdure/internal/env"
)

// process is one more process of a function of the stack, within this one: it
// has the deployed function's settings and works with the stack's own table,
// bucket and machine, so that faults can be put between it and them.
type process struct {
	*cloud.Function

	w     *world
	table *dynamotest.Transport
	calls *meddler // of the machine's engine
	life  context.Context
	end   context.CancelFunc
}

// process starts one. Change, if not nil, is made to its ports.
func (w *world) process(role string, change func(*cloud.Ports)) *process {
	w.Helper()
	p := &process{w: w}
	plain, ok := w.stack.Config.HTTPClient.(*http.Client)
	require.True(w, ok)
	base := plain.Transport
	p.table, p.calls = dynamotest.New(base), &meddler{base: base}
	set, err := lambda.NewFromConfig(w.stack.Config.Copy()).GetFunctionConfiguration(w.Context(), &lambda.GetFunctionConfigurationInput{
		FunctionName: aws.String(w.function(role)),
	})
	require.NoError(w, err)
	variables := set.Environment.Variables
	variables[env.AWSFunction], variables[env.AWSEndpointURL] = w.function(role), w.stack.Endpoint
	life, end := context.WithCancel(context.WithoutCancel(w.Context()))
	p.life, p.end = life, end
	w.Cleanup(end)
	said := &lines{}
	w.Cleanup(func() {
		if w.Failed() {
			w.Logf("the process beside %s said:\n%s", w.function(role), said)
		}
	})
	p.Function = cloud.New(life, cloud.Config{
		Role: role, Out: said, Version: "test",
		Lookup: func(name string) (string, bool) {
			v, there := variables[name]
			return v, there
		},
		Connect: func(_ context.Context, set env.Function) (cloud.Ports, error) {
			ports, err := p.connect(set)
			if change != nil {
				change(&ports)
			}
			return ports, err
		},
	})
	return p
}

// connect is what the function's own main does.
func (p *process) connect(set env.Function) (ports cloud.Ports, err error) {
	cfg := p.w.stack.Config.Copy()
	api := dynamo.NewClient(cfg, func(o *dynamodb.Options) { o.HTTPClient = &http.Client{Transport: p.table} })
	table := dynamo.New(api, set.Table, dynamo.Options{})
	store, err := s3.Open(cfg, s3.Options{Bucket: set.Bucket, Log: table, Pointer: cloud.Pointer(table)})
	if err != nil {
		return ports, err
	}
	ports = cloud.Ports{
		Secrets: secrets.New(cfg), Queues: sqs.New(cfg),
		Log: store, Blobs: store, Checkpoints: store, Stash: table, Purge: store.Purge,
	}
	if ports.Workspaces, err = s3.OpenWorkspaces(cfg, set.Bucket); err != nil {
		return ports, err
	}
	ports.Waker, err = sfn.NewWaker(cfg, set.Machine, func(o *awssfn.Options) { o.HTTPClient = &http.Client{Transport: p.calls} })
	return ports, err
}

// dies ends the process where it is: it writes nothing any more.
func (p *process) dies() {
	p.table.Inject("", 1<<30, dynamotest.LostRequest())
	p.end()
}

// door puts a gateway before a process that serves the API.
func (p *process) door() *client.Client {
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), 29*time.Second)
		defer cancel()
		p.ServeRequest(rw, r.WithContext(ctx), "request")
	}))
	p.w.Cleanup(server.Close)
	return client.New(server.URL, p.w.stack.Key)
}

// careless is a door of an API that dies after each commit: it starts and wakes
// nobody.
func (w *world) careless() *client.Client {
	w.Helper()
	return w.process(env.FunctionAPI, func(p *cloud.Ports) { p.Waker = nil }).door()
}

// meddler is a transport that answers calls of the machine's engine itself.
type meddler struct {
	base http.RoundTripper

	mu     sync.Mutex
	faults []fault
	met    int
}

// fault is how the next so many calls of an operation are answered: with this
// error, after they were performed or instead.
type fault struct {
	op      string
	times   int
	code    string
	perform bool
}

func (m *meddler) inject(f fault) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.faults = append(m.faults, f)
}

// injected is how often a fault was met.
func (m *meddler) injected() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.met
}

func (m *meddler) take(op string) (fault, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.faults {
		if f := &m.faults[i]; f.op == op && f.times > 0 {
			f.times--
			m.met++
			return *f, true
		}
	}
	return fault{}, false
}

// RoundTrip implements http.RoundTripper.
func (m *meddler) RoundTrip(r *http.Request) (*http.Response, error) {
	_, op, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	f, planned := m.take(op)
	if !planned {
		return m.base.RoundTrip(r)
	}
	if f.perform {
		resp, err := m.base.RoundTrip(r)
		if err != nil {
			return nil, err
		}
		if err := resp.Body.Close(); err != nil {
			return nil, err
		}
	}
	body := fmt.Appendf(nil, `{"__type":%q,"message":"injected"}`, f.code)
	return &http.Response{
		StatusCode: http.StatusBadRequest, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
		Header: http.Header{"Content-Type": {"application/x-amz-json-1.0"}}, Body: io.NopCloser(bytes.NewReader(body)),
	}, nil
}

// lines keeps what a process says.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write implements io.Writer.
func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// String implements fmt.Stringer.
func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
