package localstack_test

import (
	"crypto/rand"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	sfntypes "github.com/aws/aws-sdk-go-v2/service/sfn/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/stretchr/testify/require"
)

// reliedOn are questions that MiniStack answers as AWS does without our help, and
// on whose answers the design rests.
func reliedOn() []question {
	return []question{
		{"closed-name", closedName},
		{"timeout-is-no-failure", func(t *testing.T, w *world) bool {
			machine := w.machine(t, strings.TrimSuffix(waits(rand.Text(), `"TimeoutSeconds":1,"Catch":[{"ErrorEquals":["States.TaskFailed"],"Next":"B"}],`), "}")+`,"B":{"Type":"Succeed"}}`)
			_, failure := w.end(t, w.start(t, machine, "{}"))
			return failure == "States.Timeout"
		}},
		{"function-timeout", func(t *testing.T, w *world) bool {
			_, failure := w.end(t, w.start(t, w.machine(t, call("invoke", "Answer", `{"seconds":4}`, `"TimeoutSeconds":1,`)), "{}"))
			return failure == "States.Timeout"
		}},
		{"map-catch", func(t *testing.T, w *world) bool {
			machine := w.machine(t, `{"A":{"Type":"Map","ItemsPath":"$.items","MaxConcurrency":2,"ItemSelector":{"n.$":"$$.Map.Item.Value"},
				"ItemProcessor":{"StartAt":"I","States":{"I":{"Type":"Task","Resource":"arn:aws:states:::lambda:invoke",
				"Parameters":{"FunctionName":"<Fail>","Payload.$":"$"},"ResultSelector":{},"Catch":[{"ErrorEquals":["States.ALL"],"ResultPath":null,"Next":"L"}],"End":true},
				"L":{"Type":"Pass","Result":{},"End":true}}},"ResultPath":null,"End":true}}`)
			status, _ := w.end(t, w.start(t, machine, `{"items":[1,2,3]}`))
			return status == sfntypes.ExecutionStatusSucceeded
		}},
		{"poison-reaches-the-dead", poison},
		{"big-message", func(t *testing.T, w *world) bool {
			send := func(n int) string {
				_, err := w.sqs.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: aws.String(w.out["Dead"]), MessageBody: aws.String(strings.Repeat("x", n)), MessageGroupId: aws.String("big"), MessageDeduplicationId: aws.String(rand.Text())})
				return code(err)
			}
			fits, not := send(1<<20), send(1<<20+1)
			return fits == "" && not != ""
		}},
		{"put-once", func(t *testing.T, w *world) bool {
			put := func() string {
				_, err := w.s3.PutObject(t.Context(), &s3.PutObjectInput{Bucket: aws.String(w.out["Bucket"]), Key: aws.String("once"), Body: strings.NewReader("x"), IfNoneMatch: aws.String("*")})
				return code(err)
			}
			defer func() {
				_, err := w.s3.DeleteObject(t.Context(), &s3.DeleteObjectInput{Bucket: aws.String(w.out["Bucket"]), Key: aws.String("once")})
				require.NoError(t, err)
			}()
			first, second := put(), put()
			return first == "" && second == "PreconditionFailed"
		}},
		{"transaction-old-items", oldItems},
		{"transaction-again", again},
		{"item-sizes", func(t *testing.T, w *world) bool {
			many := make([]types.TransactWriteItem, 101)
			for i := range many {
				many[i] = w.put(rand.Text(), "")
			}
			_, err := w.dynamo.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String(w.out["Table"]), Item: w.item("big", strings.Repeat("x", 410_000))})
			return code(err) == "ValidationException" && code(w.transact(t, "", many...)) == "ValidationException"
		}},
		{"capacity", func(t *testing.T, w *world) bool {
			got, err := w.dynamo.TransactWriteItems(t.Context(), &dynamodb.TransactWriteItemsInput{
				TransactItems: []types.TransactWriteItem{w.put(rand.Text(), strings.Repeat("x", 3000))}, ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal,
			})
			require.NoError(t, err)
			return len(got.ConsumedCapacity) == 1 && *got.ConsumedCapacity[0].CapacityUnits == 6
		}},
	}
}

// closedName starts what has ended, and what runs with another input.
func closedName(t *testing.T, w *world) bool {
	start := func(machine, name, input string) string {
		made, err := w.sfn.StartExecution(t.Context(), &sfn.StartExecutionInput{StateMachineArn: &machine, Name: &name, Input: &input})
		if err == nil && strings.Contains(name, "ended") {
			w.end(t, *made.ExecutionArn)
		}
		return code(err)
	}
	short, long := w.machine(t, `{"A":{"Type":"Succeed"}}`), w.machine(t, waits(rand.Text(), `"TimeoutSeconds":20,`))
	ended, running := "ended"+rand.Text(), rand.Text()
	require.Empty(t, start(short, ended, "{}"))
	require.Empty(t, start(long, running, "{}"))
	const exists = "ExecutionAlreadyExists"
	return start(short, ended, "{}") == exists && start(long, running, `{"other":1}`) == exists
}

// poison sends a message that always fails and one behind it in its group.
func poison(t *testing.T, w *world) bool {
	word := rand.Text()
	w.send(t, "Poisoned", "poison it", "one")
	w.send(t, "Poisoned", "say "+word+" on", "one")
	w.hears(t, word)
	return eventually(t, func() bool { return w.left(t, "Poisoned") == "0+0" && w.left(t, "Dead") != "0+0" })
}

func (w *world) item(key, value string) map[string]types.AttributeValue {
	item := map[string]types.AttributeValue{"k": &types.AttributeValueMemberS{Value: key}}
	if value != "" {
		item["v"] = &types.AttributeValueMemberS{Value: value}
	}
	return item
}

// put is an item that must not be there yet.
func (w *world) put(key, value string) types.TransactWriteItem {
	return types.TransactWriteItem{Put: &types.Put{
		TableName: aws.String(w.out["Table"]), Item: w.item(key, value), ConditionExpression: aws.String("attribute_not_exists(k)"),
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}}
}

func (w *world) transact(t *testing.T, token string, items ...types.TransactWriteItem) error {
	t.Helper()
	in := &dynamodb.TransactWriteItemsInput{TransactItems: items}
	if token != "" {
		in.ClientRequestToken = &token
	}
	_, err := w.dynamo.TransactWriteItems(t.Context(), in)
	return err
}

// oldItems sees why a transaction was refused, and what is there instead.
func oldItems(t *testing.T, w *world) bool {
	key := rand.Text()
	require.NoError(t, w.transact(t, "", w.put(key, "7")))
	var refused *types.TransactionCanceledException
	require.ErrorAs(t, w.transact(t, "", w.put(rand.Text(), ""), w.put(key, "8")), &refused)
	reasons := refused.CancellationReasons
	old, _ := reasons[1].Item["v"].(*types.AttributeValueMemberS)
	return *reasons[0].Code == "None" && *reasons[1].Code == "ConditionalCheckFailed" && old != nil && old.Value == "7"
}

// again repeats a transaction under its token: it is not done twice. Other items
// under that token are refused.
func again(t *testing.T, w *world) bool {
	token, key := rand.Text(), rand.Text()
	require.NoError(t, w.transact(t, token, w.put(key, "")))
	return w.transact(t, token, w.put(key, "")) == nil && code(w.transact(t, token, w.put(rand.Text(), ""))) == "IdempotentParameterMismatchException"
}
