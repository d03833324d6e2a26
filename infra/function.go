package main

import (
	"path/filepath"

	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awss3assets"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

// asyncSeconds is how old an event may get before it is dropped: sweep is called
// every minute, and the next call does what one did not.
const asyncSeconds = 60

type functionProps struct {
	Spec        functionSpec
	Stack       string
	Arch        awslambda.Architecture
	Assets      string // folder of folders with a bootstrap
	Environment map[string]*string
	May         statements
	Reserved    int // 0: none
	Logs        logsProps
	XRay        bool
}

// newFunction is one function with its role and its log. The role is written out:
// AWS's own for functions would let each write to every log of the account.
func newFunction(scope constructs.Construct, id string, props functionProps) awslambda.Function {
	scope = constructs.NewConstruct(scope, &id)
	logs := newLogGroup(scope, "Logs", "/"+props.Stack+"/"+props.Spec.Name, props.Logs)
	may := append(statements{allow([]*string{logs.LogGroupArn()}, "logs:CreateLogStream", "logs:PutLogEvents")}, props.May...)
	role := awsiam.NewRole(scope, jsii.String("Role"), &awsiam.RoleProps{
		AssumedBy:      awsiam.NewServicePrincipal(jsii.String("lambda.amazonaws.com"), nil),
		InlinePolicies: &map[string]awsiam.PolicyDocument{"function": policy(may)},
	})
	tracing := awslambda.Tracing_DISABLED
	if props.XRay {
		tracing = awslambda.Tracing_ACTIVE
	}
	return awslambda.NewFunction(scope, jsii.String("Function"), &awslambda.FunctionProps{
		FunctionName: jsii.String(props.Stack + "-" + props.Spec.Name),
		Description:  &props.Spec.Description,
		Runtime:      awslambda.Runtime_PROVIDED_AL2023(),
		Architecture: props.Arch,
		Handler:      jsii.String("bootstrap"),
		Code:         awslambda.Code_FromAsset(jsii.String(filepath.Join(props.Assets, props.Spec.Name)), &awss3assets.AssetOptions{}),
		MemorySize:   &props.Spec.Memory,
		Timeout:      seconds(props.Spec.Timeout),
		Environment:  &props.Environment,
		Role:         role,
		LogGroup:     logs,
		Tracing:      tracing,
		// Lambda would run an event that failed twice more, unasked.
		RetryAttempts:                jsii.Number(0),
		MaxEventAge:                  seconds(asyncSeconds),
		LoggingFormat:                awslambda.LoggingFormat_JSON,
		ReservedConcurrentExecutions: reservedOrNone(props.Reserved),
	})
}

func reservedOrNone(n int) *float64 {
	if n == 0 {
		return nil
	}
	return jsii.Number(n)
}
