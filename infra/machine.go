package main

import (
	"bytes"
	_ "embed"
	"encoding/json"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsstepfunctions"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

//go:embed asl/session.asl.json
var definition []byte

// machineName is the state machine before it is there. The functions must know
// it and it must know the functions: a name that is agreed breaks the circle.
type machineName struct {
	Name       string
	ARN        *string
	Executions *string // all of them
}

func nameMachine(stack awscdk.Stack, name string) machineName {
	arn := func(resource, of string) *string {
		return stack.FormatArn(&awscdk.ArnComponents{
			Service: jsii.String("states"), Resource: &resource, ResourceName: &of,
			ArnFormat: awscdk.ArnFormat_COLON_RESOURCE_NAME,
		})
	}
	return machineName{Name: name, ARN: arn("stateMachine", name), Executions: arn("execution", name+":*")}
}

type machineProps struct {
	Name              machineName
	Drive, Tool, Park awslambda.Function
	Logs              logsProps
	XRay              bool
}

// newMachine is the driver of sessions: the definition is the file, with the
// functions put in. Its log has errors and no data.
func newMachine(scope constructs.Construct, id string, props machineProps) awsstepfunctions.StateMachine {
	scope = constructs.NewConstruct(scope, &id)
	functions := []*string{props.Drive.FunctionArn(), props.Park.FunctionArn(), props.Tool.FunctionArn()}
	role := awsiam.NewRole(scope, jsii.String("Role"), &awsiam.RoleProps{
		AssumedBy: awsiam.NewServicePrincipal(jsii.String("states.amazonaws.com"), nil),
		InlinePolicies: &map[string]awsiam.PolicyDocument{
			"functions": policy(statements{allow(functions, "lambda:InvokeFunction")}),
		},
	})
	return awsstepfunctions.NewStateMachine(scope, jsii.String("Session"), &awsstepfunctions.StateMachineProps{
		StateMachineName: &props.Name.Name,
		StateMachineType: awsstepfunctions.StateMachineType_STANDARD,
		DefinitionBody:   awsstepfunctions.DefinitionBody_FromString(jsii.String(compact(definition))),
		DefinitionSubstitutions: &map[string]*string{
			"Partition":        awscdk.Aws_PARTITION(),
			"DriveFunctionArn": props.Drive.FunctionArn(),
			"ToolFunctionArn":  props.Tool.FunctionArn(),
			"ParkFunctionArn":  props.Park.FunctionArn(),
		},
		Role: role,
		Logs: &awsstepfunctions.LogOptions{
			Destination:          newLogGroup(scope, "Logs", "/aws/vendedlogs/"+props.Logs.Stack+"/machine", props.Logs),
			Level:                awsstepfunctions.LogLevel_ERROR,
			IncludeExecutionData: jsii.Bool(false),
		},
		TracingEnabled: &props.XRay,
	})
}

// compact takes the layout out of a JSON text: a template has room for so much.
func compact(text []byte) string {
	var out bytes.Buffer
	if err := json.Compact(&out, text); err != nil {
		panic("the state machine's definition is no JSON: " + err.Error())
	}
	return out.String()
}

func policy(list statements) awsiam.PolicyDocument {
	s := []awsiam.PolicyStatement(list)
	return awsiam.NewPolicyDocument(&awsiam.PolicyDocumentProps{Statements: &s})
}
