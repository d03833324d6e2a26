package main

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsevents"
	"github.com/aws/aws-cdk-go/awscdk/v2/awseventstargets"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

type rulesProps struct {
	Sweep   awslambda.Function
	Machine machineName
}

// newRules call sweep every minute, and at once when an execution has ended badly.
// What gets lost here is found in the next minute, so it is not tried for long.
func newRules(scope constructs.Construct, id string, props rulesProps) {
	scope = constructs.NewConstruct(scope, &id)
	awsevents.NewRule(scope, jsii.String("EveryMinute"), &awsevents.RuleProps{
		Description: jsii.String("Finds what is owed and was lost."),
		Schedule:    awsevents.Schedule_Rate(awscdk.Duration_Minutes(jsii.Number(1))),
		Targets:     sweepBy(props.Sweep),
	})
	awsevents.NewRule(scope, jsii.String("Failed"), &awsevents.RuleProps{
		Description: jsii.String("An execution ended badly: its session needs another."),
		EventPattern: &awsevents.EventPattern{
			Source:     jsii.Strings("aws.states"),
			DetailType: jsii.Strings("Step Functions Execution Status Change"),
			Detail: &map[string]any{
				"status":          jsii.Strings("FAILED", "TIMED_OUT", "ABORTED"),
				"stateMachineArn": &[]*string{props.Machine.ARN},
			},
		},
		Targets: sweepBy(props.Sweep),
	})
}

func sweepBy(sweep awslambda.Function) *[]awsevents.IRuleTarget {
	return &[]awsevents.IRuleTarget{awseventstargets.NewLambdaFunction(sweep, &awseventstargets.LambdaFunctionProps{
		RetryAttempts: jsii.Number(1),
		MaxEventAge:   seconds(asyncSeconds),
	})}
}
