package dynamotest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/internal/adapter/dynamo"
)

// patience is a ceiling for what takes an emulator milliseconds, and AWS some
// seconds.
const patience = 2 * time.Minute

// Table makes an empty table for a test, that goes with it. It has a name that
// none had before: DynamoDB remembers the tokens of a table's transactions
// longer than the table.
func Table(tb testing.TB, cfg aws.Config) string {
	tb.Helper()
	name := "dynamo-" + strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' {
			return r
		}
		return '_'
	}, tb.Name())
	// A table's name has 255 bytes at most.
	name = fmt.Sprintf("%s-%016x", name[:min(len(name), 200)], rand.Uint64())
	client := dynamodb.NewFromConfig(cfg)
	_, err := client.CreateTable(tb.Context(), dynamo.Schema().CreateTableInput(name))
	if _, made := errors.AsType[*types.ResourceInUseException](err); !made { // by a try whose answer was lost
		require.NoError(tb, err)
	}
	tb.Cleanup(func() {
		_, err := client.DeleteTable(context.WithoutCancel(tb.Context()), &dynamodb.DeleteTableInput{TableName: aws.String(name)})
		if _, gone := errors.AsType[*types.ResourceNotFoundException](err); !gone {
			require.NoError(tb, err)
		}
	})
	waiter := dynamodb.NewTableExistsWaiter(client)
	require.NoError(tb, waiter.Wait(tb.Context(), &dynamodb.DescribeTableInput{TableName: aws.String(name)}, patience))
	return name
}
