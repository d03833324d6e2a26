package main

import (
	"github.com/aws/aws-cdk-go/awscdk/v2/awsxray"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

// traced is the share of invocations that are traced.
const traced = 0.05

// newSampling traces one invocation in twenty. Without it AWS's own rule holds,
// which also traces the first of each second: nearly all, where there are few.
func newSampling(scope constructs.Construct, id, stack string) {
	awsxray.NewCfnSamplingRule(scope, &id, &awsxray.CfnSamplingRuleProps{
		SamplingRule: &awsxray.CfnSamplingRule_SamplingRuleProperty{
			RuleName:      &stack,
			Version:       jsii.Number(1),
			Priority:      jsii.Number(1000),
			ReservoirSize: jsii.Number(0),
			FixedRate:     jsii.Number(traced),
			ServiceName:   jsii.String(stack + "-*"),
			ServiceType:   jsii.String("*"),
			Host:          jsii.String("*"),
			HttpMethod:    jsii.String("*"),
			UrlPath:       jsii.String("*"),
			ResourceArn:   jsii.String("*"),
		},
	})
}
