package bars

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/internal/adapter/dynamo"
	"github.com/perdure/perdure/internal/adapter/gosched"
	"github.com/perdure/perdure/internal/adapter/s3"
	"github.com/perdure/perdure/internal/adapter/sfn"
	"github.com/perdure/perdure/internal/cloud"
	"github.com/perdure/perdure/internal/host"
	"github.com/perdure/perdure/internal/tool"
	"github.com/perdure/perdure/internal/tool/control"
	"github.com/perdure/perdure/localstack/target"
)

// hang is a ceiling for what should take milliseconds.
const hang = 2 * time.Minute

// farm is an engine that admits, one that drives, and between them a machine by
// hand; all requests to the table are counted.
type farm struct {
	t           *testing.T
	meter       *dynamo.Meter
	store       *s3.Store
	table       *dynamo.Store
	front       *host.Engine
	drive       *host.Engine
	model       *model
	transitions atomic.Int64
	largest     atomic.Int64 // machine data
	steps       atomic.Int64 // of the longest execution
	started     chan string  // executions that have ended
	deps        host.Deps
	tokens      sync.Map // by step
	client      *dynamodb.Client
	name        string // of the table and of the bucket
}

// headSize is what the head item weighs, by AWS's rule for strings, numbers
// taken at their longest.
func (f *farm) headSize(key host.Key) int {
	f.t.Helper()
	out, err := f.client.GetItem(f.t.Context(), &dynamodb.GetItemInput{TableName: &f.name, ConsistentRead: aws.Bool(true), Key: map[string]types.AttributeValue{
		"pk": &types.AttributeValueMemberS{Value: string(key.Tenant) + "#" + string(key.Session)}, "sk": &types.AttributeValueMemberS{Value: "h#head"},
	}})
	require.NoError(f.t, err)
	require.NotEmpty(f.t, out.Item)
	size := 0
	for name, v := range out.Item {
		size += len(name)
		switch v := v.(type) {
		case *types.AttributeValueMemberS:
			size += len(v.Value)
		case *types.AttributeValueMemberB:
			size += len(v.Value)
		default:
			size += 21
		}
	}
	return size
}

// model answers with what the test wants; each answer takes no time.
type model struct {
	turns atomic.Int64
	reply func(turn int64, req host.ModelRequest) host.ModelResult
	wait  func(ctx context.Context)
}

func (m *model) Model(context.Context, ident.TenantID, session.Model) (host.ModelPort, error) {
	return m, nil
}
func (m *model) Info(session.Model) host.ModelInfo { return host.ModelInfo{} }
func (m *model) Generate(ctx context.Context, req host.ModelRequest, _ func(host.Delta)) (host.ModelResult, error) {
	if m.wait != nil {
		m.wait(ctx)
	}
	r := m.reply(m.turns.Add(1), req)
	r.Model, r.Usage = "test-1", session.Usage{Input: 1000, Output: 100}
	r.Finish = host.FinishStop
	if len(r.Calls) > 0 {
		r.Finish = host.FinishTools
	}
	return r, nil
}

// words are n bytes of prose.
func words(n int) string { return strings.Repeat("some words of an answer ", n/24+1)[:n] }

// newFarm makes one. Its drive looks at no head while it works, unless o says so:
// what that costs is a matter of how fast this machine is, and has a bar and a
// line of docs/COST.md of its own.
func newFarm(t *testing.T, o host.Options) *farm {
	t.Helper()
	cfg := target.AWS(t)
	f := &farm{t: t, model: &model{}, started: make(chan string, 1000)}
	client := dynamo.NewClient(cfg)
	name := "bars-" + strings.ToLower(strings.ReplaceAll(t.Name(), "/", "-"))
	_, err := client.CreateTable(t.Context(), dynamo.Schema().CreateTableInput(name))
	require.NoError(t, err)
	waiter := dynamodb.NewTableExistsWaiter(client)
	require.NoError(t, waiter.Wait(t.Context(), &dynamodb.DescribeTableInput{TableName: aws.String(name)}, hang))
	objects := awss3.NewFromConfig(cfg, func(o *awss3.Options) { o.UsePathStyle = true })
	_, err = objects.CreateBucket(t.Context(), &awss3.CreateBucketInput{Bucket: aws.String(name)})
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := client.DeleteTable(context.WithoutCancel(t.Context()), &dynamodb.DeleteTableInput{TableName: aws.String(name)})
		require.NoError(t, err)
	})

	f.client, f.name = client, name
	f.meter, f.table, f.store = f.stores(cfg)
	tools, err := tool.New(nil, f.specs(), control.Tools())
	require.NoError(t, err)
	f.deps = host.Deps{
		Log: f.store, Blobs: f.store, Checkpoints: f.store, Stash: f.table, Models: f.model, Tools: tools, Sched: gosched.New(),
		Keys: host.Keyring{{ID: "1", Key: []byte(strings.Repeat("k", 32))}}, Waker: &machine{f},
		Report: func(key host.Key, what string, err error) { t.Logf("report %s: %s: %v", key, what, err) },
	}
	front := o
	front.AdmitOnly = true
	f.front = host.New(f.deps, front)
	require.NoError(t, f.front.Start(context.WithoutCancel(t.Context())))
	o.Sliced = true
	if o.WatchMs == 0 {
		o.WatchMs = time.Hour.Milliseconds()
	}
	f.drive = host.New(f.deps, o)
	require.NoError(t, f.drive.Start(context.WithoutCancel(t.Context())))
	return f
}

// stores are a process's own, with what its requests to the table cost.
func (f *farm) stores(cfg aws.Config) (*dynamo.Meter, *dynamo.Store, *s3.Store) {
	f.t.Helper()
	meter := dynamo.NewMeter(f.client)
	table := dynamo.New(meter, f.name, dynamo.Options{})
	store, err := s3.Open(cfg, s3.Options{Bucket: f.name, Log: table, Pointer: cloud.Pointer(table)})
	require.NoError(f.t, err)
	return meter, table, store
}

// another is one more process that admits, however long the others come first:
// how fast a table is under ten writers is the machine's affair.
func (f *farm) another() (*host.Engine, *dynamo.Meter) {
	f.t.Helper()
	d := f.deps
	meter, table, store := f.stores(target.AWS(f.t))
	d.Log, d.Blobs, d.Checkpoints, d.Stash = store, store, store, table
	e := host.New(d, host.Options{AdmitOnly: true, CommitMs: hang.Milliseconds()})
	require.NoError(f.t, e.Start(context.WithoutCancel(f.t.Context())))
	return e, meter
}

// specs are two tools that answer with a kilobyte.
func (f *farm) specs() []tool.Spec {
	run := func(_ context.Context, c host.ToolCall) (host.ToolResult, error) {
		return host.ToolResult{Text: words(1000)}, nil
	}
	anything := `{"type":"object","properties":{"x":{"type":"string"}},"additionalProperties":false}`
	return []tool.Spec{
		{Name: "t.one", Kind: tool.KindRead, Parallel: true, RetrySafe: true, Description: "reads one thing", Parameters: anything, Run: run},
		{Name: "t.two", Kind: tool.KindRead, Parallel: true, RetrySafe: true, Description: "reads another", Parameters: anything, Run: run},
		{Name: "t.ask", Kind: tool.KindAction, Description: "asks first", Parameters: anything, Run: run},
	}
}

// machine is host.Waker: the state machine by hand, each state entered counted.
type machine struct{ f *farm }

func (m *machine) Start(ctx context.Context, key host.Key, inc string, epoch uint64) error {
	go m.f.execute(context.WithoutCancel(ctx), key, inc, epoch)
	return nil
}

func (m *machine) Complete(_ context.Context, token string) error {
	n, err := strconv.ParseUint(token, 10, 64)
	if err == nil {
		m.f.token(n) <- struct{}{}
	}
	return err
}

func (m *machine) Alive(context.Context, host.Key, string, uint64) (bool, error) { return true, nil }
func (m *machine) End(context.Context, host.Key, string, uint64) error           { return nil }

// token is what a wait before a step ends by.
func (f *farm) token(number uint64) chan struct{} {
	v, _ := f.tokens.LoadOrStore(number, make(chan struct{}, 1))
	ch, _ := v.(chan struct{})
	return ch
}

func (f *farm) execute(ctx context.Context, key host.Key, inc string, epoch uint64) {
	began := ident.Instant(time.Now().UnixMilli())
	for number := uint64(1); ; {
		f.transitions.Add(2) // Model, Next
		f.steps.Store(max(f.steps.Load(), int64(number)))
		st := host.Step{Key: key, Inc: inc, Epoch: epoch, Number: number, Began: began, Until: began.Add(898 * ident.Second)}
		next, err := f.drive.Drive(ctx, st)
		if err != nil {
			f.t.Errorf("drive: %v", err)
			return
		}
		data, err := sfn.Answer(st, next, began)
		if err != nil {
			f.t.Errorf("answer: %v", err)
			return
		}
		f.largest.Store(max(f.largest.Load(), int64(len(data))))
		number = next.Number
		switch next.Do {
		case host.NextWait:
			f.transitions.Add(1)
			woken := f.token(number)
			if _, err := f.front.Park(ctx, key, inc, epoch, next.Wait, strconv.FormatUint(number, 10)); err != nil {
				f.t.Errorf("park: %v", err)
				return
			}
			f.started <- "wait"
			<-woken
		case host.NextDone:
			f.transitions.Add(1) // Done
			f.started <- "done"
			return
		}
	}
}

func (f *farm) do(key host.Key, cmds ...host.Prepared) host.Done {
	f.t.Helper()
	d, err := f.front.Do(f.t.Context(), key, cmds...)
	require.NoError(f.t, err)
	return d
}

func asked(id string) session.Asked {
	return session.Asked{Actor: session.Actor{ID: "ann"}, Via: "key", Submission: session.Submission{ID: ident.SubmissionID(id)}}
}

func (f *farm) open(name string) host.Key {
	f.t.Helper()
	key := host.Key{Tenant: "acme", Session: ident.SessionID(name)}
	c := session.Config{
		Model:     session.Model{Provider: "test", Model: "m"},
		Tools:     []session.ToolGrant{{Name: "t.*"}, {Name: "sleep"}},
		Approvals: session.ApprovalPolicy{Default: "action"},
		Limits:    session.Limits{MaxTurns: 1000},
	}
	f.do(key, host.Prepared{Command: &session.OpenSession{Inc: "01J00000000000000000000001", Config: c, Asked: asked("")}})
	return key
}

func (f *farm) submit(key host.Key, id, text string) {
	f.t.Helper()
	f.do(key, host.Prepared{Command: &session.RequestRun{Input: []session.Part{{Text: blob.Inline(text)}}, Asked: asked(id)}})
}

// rests waits for the machine to end, or to wait.
func (f *farm) rests() string {
	f.t.Helper()
	select {
	case how := <-f.started:
		return how
	case <-time.After(hang):
		require.FailNow(f.t, "the machine does not come to its end")
		return ""
	}
}

func call(id, name string) host.ModelCall {
	return host.ModelCall{ID: id, Name: name, Arguments: fmt.Sprintf(`{"x":%q}`, words(60))}
}
