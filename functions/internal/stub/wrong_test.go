package stub_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/functions/internal/stub"
	"github.com/perdure/perdure/internal/env"
)

// invoked is a function that no client asks, with something wrong around it.
type invoked struct {
	role, event string
	changes     map[string]string
	script      func(a *stub.AWS)
	says        []string
}

// TestWrongSurroundingsOfAnInvocation starts built functions that other services
// invoke where something is missing: the invocation fails with a code, at once,
// and the log says in one line what to do. Nobody has to start them anew.
func TestWrongSurroundingsOfAnInvocation(t *testing.T) {
	t.Parallel()
	table := func(s stub.Script) func(a *stub.AWS) {
		return func(a *stub.AWS) {
			for _, op := range []string{"GetItem", "BatchGetItem", "Query"} {
				a.On("DynamoDB."+op, s)
			}
		}
	}
	for name, c := range map[string]invoked{
		"drive, a variable is missing": {
			role: "drive", event: "drive/first_step.json", changes: map[string]string{env.Machine: ""},
			says: []string{"PERDURE_MACHINE is not set: the stack sets it, so deploy it again"},
		},
		"drive, a secret is missing": {
			role: "drive", event: "drive/first_step.json", script: func(a *stub.AWS) { a.Secrets(nil) },
			says: []string{"the Secrets Manager entry that PERDURE_SIGNING_SECRET names is not there", "deploy the stack again"},
		},
		"drive, the table is missing": {
			role: "drive", event: "drive/first_step.json", script: table(stub.Missing("the table")), says: []string{"there is no such table", "PERDURE_TABLE"},
		},
		"drive, the table may not be read": {
			role: "drive", event: "drive/recover.json", script: table(stub.Denied()), says: []string{"the function's role may not do this"},
		},
		"sweep, the table is missing": {
			role: "sweep", event: "sweep/scheduled.json", script: table(stub.Missing("the table")), says: []string{"there is no such table", "PERDURE_TABLE"},
		},
		"sweep, a number is none": {
			role: "sweep", event: "sweep/scheduled.json", changes: map[string]string{env.PurgeAgain: "soon"}, says: []string{"PERDURE_PURGE_AGAIN_SECONDS", "write a whole number"},
		},
		"deliver, the queue is missing": {
			role: "deliver", event: "deliver/work.json", script: func(a *stub.AWS) {
				a.On("AmazonSQS.SendMessage", stub.Script{Status: http.StatusBadRequest, Body: `{"__type":"com.amazonaws.sqs#QueueDoesNotExist","message":"no"}`})
			},
			says: []string{"there is no such queue", "PERDURE_WORK"},
		},
		"deliver, a variable is missing": {
			role: "deliver", event: "deliver/work.json", changes: map[string]string{env.Work: ""}, says: []string{"PERDURE_WORK is not set"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			aws := newAWS(t)
			if c.script != nil {
				c.script(aws)
			}
			f := start(t, c.role, environ(aws.URL, c.changes))
			body, failed := ask(t, f, sample(t, c.event))
			if c.role == "deliver" && !failed {
				// A batch's answer names what failed.
				require.Contains(t, string(body), "itemIdentifier")
			} else {
				require.True(t, failed, "%s", body)
				var e struct{ ErrorMessage string }
				require.NoError(t, json.Unmarshal(body, &e))
				require.Regexp(t, `^unavailable: the log of request \S+ says why$`, e.ErrorMessage)
			}
			for _, says := range c.says {
				require.Eventually(t, func() bool { return strings.Contains(f.Log(), says) }, hang, tick, "%q is not said in: %s", says, f.Log())
			}
			again, _ := ask(t, f, sample(t, c.event))
			require.NotEmpty(t, again, "it still answers")
		})
	}
}

// TestATableThatHangsHangsNobody: an invocation ends before Lambda would end it,
// and says so.
func TestATableThatHangsHangsNobody(t *testing.T) {
	t.Parallel()
	for role, event := range map[string]string{"drive": "drive/first_step.json", "sweep": "sweep/scheduled.json"} {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			aws := newAWS(t)
			for _, op := range []string{"GetItem", "BatchGetItem", "Query"} {
				aws.On("DynamoDB."+op, stub.Hangs())
			}
			f := start(t, role, environ(aws.URL, nil))
			const allowed = 15 * time.Second
			ctx, cancel := context.WithTimeout(t.Context(), allowed)
			defer cancel()
			body, failed, err := f.Ask(ctx, allowed, sample(t, event))
			require.NoError(t, err, "Lambda would have ended it: %s", f.Log())
			require.True(t, failed)
			require.Contains(t, string(body), "unavailable: the log of request")
		})
	}
}
