package doctor_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/internal/adapter/awsaccount"
	"github.com/perdure/perdure/internal/doctor"
)

// account is one that a test makes up. What fails is by the action that it
// takes.
type account struct {
	quotas    map[string][]awsaccount.Quota
	running   awsaccount.Concurrency
	stack     awsaccount.Stack
	table     string
	indexes   map[string]string
	machine   string
	secret    string
	queue     awsaccount.Queue
	function  awsaccount.Function
	faults    map[string]string // action → why
	functions []string          // that were looked at
}

func (a *account) fault(action string) error {
	if why, ok := a.faults[action]; ok {
		return &awsaccount.FaultError{Action: action, Why: why, Code: "SomeException", Err: errors.New("a long story\nof two lines")}
	}
	return nil
}

func (a *account) Region() string { return "eu-west-1" }

func (a *account) Identity(context.Context) (awsaccount.Identity, error) {
	return awsaccount.Identity{Account: "123456789012", ARN: "arn:aws:iam::123456789012:user/ada"}, a.fault("sts:GetCallerIdentity")
}

func (a *account) Quotas(_ context.Context, service string) ([]awsaccount.Quota, error) {
	return a.quotas[service], a.fault("servicequotas:ListServiceQuotas")
}

func (a *account) Concurrency(context.Context) (awsaccount.Concurrency, error) {
	return a.running, a.fault("lambda:GetAccountSettings")
}

func (a *account) Throughput(context.Context) (awsaccount.Throughput, error) {
	return awsaccount.Throughput{TableRead: 40000, TableWrite: 40000}, a.fault("dynamodb:DescribeLimits")
}

func (a *account) Stack(context.Context, string) (awsaccount.Stack, error) {
	return a.stack, a.fault("cloudformation:DescribeStacks")
}

func (a *account) Table(context.Context, string) (string, map[string]string, error) {
	return a.table, a.indexes, a.fault("dynamodb:DescribeTable")
}
func (a *account) Bucket(context.Context, string) error { return a.fault("s3:ListBucket") }

func (a *account) Machine(context.Context, string) (string, error) {
	return a.machine, a.fault("states:DescribeStateMachine")
}

func (a *account) Secret(context.Context, string) (string, error) {
	return a.secret, a.fault("secretsmanager:GetSecretValue")
}

func (a *account) Queue(context.Context, string) (awsaccount.Queue, error) {
	return a.queue, a.fault("sqs:GetQueueAttributes")
}

func (a *account) Function(_ context.Context, name string) (awsaccount.Function, error) {
	a.functions = append(a.functions, name)
	return a.function, a.fault("lambda:GetFunctionConfiguration")
}

// well is an account that has all it needs, and a stack in order.
func well(t *testing.T) *account {
	t.Helper()
	addr := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/":
			_, _ = w.Write([]byte(`{"name":"Perdure","version":"v1","about":"","openapi":""}`))
		case r.Header.Get("Authorization") == "Bearer pk_admin_sekret":
			_, _ = w.Write([]byte(`{"tenant":"default","actor":"admin","roles":[],"scopes":["admin"]}`))
		default:
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = w.Write([]byte(`{"code":"unauthenticated","title":"No","status":401}`))
		}
	})
	q := func(name, code string, value float64) awsaccount.Quota {
		return awsaccount.Quota{Name: name, Code: code, Value: value, Adjustable: true}
	}
	return &account{
		quotas: map[string][]awsaccount.Quota{
			"lambda": {q("Concurrent executions", "L-B99A9384", 1000)},
			"states": {
				q("StartExecution throttle token bucket size for Express workflows", "L-E", 1),
				q("StartExecution throttle token bucket size", "L-A", 1300), q("StartExecution throttle token refill rate per second", "L-B", 300),
				q("StateTransition throttle token bucket size", "L-C", 5000), q("StateTransition throttle token refill rate per second", "L-D", 5000),
				q("SendTaskSuccess throttle token refill rate per second", "L-F", 500), q("Open executions", "L-G", 1e6),
			},
			"dynamodb":       {q("Table-level write throughput limit", "L-AB614373", 40000), q("Table-level read throughput limit", "L-CF0CBE56", 40000)},
			"apigateway":     {q("Throttle rate", "L-8A5B8E43", 10000), q("Throttle burst rate", "L-CDF5615A", 5000)},
			"sqs":            {q("Messages in flight per FIFO queue", "L-H", 120000)},
			"secretsmanager": {q("Combined rate of DescribeSecret and GetSecretValue API requests", "L-I", 10000)},
		},
		running: awsaccount.Concurrency{Account: 1000, Unreserved: 1000},
		stack: awsaccount.Stack{Status: "UPDATE_COMPLETE", Outputs: map[string]string{
			"ApiUrl": "http://" + addr, "AdminKeySecret": "arn:key", "Table": "table", "Bucket": "bucket", "Machine": "arn:machine", "InboxUrl": "https://inbox", "WorkQueueUrl": "https://work",
		}},
		table: "ACTIVE", indexes: map[string]string{"list": "ACTIVE", "due": "ACTIVE", "todo": "ACTIVE"}, machine: "ACTIVE",
		secret: `{"id":"admin","secret":"sekret"}`, function: awsaccount.Function{State: "Active", Update: "Successful", Reserved: -1},
	}
}

func TestAnAccountThatIsWell(t *testing.T) {
	t.Parallel()
	a := well(t)
	r := doctor.AWS(t.Context(), a, "perdure")
	require.True(t, r.OK)
	for _, c := range r.Checks {
		require.Equal(t, doctor.OK, c.Status, "%+v", c)
	}
	require.Len(t, a.functions, 9)
	require.Equal(t, "perdure-api", a.functions[0])
	text, err := json.Marshal(r)
	require.NoError(t, err)
	require.NotContains(t, string(text), "sekret")
}

// A new account has little: the doctor says what to ask for, by its code.
func TestWhatToAskFor(t *testing.T) {
	t.Parallel()
	a := well(t)
	a.running = awsaccount.Concurrency{Account: 10, Unreserved: 10}
	a.quotas["states"][2].Value = 25
	a.quotas["dynamodb"][0] = awsaccount.Quota{Name: "Table-level write throughput limit", Code: "L-AB614373", Value: 100}
	a.quotas["apigateway"][0].Default = true
	a.quotas["sqs"] = nil
	r := doctor.AWS(t.Context(), a, "perdure")
	require.True(t, r.OK, "to have little is not to be wrong")
	c := has(t, r, "lambda: functions at once", doctor.Ask, "10 (L-B99A9384); 1000 would do")
	require.Equal(t, "aws service-quotas request-service-quota-increase --region eu-west-1 --service-code lambda --quota-code L-B99A9384 --desired-value 1000", c.Do)
	require.Equal(t, [2]float64{10, 1000}, [2]float64{c.Value, c.Want})
	c = has(t, r, "states: executions started a second", doctor.Ask, "25 (L-B)")
	require.Contains(t, c.Do, "--service-code states --quota-code L-B --desired-value 150")
	c = has(t, r, "dynamodb: writes a second to a table", doctor.Ask, "100 (L-AB614373)")
	require.Contains(t, c.Do, "ask AWS support about L-AB614373")
	has(t, r, "states: executions started in a burst", doctor.OK, "1300 (L-A)")
	has(t, r, "apigateway: requests a second", doctor.OK, "the account may have less")
	has(t, r, "sqs: messages of a FIFO queue in flight", doctor.Unknown, "does not list it")
	has(t, r, "lambda: functions at once without a share of their own", doctor.OK, "10")

	a.running = awsaccount.Concurrency{Account: 1000, Unreserved: 60}
	has(t, doctor.AWS(t.Context(), a, "perdure"), "lambda: functions at once without a share of their own", doctor.Ask, "60 are left")
}

// Whoever may not read something is told what it takes, once for each thing.
func TestWhatMayNotBeRead(t *testing.T) {
	t.Parallel()
	a := well(t)
	a.faults = map[string]string{}
	for _, action := range []string{
		"servicequotas:ListServiceQuotas", "lambda:GetAccountSettings", "dynamodb:DescribeLimits", "dynamodb:DescribeTable", "s3:ListBucket",
		"states:DescribeStateMachine", "secretsmanager:GetSecretValue", "sqs:GetQueueAttributes", "lambda:GetFunctionConfiguration",
	} {
		a.faults[action] = awsaccount.WhyDenied
	}
	a.quotas = nil
	r := doctor.AWS(t.Context(), a, "perdure")
	require.True(t, r.OK)
	counts := map[string]int{}
	for _, c := range r.Checks {
		if c.Status == doctor.Unknown {
			require.Equal(t, "allow "+c.Permission+" to whoever asks", c.Do)
			counts[c.Permission]++
		}
	}
	require.Equal(t, map[string]int{
		"servicequotas:ListServiceQuotas": 6, "lambda:GetAccountSettings": 1, "dynamodb:DescribeLimits": 1, "dynamodb:DescribeTable": 1, "s3:ListBucket": 1,
		"states:DescribeStateMachine": 1, "secretsmanager:GetSecretValue": 1, "sqs:GetQueueAttributes": 2, "lambda:GetFunctionConfiguration": 1,
	}, counts)

	a.faults = map[string]string{"cloudformation:DescribeStacks": awsaccount.WhyDenied, "servicequotas:ListServiceQuotas": awsaccount.WhyOther}
	r = doctor.AWS(t.Context(), a, "perdure")
	require.Equal(t, "cloudformation:DescribeStacks", has(t, r, "stack", doctor.Unknown, "may not be read").Permission)
	has(t, r, "states: limits", doctor.Unknown, "answered with SomeException")
	has(t, r, "lambda: functions at once", doctor.OK, "1000")
}

func TestNobodyToAsk(t *testing.T) {
	t.Parallel()
	for why, text := range map[string]string{awsaccount.WhyCaller: "does not know who asks", awsaccount.WhyUnreachable: "does not answer", awsaccount.WhyOther: "SomeException"} {
		a := well(t)
		a.faults = map[string]string{"sts:GetCallerIdentity": why}
		r := doctor.AWS(t.Context(), a, "perdure")
		require.False(t, r.OK)
		require.Len(t, r.Checks, 1, "the rest would say the same")
		require.Contains(t, r.Checks[0].Text, text)
		require.NotContains(t, r.Checks[0].Text, "\n")
	}
}

func TestWhatIsWrongWithAStack(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change       func(a *account)
		check        string
		status, text string
	}{
		"failed":      {func(a *account) { a.stack.Status, a.stack.Reason = "UPDATE_ROLLBACK_FAILED", "because" }, "stack", doctor.Wrong, "UPDATE_ROLLBACK_FAILED: because"},
		"never there": {func(a *account) { a.stack.Status = "ROLLBACK_COMPLETE" }, "stack", doctor.Wrong, "ROLLBACK_COMPLETE"},
		"taken back":  {func(a *account) { a.stack.Status = "UPDATE_ROLLBACK_COMPLETE" }, "stack", doctor.Note, "UPDATE_ROLLBACK_COMPLETE"},
		"on its way":  {func(a *account) { a.stack.Status = "UPDATE_IN_PROGRESS" }, "stack", doctor.Note, "UPDATE_IN_PROGRESS"},
		"old":         {func(a *account) { delete(a.stack.Outputs, "InboxUrl") }, "stack: outputs", doctor.Wrong, "InboxUrl"},
		"no stack": {func(a *account) {
			a.faults = map[string]string{"cloudformation:DescribeStacks": awsaccount.WhyMissing}
		}, "stack", doctor.Note, "there is no stack perdure in eu-west-1"},
		"no table": {func(a *account) {
			a.faults = map[string]string{"dynamodb:DescribeTable": awsaccount.WhyMissing}
		}, "stack: table", doctor.Wrong, "not there"},
		"a table in the making": {func(a *account) { a.table = "CREATING" }, "stack: table", doctor.Wrong, "CREATING"},
		"no index":              {func(a *account) { delete(a.indexes, "due") }, "stack: table", doctor.Wrong, "no index due"},
		"an index on its way":   {func(a *account) { a.indexes["due"] = "CREATING" }, "stack: table", doctor.Note, "CREATING"},
		"no bucket": {func(a *account) {
			a.faults = map[string]string{"s3:ListBucket": awsaccount.WhyMissing}
		}, "stack: bucket", doctor.Wrong, "not there"},
		"machine":       {func(a *account) { a.machine = "DELETING" }, "stack: state machine", doctor.Wrong, "DELETING"},
		"function":      {func(a *account) { a.function.Update, a.function.Reason = "Failed", "because" }, "stack: function drive", doctor.Wrong, "because"},
		"none reserved": {func(a *account) { a.function.Reserved = 0 }, "stack: function api", doctor.Wrong, "never runs"},
		"reserved":      {func(a *account) { a.function.Reserved = 5 }, "stack: functions", doctor.OK, "api 5"},
		"dead":          {func(a *account) { a.queue.Dead = 2 }, "stack: inbox", doctor.Wrong, "2 messages are dead"},
		"no key":        {func(a *account) { a.secret = `{"id":"admin"}` }, "stack: admin key", doctor.Wrong, "does not hold a key"},
		"another key":   {func(a *account) { a.secret = `{"id":"admin","secret":"other"}` }, "stack: API", doctor.Wrong, "does not take the admin's key"},
		"no API":        {func(a *account) { a.stack.Outputs["ApiUrl"] = "http://127.0.0.1:1" }, "stack: API", doctor.Wrong, "no answer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := well(t)
			c.change(a)
			r := doctor.AWS(t.Context(), a, "perdure")
			has(t, r, c.check, c.status, c.text)
			require.Equal(t, c.status != doctor.Wrong, r.OK)
			require.NotContains(t, strings.ToLower(text(t, r)), "sekret")
		})
	}
}

func text(t *testing.T, r doctor.Report) string {
	t.Helper()
	data, err := json.Marshal(r)
	require.NoError(t, err)
	return string(data)
}
