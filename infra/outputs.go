package main

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/constructs-go/constructs/v10"
)

// output is one line that cdk deploy prints.
type output struct {
	Name, Description string
	Value             *string
}

// addOutputs keeps the names as they are: scripts and tests read them.
func addOutputs(scope constructs.Construct, id string, list []output) {
	scope = constructs.NewConstruct(scope, &id)
	for _, o := range list {
		awscdk.NewCfnOutput(scope, &o.Name, &awscdk.CfnOutputProps{Description: &o.Description, Value: o.Value}).OverrideLogicalId(&o.Name)
	}
}
