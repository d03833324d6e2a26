package main

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/perdure/perdure/internal/env"
)

// restoreDays is how far back the table can be restored: as long as an execution
// may wait for an answer, and the most that DynamoDB has.
const restoreDays = 35

type tableProps struct {
	Keep bool
}

// newTable is the one table. It is on demand, so an idle one costs its bytes.
func newTable(scope constructs.Construct, id string, props tableProps) awsdynamodb.Table {
	table := awsdynamodb.NewTable(scope, &id, &awsdynamodb.TableProps{
		PartitionKey: attribute(env.KeyPartition, awsdynamodb.AttributeType_STRING),
		SortKey:      attribute(env.KeySort, awsdynamodb.AttributeType_STRING),
		BillingMode:  awsdynamodb.BillingMode_PAY_PER_REQUEST,
		PointInTimeRecoverySpecification: &awsdynamodb.PointInTimeRecoverySpecification{
			PointInTimeRecoveryEnabled: jsii.Bool(true),
			RecoveryPeriodInDays:       jsii.Number(restoreDays),
		},
		TimeToLiveAttribute: jsii.String(env.KeyExpiry),
		DeletionProtection:  &props.Keep,
		RemovalPolicy:       removal(props.Keep),
	})
	table.AddGlobalSecondaryIndex(index(env.IndexList, env.IndexListPartition, env.IndexListSort, awsdynamodb.AttributeType_STRING, awsdynamodb.ProjectionType_ALL))
	// The row behind a key of this one is read again before anything is done, so
	// it holds no more: it is written with every head.
	table.AddGlobalSecondaryIndex(index(env.IndexDue, env.IndexDuePartition, env.IndexDueSort, awsdynamodb.AttributeType_NUMBER, awsdynamodb.ProjectionType_KEYS_ONLY))
	table.AddGlobalSecondaryIndex(index(env.IndexTodo, env.IndexTodoPartition, env.IndexTodoSort, awsdynamodb.AttributeType_STRING, awsdynamodb.ProjectionType_ALL))
	return table
}

func index(name, partition, sort string, sortType awsdynamodb.AttributeType, projection awsdynamodb.ProjectionType) *awsdynamodb.GlobalSecondaryIndexProps {
	return &awsdynamodb.GlobalSecondaryIndexProps{
		IndexName:      &name,
		PartitionKey:   attribute(partition, awsdynamodb.AttributeType_STRING),
		SortKey:        attribute(sort, sortType),
		ProjectionType: projection,
	}
}

func attribute(name string, kind awsdynamodb.AttributeType) *awsdynamodb.Attribute {
	return &awsdynamodb.Attribute{Name: &name, Type: kind}
}

// removal is what becomes of data when the stack goes.
func removal(keep bool) awscdk.RemovalPolicy {
	if keep {
		return awscdk.RemovalPolicy_RETAIN
	}
	return awscdk.RemovalPolicy_DESTROY
}
