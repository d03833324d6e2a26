package faults

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/internal/adapter/dynamo"
	"github.com/perdure/perdure/internal/adapter/dynamo/dynamotest"
	"github.com/perdure/perdure/internal/adapter/openai/openaitest"
	"github.com/perdure/perdure/internal/api"
	"github.com/perdure/perdure/internal/env"
	"github.com/perdure/perdure/internal/host"
)

// troubles are what may become of a write of the table, each more than once.
func troubles() map[string]func(t *dynamotest.Transport) {
	const write = "TransactWriteItems"
	return map[string]func(t *dynamotest.Transport){
		"a conflict of transactions": func(t *dynamotest.Transport) {
			t.Inject(write, 2, dynamotest.Cancelled("TransactionConflict", "", ""))
		},
		"a lost answer":         func(t *dynamotest.Transport) { t.Inject(write, 2, dynamotest.LostResponse(nil)) },
		"a lost request":        func(t *dynamotest.Transport) { t.Inject(write, 2, dynamotest.LostRequest()) },
		"throttling":            func(t *dynamotest.Transport) { t.Inject(write, 2, dynamotest.Error("ThrottlingException")) },
		"an error of the table": func(t *dynamotest.Transport) { t.Inject(write, 2, dynamotest.Status(http.StatusInternalServerError)) },
		"all of it": func(t *dynamotest.Transport) {
			t.Inject(write, 1, dynamotest.Cancelled("", "ThrottlingError", "TransactionConflict"))
			t.Inject(write, 1, dynamotest.LostResponse(nil))
			t.Inject(write, 1, dynamotest.LostRequest())
			t.ForgetTokens()
		},
	}
}

// Commands are admitted by a process between which and the table things go
// wrong, while the deployed drive is at work on the session: each is acknowledged
// and is in the log once.
func TestAdmissionsWithATableInTrouble(t *testing.T) {
	t.Parallel()
	w := visit(t)
	once := w.outside(nil)
	w.open(once.name)
	over := make(chan struct{})
	w.model.Enqueue(openaitest.Calls(call("a", once)), openaitest.Reply{Text: "Done.", HoldBefore: true, Gate: over})
	w.model.Fallback = func(openaitest.Request) openaitest.Reply { return openaitest.Text("Yes.", 1) }
	first := w.run("Do it.")
	w.model.asked(t, 2)
	for name, trouble := range troubles() {
		p := w.process(env.FunctionAPI, nil)
		trouble(p.table)
		door := p.door()
		w.runBy(door, "after "+name)
		_, err := door.SteerRun(t.Context(), string(w.key.Session), first, api.SteerRun{Input: say("steered with " + name).Input})
		require.NoError(t, err)
		require.Zero(t, p.table.Left(), name)
	}
	close(over)

	w.sound()
	require.Len(t, once.done(), 1)
	for name := range troubles() {
		require.Equal(t, 1, w.count("run.steered", "steered with "+name))
	}
	steers, delivered := w.count("run.steered", ""), w.count("run.steer_delivered", "")
	require.Equal(t, []int{len(troubles()), len(troubles())}, []int{steers, delivered})
}

// A drive works with a table that answers like this, commit after commit.
func TestADriveWithATableInTrouble(t *testing.T) {
	t.Parallel()
	for name, trouble := range troubles() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := visit(t)
			once := w.outside(nil)
			w.open(once.name)
			p := w.process(env.FunctionDrive, nil)
			w.model.Fallback = func(r openaitest.Request) openaitest.Reply {
				// Each commit meets it: the first of the slice, the one with the
				// model's answer, and the one with the tool's.
				trouble(p.table)
				if strings.Contains(r.Messages(), `"tool"`) {
					return openaitest.Text("Done.", 1)
				}
				return openaitest.Calls(call("a", once))
			}
			once.answers(func(arrival) (int, object) {
				trouble(p.table)
				return http.StatusOK, object{"result": "done"}
			})
			run := w.runBy(w.careless(), "Do it.")
			trouble(p.table)
			answer, err := p.Drive(t.Context(), "request", w.event(1, 1))
			require.NoError(t, err)
			require.Contains(t, string(answer), `"next":"done"`)
			require.Zero(t, p.table.Left())

			require.Equal(t, "Done.", w.until(run, "completed").Output.Text)
			w.sound()
			require.Len(t, w.model.Requests(), 2, "no answer was asked for twice")
			require.Len(t, once.done(), 1)
		})
	}
}

// A build that is older than what is in the log does nothing to it: the drive
// asks for its step again, the API says when to come back. When the log can be
// read, the session goes on.
func TestAnEventOfTheFuture(t *testing.T) {
	t.Parallel()
	w, once, run := gated(t)
	w.decide(w.careless(), run)
	h := w.head()
	before := w.items()
	h.Rev, h.Seq, h.Write = h.Rev+1, h.Seq+1, "newer"
	line := fmt.Appendf(nil, `{"seq":%d,"at":%d,"kind":"run.teleported","v":1,"data":{}}`, h.Seq, h.At)
	require.NoError(t, w.table.Commit(t.Context(), host.Commit{
		Key: w.key, Expect: h.Rev - 1, Head: h, Entries: []host.StoredEntry{{Seq: h.Seq, Data: line}},
	}))
	future := w.record()

	// It is woken, looks, and looks again after a pause.
	row, err := w.table.Row(t.Context(), w.key, "park")
	require.NoError(t, err)
	var parked struct{ Token string }
	require.NoError(t, json.Unmarshal(row.Data, &parked))
	require.NoError(t, w.waker().Complete(t.Context(), parked.Token))
	w.eventually(func() bool {
		models := strings.Count(strings.Join(w.states(w.name(1)), " "), "Model")
		return models >= 3
	}, "the drive does not ask again")
	require.NotContains(t, w.states(w.name(1)), "Recover", "no driver counts as lost")
	for _, path := range []string{"", "/runs/" + run} {
		w.unavailable(http.MethodGet, path, "")
	}
	w.unavailable(http.MethodPost, "/runs", `{"input":"go on"}`)
	require.Equal(t, future, w.record(), "nothing is written")
	require.Zero(t, w.head().Failures)

	w.restore(before)
	w.until(run, "completed")
	require.EqualValues(t, 1, w.sound().Drive.Epoch)
	require.Len(t, once.done(), 1)
}

// unavailable asks for what is answered with 503, and when to come again.
func (w *world) unavailable(method, path, body string) {
	w.Helper()
	resp, err := w.stack.Ask(w.Context(), method, "/v1/sessions/"+string(w.key.Session)+path, "", []byte(body))
	require.NoError(w, err)
	require.NoError(w, resp.Body.Close())
	require.Equal(w, http.StatusServiceUnavailable, resp.StatusCode, path)
	require.NotEmpty(w, resp.Header.Get("Retry-After"))
}

// item is one of the table, as it is stored.
type item = map[string]types.AttributeValue

// items are all of the session's that are its record.
func (w *world) items() []item {
	w.Helper()
	out, err := w.client().Query(w.Context(), &dynamodb.QueryInput{
		TableName: aws.String(w.stack.Outputs["Table"]), ConsistentRead: aws.Bool(true), KeyConditionExpression: aws.String("pk = :pk"),
		ExpressionAttributeValues: item{":pk": &types.AttributeValueMemberS{Value: string(w.key.Tenant) + "#" + string(w.key.Session)}},
	})
	require.NoError(w, err)
	require.Nil(w, out.LastEvaluatedKey)
	return out.Items
}

// record is what the session's items say: without when its head is to be looked
// at again, which the sweep moves whatever is in the log.
func (w *world) record() []item {
	w.Helper()
	all := w.items()
	for _, it := range all {
		if sortKey(it) == headKey {
			for _, name := range []string{"rev", "write", "dsk"} {
				require.Contains(w, it, name)
				delete(it, name)
			}
		}
	}
	return all
}

// restore brings the session back to what it was, as an operator does from a
// table's backup.
func (w *world) restore(to []item) {
	w.Helper()
	name := aws.String(w.stack.Outputs["Table"])
	for _, it := range w.items() {
		if slices.ContainsFunc(to, func(was item) bool { return sortKey(was) == sortKey(it) }) {
			continue
		}
		_, err := w.client().DeleteItem(w.Context(), &dynamodb.DeleteItemInput{TableName: name, Key: item{"pk": it["pk"], "sk": it["sk"]}})
		require.NoError(w, err)
	}
	for _, it := range to {
		if sortKey(it) == headKey {
			// Who has read what is there now must not take it for this one.
			it["rev"] = &types.AttributeValueMemberN{Value: strconv.FormatUint(w.head().Rev+1, 10)}
			it["write"] = &types.AttributeValueMemberS{Value: "restored"}
		}
		_, err := w.client().PutItem(w.Context(), &dynamodb.PutItemInput{TableName: name, Item: it})
		require.NoError(w, err)
	}
}

const headKey = "h#head"

func sortKey(it item) string {
	s, _ := it["sk"].(*types.AttributeValueMemberS)
	return s.Value
}

func (w *world) client() *dynamodb.Client { return dynamo.NewClient(w.stack.Config.Copy()) }
