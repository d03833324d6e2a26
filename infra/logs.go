package main

import (
	"maps"
	"slices"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/constructs-go/constructs/v10"
)

type logsProps struct {
	Stack string
	Days  int
}

// newLogGroup keeps entries for a while and goes with the stack: logs hold ids
// and numbers, and the session's own log is the record.
func newLogGroup(scope constructs.Construct, id, name string, props logsProps) awslogs.LogGroup {
	return awslogs.NewLogGroup(scope, &id, &awslogs.LogGroupProps{
		LogGroupName:  &name,
		Retention:     retentions()[props.Days],
		RemovalPolicy: awscdk.RemovalPolicy_DESTROY,
	})
}

// retentions are the spans that CloudWatch Logs keeps entries for, by their days.
func retentions() map[int]awslogs.RetentionDays {
	return map[int]awslogs.RetentionDays{
		1:    awslogs.RetentionDays_ONE_DAY,
		3:    awslogs.RetentionDays_THREE_DAYS,
		5:    awslogs.RetentionDays_FIVE_DAYS,
		7:    awslogs.RetentionDays_ONE_WEEK,
		14:   awslogs.RetentionDays_TWO_WEEKS,
		30:   awslogs.RetentionDays_ONE_MONTH,
		60:   awslogs.RetentionDays_TWO_MONTHS,
		90:   awslogs.RetentionDays_THREE_MONTHS,
		180:  awslogs.RetentionDays_SIX_MONTHS,
		365:  awslogs.RetentionDays_ONE_YEAR,
		731:  awslogs.RetentionDays_TWO_YEARS,
		1827: awslogs.RetentionDays_FIVE_YEARS,
		3653: awslogs.RetentionDays_TEN_YEARS,
	}
}

func logDays() []int {
	return slices.Sorted(maps.Keys(retentions()))
}
