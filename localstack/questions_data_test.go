package localstack_test

import (
	"crypto/rand"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	s3types "github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/localstack/target"
)

const (
	dynamoGuide = "https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/"
	transaction = "https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_TransactWriteItems.html"
	conditional = "https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html"
	validation  = "ValidationException"
	unmet       = "PreconditionFailed"
)

// tableQuestions are about items and transactions.
var tableQuestions = []question{
	{
		name: "transaction-old-items", ask: oldItems, source: transaction,
		aws: "A transaction that is cancelled says for each item why, and where a condition failed what is there.",
	},
	{
		name: "transaction-again", ask: again, source: transaction,
		aws: "A transaction under the token of another one is not carried out; with other items it is refused with IdempotentParameterMismatchException.",
	},
	{
		name: "transaction-conflict", ask: conflict, source: dynamoGuide + "transaction-apis.html#transaction-conflict-handling",
		aws: "Of transactions on one item at the same time some are cancelled with TransactionConflict.",
		differs: map[string]string{
			target.NameEmulator:   "it carries out one after the other",
			target.NameLocalStack: "DynamoDB Local carries out one after the other",
		},
	},
	{
		name: "transaction-sizes", source: transaction,
		aws: "A transaction has at most 100 items and 4 MB.",
		ask: func(t *testing.T, w *world) bool {
			many, large := make([]types.TransactWriteItem, 101), make([]types.TransactWriteItem, 11)
			for i := range many {
				many[i] = w.item(rand.Text(), "").absent()
			}
			for i := range large {
				large[i] = w.item(rand.Text(), strings.Repeat("x", 399_000)).absent()
			}
			return code(w.transact(t, "", many...)) == validation && code(w.transact(t, "", large...)) == validation
		},
	},
	{
		name: "item-size", source: dynamoGuide + "Constraints.html",
		aws: "An item has at most 400 KB, its names included.",
		ask: func(t *testing.T, w *world) bool {
			put := func(n int) string {
				_, err := w.dynamo.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String(w.out["Table"]), Item: w.item("big", strings.Repeat("x", n)).item})
				return code(err)
			}
			// The key's name and value and the other's name have five bytes.
			return put(400<<10-5) == "" && put(400<<10-4) == validation
		},
	},
	{
		name: "capacity", source: dynamoGuide + "read-write-operations.html",
		aws: "A write takes a unit for each KB begun.",
		ask: func(t *testing.T, w *world) bool {
			got, err := w.dynamo.PutItem(t.Context(), &dynamodb.PutItemInput{
				TableName: aws.String(w.out["Table"]), Item: w.item(rand.Text(), strings.Repeat("x", 3000)).item, ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal,
			})
			require.NoError(t, err)
			return got.ConsumedCapacity != nil && *got.ConsumedCapacity.CapacityUnits == 3
		},
	},
	{
		name: "transaction-capacity", source: dynamoGuide + "transaction-apis.html#transaction-capacity-handling",
		aws:     "A write in a transaction takes two units for each KB begun.",
		differs: map[string]string{target.NameLocalStack: "DynamoDB Local says four"},
		ask: func(t *testing.T, w *world) bool {
			got, err := w.dynamo.TransactWriteItems(t.Context(), &dynamodb.TransactWriteItemsInput{
				TransactItems: []types.TransactWriteItem{w.item(rand.Text(), strings.Repeat("x", 3000)).absent()}, ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal,
			})
			require.NoError(t, err)
			return len(got.ConsumedCapacity) == 1 && *got.ConsumedCapacity[0].CapacityUnits == 6
		},
	},
}

// objectQuestions are about conditional writes.
var objectQuestions = []question{
	{
		name: "put-once", source: conditional,
		aws: "PutObject with If-None-Match: * is refused with PreconditionFailed where there is an object.",
		ask: func(t *testing.T, w *world) bool {
			put := func() string {
				_, err := w.s3.PutObject(t.Context(), &s3.PutObjectInput{Bucket: aws.String(w.out["Bucket"]), Key: aws.String("once"), Body: strings.NewReader("x"), IfNoneMatch: aws.String("*")})
				return code(err)
			}
			defer w.forget(t, "once")
			first, second := put(), put()
			return first == "" && second == unmet
		},
	},
	{
		name: "put-over-what-was-read", source: conditional,
		aws: "PutObject with If-Match is refused with PreconditionFailed unless the object has that ETag.",
		ask: func(t *testing.T, w *world) bool {
			put := func(body string, over *string) (string, *string) {
				made, err := w.s3.PutObject(t.Context(), &s3.PutObjectInput{Bucket: aws.String(w.out["Bucket"]), Key: aws.String("over"), Body: strings.NewReader(body), IfMatch: over})
				if err != nil {
					return code(err), nil
				}
				return "", made.ETag
			}
			defer w.forget(t, "over")
			_, read := put("a", nil)
			fits, _ := put("b", read)
			late, _ := put("c", read)
			return fits == "" && late == unmet
		},
	},
	{
		name: "delete-what-was-read", ask: deleteIfMatch, source: "https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-deletes.html",
		aws:     "DeleteObject with If-Match is refused with PreconditionFailed unless the object has that ETag.",
		differs: map[string]string{target.NameLocalStack: "it refuses every one with NotImplemented"},
	},
	{
		name: "listing-order", ask: listingOrder, source: "https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListObjectsV2.html",
		aws:     "Objects are listed in the order of their keys' bytes, from after StartAfter on, whatever the encoding of the answer.",
		differs: map[string]string{target.NameLocalStack: "it compares StartAfter with keys as they are encoded"},
	},
	{
		name: "parts-once", ask: partsOnce, source: conditional,
		aws: "CompleteMultipartUpload with If-None-Match: * is refused with PreconditionFailed where there is an object.",
	},
}

// row is an item of the stack's table.
type row struct {
	table string
	item  map[string]types.AttributeValue
}

func (w *world) item(key, value string) row {
	item := map[string]types.AttributeValue{"k": &types.AttributeValueMemberS{Value: key}}
	if value != "" {
		item["v"] = &types.AttributeValueMemberS{Value: value}
	}
	return row{w.out["Table"], item}
}

// absent puts an item that must not be there yet.
func (r row) absent() types.TransactWriteItem {
	return types.TransactWriteItem{Put: &types.Put{
		TableName: &r.table, Item: r.item, ConditionExpression: aws.String("attribute_not_exists(k)"),
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
	require.NoError(t, w.transact(t, "", w.item(key, "7").absent()))
	var refused *types.TransactionCanceledException
	require.ErrorAs(t, w.transact(t, "", w.item(rand.Text(), "").absent(), w.item(key, "8").absent()), &refused)
	reasons := refused.CancellationReasons
	old, _ := reasons[1].Item["v"].(*types.AttributeValueMemberS)
	return *reasons[0].Code == "None" && *reasons[1].Code == "ConditionalCheckFailed" && old != nil && old.Value == "7"
}

// again repeats a transaction under its token: it is not done twice. Other items
// under that token are refused.
func again(t *testing.T, w *world) bool {
	token, key := rand.Text(), rand.Text()
	require.NoError(t, w.transact(t, token, w.item(key, "").absent()))
	return w.transact(t, token, w.item(key, "").absent()) == nil && code(w.transact(t, token, w.item(rand.Text(), "").absent())) == "IdempotentParameterMismatchException"
}

// conflict has many transactions write one item at the same time.
func conflict(t *testing.T, w *world) bool {
	const writers, writes = 16, 8
	update := types.TransactWriteItem{Update: &types.Update{
		TableName: aws.String(w.out["Table"]), Key: w.item(rand.Text(), "").item, UpdateExpression: aws.String("ADD n :one"),
		ExpressionAttributeValues: map[string]types.AttributeValue{":one": &types.AttributeValueMemberN{Value: "1"}},
	}}
	var all sync.WaitGroup
	said := make(chan error, writers*writes)
	for range writers {
		all.Go(func() {
			for range writes {
				said <- w.transact(t, "", update)
			}
		})
	}
	all.Wait()
	close(said)
	conflicts := 0
	for err := range said {
		if err == nil {
			continue
		}
		var refused *types.TransactionCanceledException
		require.ErrorAs(t, err, &refused)
		require.Equal(t, "TransactionConflict", *refused.CancellationReasons[0].Code)
		conflicts++
	}
	return conflicts > 0
}

// forget removes an object, without which the stack's bucket does not go.
func (w *world) forget(t *testing.T, key string) {
	t.Helper()
	_, err := w.s3.DeleteObject(t.Context(), &s3.DeleteObjectInput{Bucket: aws.String(w.out["Bucket"]), Key: &key})
	require.NoError(t, err)
}

func deleteIfMatch(t *testing.T, w *world) bool {
	bucket, key := aws.String(w.out["Bucket"]), aws.String("delete")
	defer w.forget(t, *key)
	put := func(body string) *string {
		made, err := w.s3.PutObject(t.Context(), &s3.PutObjectInput{Bucket: bucket, Key: key, Body: strings.NewReader(body)})
		require.NoError(t, err)
		return made.ETag
	}
	remove := func(over *string) string {
		_, err := w.s3.DeleteObject(t.Context(), &s3.DeleteObjectInput{Bucket: bucket, Key: key, IfMatch: over})
		return code(err)
	}
	old, now := put("a"), put("b")
	late, fits := remove(old), remove(now)
	return late == unmet && fits == ""
}

// listingOrder goes on after a key of letters beyond ASCII, which come after all
// others.
func listingOrder(t *testing.T, w *world) bool {
	keys := []string{"list/a", "list/z", "list/é"}
	for _, key := range keys {
		_, err := w.s3.PutObject(t.Context(), &s3.PutObjectInput{Bucket: aws.String(w.out["Bucket"]), Key: &key, Body: strings.NewReader("x")})
		require.NoError(t, err)
		defer w.forget(t, key)
	}
	for i := range keys {
		got, err := w.s3.ListObjectsV2(t.Context(), &s3.ListObjectsV2Input{
			Bucket: aws.String(w.out["Bucket"]), Prefix: aws.String("list/"), StartAfter: &keys[i], EncodingType: s3types.EncodingTypeUrl,
		})
		require.NoError(t, err)
		var listed []string
		for _, object := range got.Contents {
			key, err := url.QueryUnescape(*object.Key)
			require.NoError(t, err)
			listed = append(listed, key)
		}
		if !slices.Equal(listed, keys[i+1:]) {
			return false
		}
	}
	return true
}

func partsOnce(t *testing.T, w *world) bool {
	bucket, key := aws.String(w.out["Bucket"]), aws.String("parts")
	defer w.forget(t, *key)
	upload := func() string {
		begun, err := w.s3.CreateMultipartUpload(t.Context(), &s3.CreateMultipartUploadInput{Bucket: bucket, Key: key})
		require.NoError(t, err)
		part, err := w.s3.UploadPart(t.Context(), &s3.UploadPartInput{Bucket: bucket, Key: key, UploadId: begun.UploadId, PartNumber: aws.Int32(1), Body: strings.NewReader("x")})
		require.NoError(t, err)
		_, err = w.s3.CompleteMultipartUpload(t.Context(), &s3.CompleteMultipartUploadInput{
			Bucket: bucket, Key: key, UploadId: begun.UploadId, IfNoneMatch: aws.String("*"),
			MultipartUpload: &s3types.CompletedMultipartUpload{Parts: []s3types.CompletedPart{{ETag: part.ETag, PartNumber: aws.Int32(1)}}},
		})
		if err != nil {
			_, aborted := w.s3.AbortMultipartUpload(t.Context(), &s3.AbortMultipartUploadInput{Bucket: bucket, Key: key, UploadId: begun.UploadId})
			require.Contains(t, []string{"", "NoSuchUpload"}, code(aborted))
		}
		return code(err)
	}
	first, second := upload(), upload()
	return first == "" && second == unmet
}
