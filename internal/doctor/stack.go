package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/perdure/perdure/internal/adapter/awsaccount"
	"github.com/perdure/perdure/internal/client"
	"github.com/perdure/perdure/internal/env"
)

// AWS looks at an account, and at the stack of this name in it.
func AWS(ctx context.Context, a Account, stack string) Report {
	var r Report
	who, err := a.Identity(ctx)
	if err != nil {
		// Nothing else would be answered either.
		c := unanswered("account", err)
		c.Status = Wrong
		r.add(c)
		return r.done()
	}
	r.add(Check{Name: "account", Status: OK, Text: fmt.Sprintf("%s in %s, as %s", who.Account, a.Region(), who.ARN)})
	limits(ctx, a, &r)
	look(ctx, a, stack, &r)
	return r.done()
}

// Outputs of the stack, by the names that it gives them.
const (
	outputAPI     = "ApiUrl"
	outputKey     = "AdminKeySecret"
	outputTable   = "Table"
	outputBucket  = "Bucket"
	outputMachine = "Machine"
	outputInbox   = "InboxUrl"
	outputWork    = "WorkQueueUrl"
)

// look goes through the stack.
func look(ctx context.Context, a Account, name string, r *Report) {
	s, err := a.Stack(ctx, name)
	var f *awsaccount.FaultError
	switch {
	case errors.As(err, &f) && f.Why == awsaccount.WhyMissing:
		r.add(Check{Name: "stack", Status: Note, Text: "there is no stack " + name + " in " + a.Region(), Do: "deploy it with \"make deploy\", or say with --stack and --region which it is"})
		return
	case err != nil:
		r.add(unanswered("stack", err))
		return
	}
	r.add(standing(name, s))
	var missing []string
	for _, o := range []string{outputAPI, outputKey, outputTable, outputBucket, outputMachine, outputInbox, outputWork} {
		if s.Outputs[o] == "" {
			missing = append(missing, o)
		}
	}
	if len(missing) > 0 {
		r.add(Check{Name: "stack: outputs", Status: Wrong, Text: "it does not say its " + strings.Join(missing, ", "), Do: "deploy it again, with this version"})
	}
	each(s.Outputs[outputTable], func(v string) { r.add(table(ctx, a, v)) })
	each(s.Outputs[outputBucket], func(v string) {
		r.add(found("stack: bucket", v, a.Bucket(ctx, v)))
	})
	each(s.Outputs[outputMachine], func(v string) {
		status, err := a.Machine(ctx, v)
		r.add(active("stack: state machine", v, status, err))
	})
	r.add(functions(ctx, a, name)...)
	each(s.Outputs[outputInbox], func(v string) { r.add(queue(ctx, a, "stack: inbox", v)) })
	each(s.Outputs[outputWork], func(v string) { r.add(queue(ctx, a, "stack: work queue", v)) })
	var key string
	each(s.Outputs[outputKey], func(v string) {
		var c Check
		c, key = secret(ctx, a, v)
		r.add(c)
	})
	each(s.Outputs[outputAPI], func(v string) { r.add(front(ctx, v, key)) })
}

// each does something with a value that is there.
func each(value string, do func(string)) {
	if value != "" {
		do(value)
	}
}

func standing(name string, s awsaccount.Stack) Check {
	c := Check{Name: "stack", Status: OK, Text: name + " is " + s.Status}
	switch {
	case strings.HasSuffix(s.Status, "_IN_PROGRESS"):
		c.Status, c.Do = Note, "wait until it is done, and look again"
	case s.Status == "UPDATE_ROLLBACK_COMPLETE":
		c.Status, c.Do = Note, "the last deployment failed and was taken back: see the stack's events"
	case strings.Contains(s.Status, "FAILED"), strings.Contains(s.Status, "ROLLBACK"), strings.Contains(s.Status, "DELETE"):
		c.Status, c.Do = Wrong, "see the stack's events, and deploy it again"
		if s.Reason != "" {
			c.Text += ": " + s.Reason
		}
	}
	return c
}

func found(name, what string, err error) Check {
	if err != nil {
		return unanswered(name, err)
	}
	return Check{Name: name, Status: OK, Text: what}
}

func active(name, what, status string, err error) Check {
	c := found(name, what, err)
	if err == nil && status != "ACTIVE" {
		c.Status, c.Text, c.Do = Wrong, what+" is "+status, "wait, if it is being made; else deploy the stack again"
	}
	return c
}

func table(ctx context.Context, a Account, name string) Check {
	status, indexes, err := a.Table(ctx, name)
	c := active("stack: table", name, status, err)
	if c.Status != OK {
		return c
	}
	for _, index := range []string{env.IndexList, env.IndexDue, env.IndexTodo} {
		switch status, ok := indexes[index]; {
		case !ok:
			c.Status, c.Text, c.Do = Wrong, name+" has no index "+index, "deploy the stack again, with this version"
			return c
		case status != "ACTIVE" && status != "":
			c.Status, c.Text, c.Do = Note, name+"'s index "+index+" is "+status, "lists are not whole until it is done"
		}
	}
	return c
}

// functions looks at each, and says one line if all are well.
func functions(ctx context.Context, a Account, stack string) []Check {
	var bad []Check
	var own []string
	for _, name := range env.FunctionNames() {
		f, err := a.Function(ctx, stack+"-"+name)
		c := found("stack: function "+name, f.State, err)
		switch {
		case err != nil:
		case f.Update == "Failed" || f.State == "Failed":
			c.Status, c.Text, c.Do = Wrong, "its last update failed: "+f.Reason, "deploy the stack again"
		case f.Reserved == 0:
			c.Status, c.Text, c.Do = Wrong, "it has nothing of the functions at once, and so never runs", "take its reserved concurrency away, or give it some"
		case f.Reserved > 0:
			own = append(own, fmt.Sprintf("%s %d", name, f.Reserved))
		}
		if c.Status != OK {
			bad = append(bad, c)
			if c.Permission != "" {
				return bad // the others would say the same
			}
		}
	}
	if len(bad) > 0 {
		return bad
	}
	c := Check{Name: "stack: functions", Status: OK, Text: fmt.Sprintf("all %d are there", len(env.FunctionNames()))}
	if len(own) > 0 {
		c.Text += "; reserved: " + strings.Join(own, ", ")
	}
	return []Check{c}
}

func queue(ctx context.Context, a Account, name, url string) Check {
	q, err := a.Queue(ctx, url)
	c := found(name, fmt.Sprintf("%d messages wait", q.Waiting), err)
	if err == nil && q.Dead > 0 {
		c.Status, c.Text = Wrong, fmt.Sprintf("%d messages are dead: nobody could handle them", q.Dead)
		c.Do = "see what is wrong with them, and redrive them: docs/OPERATIONS.md"
	}
	return c
}

// secret sees that the admin's key is one, and makes it.
func secret(ctx context.Context, a Account, arn string) (c Check, key string) {
	const name = "stack: admin key"
	text, err := a.Secret(ctx, arn)
	if err != nil {
		return unanswered(name, err), ""
	}
	fields := map[string]string{}
	if json.Unmarshal([]byte(text), &fields) != nil || fields[env.SecretID] == "" || fields[env.SecretText] == "" {
		return Check{
			Name: name, Status: Wrong, Text: "the entry " + arn + " does not hold a key",
			Do: fmt.Sprintf("put {%q: %q, %q: \"…\"} there", env.SecretID, env.SecretAdmin, env.SecretText),
		}, ""
	}
	return Check{Name: name, Status: OK, Text: "it can be read, from " + arn}, "pk_" + fields[env.SecretID] + "_" + fields[env.SecretText]
}

// front asks the API itself, as a client does.
func front(ctx context.Context, url, key string) Check {
	c := Check{Name: "stack: API", Status: Wrong}
	about, err := client.New(url, "").About(ctx)
	if err != nil || about.Name != serverName {
		c.Text, c.Do = "what answers at "+url+" is no server of sessions", "see the log of the function api"
		if err != nil {
			c.Text = line(err)
		}
		if _, ok := errors.AsType[*client.UnreachableError](err); ok {
			c.Do = "see that the address can be reached from here"
		}
		return c
	}
	c.Status, c.Text = OK, fmt.Sprintf("%s %s answers at %s", about.Name, about.Version, url)
	if key == "" {
		return c
	}
	me, err := client.New(url, key).Me(ctx)
	switch {
	case err != nil:
		c.Status, c.Text, c.Do = Wrong, "it does not take the admin's key: "+line(err), "see the log of the function api"
	case !slices.Contains(me.Scopes, "admin"):
		c.Status, c.Text = Wrong, "the admin's key is none of an admin"
	}
	return c
}
