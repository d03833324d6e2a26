package doctor

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"

	"github.com/perdure/perdure/internal/adapter/awsaccount"
)

// Account is an AWS account.
type Account interface {
	Region() string
	Identity(ctx context.Context) (awsaccount.Identity, error)
	Quotas(ctx context.Context, service string) ([]awsaccount.Quota, error)
	Concurrency(ctx context.Context) (awsaccount.Concurrency, error)
	Throughput(ctx context.Context) (awsaccount.Throughput, error)
	Stack(ctx context.Context, name string) (awsaccount.Stack, error)
	Table(ctx context.Context, name string) (status string, indexes map[string]string, err error)
	Bucket(ctx context.Context, name string) error
	Machine(ctx context.Context, arn string) (status string, err error)
	Secret(ctx context.Context, arn string) (string, error)
	Queue(ctx context.Context, url string) (awsaccount.Queue, error)
	Function(ctx context.Context, name string) (awsaccount.Function, error)
}

// want is a limit that bounds a stack, and the least that it should be: what AWS
// gives an account that is no new one, in any Region.
type want struct {
	service string
	name    string   // ours
	words   []string // all are in the name that AWS has for it
	code    string   // where it is known; AWS's own answer goes before
	least   float64
	why     string
}

// wants are asked for in this order. Names are what Service Quotas is searched
// by: a code that has been written down wrong would ask for something else.
func wants() []want {
	return []want{
		{"lambda", "functions at once", []string{"concurrent executions"}, codeConcurrency, 1000, "every session whose model or tools are at work has one, and so has every request and every viewer"},
		{"states", "state transitions a second", []string{"statetransition", "refill rate"}, "", 800, "a turn takes up to two"},
		{"states", "state transitions in a burst", []string{"statetransition", "bucket size"}, "", 800, "a turn takes up to two"},
		{"states", "executions started a second", []string{"startexecution", "refill rate"}, "", 150, "every session that begins to work starts one"},
		{"states", "executions started in a burst", []string{"startexecution", "bucket size"}, "", 800, "every session that begins to work starts one"},
		{"states", "waits ended a second", []string{"sendtasksuccess", "refill rate"}, "", 300, "every decision and answer that a session waits for ends one"},
		{"states", "open executions", []string{"open executions"}, "", 100_000, "every session that works or waits has one"},
		{"dynamodb", "writes a second to a table", []string{"table-level write throughput"}, "L-AB614373", 40_000, "a turn writes about 24 units"},
		{"dynamodb", "reads a second from a table", []string{"table-level read throughput"}, "L-CF0CBE56", 40_000, "a call at work reads one unit a second"},
		{"apigateway", "requests a second", []string{"throttle rate"}, "L-8A5B8E43", 2500, "all APIs of the account share it"},
		{"apigateway", "requests in a burst", []string{"throttle burst"}, "L-CDF5615A", 1250, "all APIs of the account share it"},
		{"sqs", "messages of a FIFO queue in flight", []string{"fifo", "flight"}, "", 20_000, "commands that are being worked on"},
		{"secretsmanager", "reads of secrets a second", []string{"getsecretvalue"}, "", 1000, "every process that starts reads two or three"},
	}
}

const codeConcurrency = "L-B99A9384"

// leastUnreserved is what Lambda itself keeps back for functions that have
// nothing for themselves.
const leastUnreserved = 100

// Open finds an account by the usual settings of AWS.
func Open(ctx context.Context, region string) (Account, error) { return awsaccount.Open(ctx, region) }

// limits reads what the account allows.
func limits(ctx context.Context, a Account, r *Report) {
	running, errRunning := a.Concurrency(ctx)
	services := listed(ctx, a)
	for _, w := range wants() {
		s := services[w.service]
		q, found := w.find(s.quotas)
		if w.code == codeConcurrency && errRunning == nil {
			// What Lambda goes by itself: a new account has less than its quota says.
			q, found = awsaccount.Quota{Service: w.service, Code: codeConcurrency, Value: float64(running.Account), Adjustable: true}, true
		}
		switch {
		case found:
			r.add(w.judge(a.Region(), q))
		case s.err != nil && s.told:
		case s.err != nil:
			s.told = true
			c := unanswered(w.service+": limits", s.err)
			c.Service = w.service
			r.add(c)
		default:
			r.add(Check{
				Name: w.service + ": " + w.name, Status: Unknown, Service: w.service, Quota: w.code, Want: w.least,
				Text: "Service Quotas does not list it here", Do: "nothing, unless calls are throttled: then ask AWS support",
			})
		}
	}
	unreserved(r, running, errRunning)
	throughput(ctx, a, r)
}

// service is what Service Quotas lists of one, or why it does not; told says
// that this has been said.
type service struct {
	quotas []awsaccount.Quota
	err    error
	told   bool
}

// listed asks for all services at once: each is several pages.
func listed(ctx context.Context, a Account) map[string]*service {
	services := map[string]*service{}
	var wg sync.WaitGroup
	for _, w := range wants() {
		if services[w.service] != nil {
			continue
		}
		s := new(service)
		services[w.service] = s
		wg.Go(func() { s.quotas, s.err = a.Quotas(ctx, w.service) })
	}
	wg.Wait()
	return services
}

func (w want) find(quotas []awsaccount.Quota) (awsaccount.Quota, bool) {
	for _, q := range quotas {
		name := strings.ToLower(q.Name)
		fits := !strings.Contains(name, "express") && !strings.Contains(name, "synchronous")
		for _, word := range w.words {
			fits = fits && strings.Contains(name, word)
		}
		if fits {
			return q, true
		}
	}
	return awsaccount.Quota{}, false
}

// judge compares a limit with what it should be.
func (w want) judge(region string, q awsaccount.Quota) Check {
	c := Check{Name: w.service + ": " + w.name, Status: OK, Service: w.service, Quota: q.Code, Value: q.Value, Want: w.least}
	c.Text = fmt.Sprintf("%s (%s)", number(q.Value), q.Code)
	if q.Default {
		c.Text += ", which is what AWS gives by default: the account may have less"
	}
	if q.Value >= w.least {
		return c
	}
	c.Status = Ask
	c.Text += fmt.Sprintf("; %s would do: %s", number(w.least), w.why)
	c.Do = fmt.Sprintf("aws service-quotas request-service-quota-increase --region %s --service-code %s --quota-code %s --desired-value %s", region, w.service, q.Code, number(w.least))
	if !q.Adjustable {
		c.Do = "it cannot be raised by a request: ask AWS support about " + q.Code
	}
	return c
}

func unreserved(r *Report, running awsaccount.Concurrency, err error) {
	const name = "lambda: functions at once without a share of their own"
	switch {
	case err != nil:
		r.add(unanswered(name, err))
	case running.Unreserved < min(leastUnreserved, running.Account):
		r.add(Check{
			Name: name, Status: Ask, Service: "lambda", Quota: codeConcurrency, Value: float64(running.Unreserved), Want: leastUnreserved,
			Text: number(float64(running.Unreserved)) + " are left: the rest is reserved by functions of the account",
			Do:   "reserve less, or ask for more functions at once",
		})
	default:
		r.add(Check{Name: name, Status: OK, Service: "lambda", Value: float64(running.Unreserved), Text: number(float64(running.Unreserved))})
	}
}

// throughput is DynamoDB's own word, which it gives without Service Quotas.
func throughput(ctx context.Context, a Account, r *Report) {
	const name = "dynamodb: what a table may take"
	t, err := a.Throughput(ctx)
	if err != nil {
		r.add(unanswered(name, err))
		return
	}
	r.add(Check{Name: name, Status: OK, Service: "dynamodb", Value: float64(t.TableWrite), Text: fmt.Sprintf("%s writes and %s reads a second", number(float64(t.TableWrite)), number(float64(t.TableRead)))})
}

func number(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

// cause is what lies below the SDK's account of its tries.
func cause(err error) error {
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op
	}
	return err
}

// unanswered says why something is not known, and what it takes.
func unanswered(name string, err error) Check {
	c := Check{Name: name, Status: Unknown, Text: line(err)}
	var f *awsaccount.FaultError
	if !errors.As(err, &f) {
		return c
	}
	switch f.Why {
	case awsaccount.WhyOther:
		if f.Code != "" {
			c.Text = f.Action + " is answered with " + f.Code
		}
	case awsaccount.WhyDenied:
		c.Permission = f.Action
		c.Text, c.Do = "it may not be read", "allow "+f.Action+" to whoever asks"
	case awsaccount.WhyCaller:
		c.Status, c.Text = Wrong, "AWS does not know who asks: the credentials are missing, wrong or have expired"
		c.Do = "log in (aws sso login), or set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
	case awsaccount.WhyMissing:
		c.Status, c.Text, c.Do = Wrong, "it is not there", "deploy the stack again"
	case awsaccount.WhyUnreachable:
		c.Status, c.Text = Wrong, "AWS does not answer: "+line(cause(f.Err))
		c.Do = "see that the network is there, and that AWS_ENDPOINT_URL, if set, is right"
	}
	return c
}
