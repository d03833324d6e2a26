package target

import "maps"

// SkippedTypes are the parts of this repository's stack that are not there when
// it has been deployed to the target: types of resources, or Type.Property, and
// why. CloudFormation says of most of them that it has made them.
// TestWhatWasDeployedIsThere holds the table, also against what is there by now.
func (c Capabilities) SkippedTypes() map[string]string { return maps.Clone(skipped[c.Name]) }

// skipped is by the targets' names.
var skipped = map[string]map[string]string{
	NameEmulator: {
		"AWS::DynamoDB::Table.PointInTimeRecoverySpecification": "its CloudFormation drops it",
		"AWS::DynamoDB::Table.TimeToLiveSpecification":          "its CloudFormation drops it",
		"AWS::S3::Bucket.LifecycleConfiguration":                "its CloudFormation drops it",
		"AWS::StepFunctions::StateMachine.LoggingConfiguration": "it is answered as the template spells it, which no client reads; nothing is logged",
		"AWS::XRay::SamplingRule":                               "it has no X-Ray, so the stack is deployed there with -c xray=0",
	},
	NameLocalStack: {
		"AWS::ApiGatewayV2::Api":                                "the free edition has no API Gateway v2, so the stack is deployed there with -c frontDoor=url",
		"AWS::ApiGatewayV2::Integration":                        "there is no API for it",
		"AWS::ApiGatewayV2::Route":                              "there is no API for it",
		"AWS::ApiGatewayV2::Stage":                              "there is no API for it",
		"AWS::CloudWatch::Dashboard":                            "its CloudFormation does not know the type, and says that it is made",
		"AWS::DynamoDB::Table.PointInTimeRecoverySpecification": "its CloudFormation drops it",
		"AWS::Lambda::Permission.FunctionUrlAuthType":           "its CloudFormation passes four properties on, and this is not among them",
		"AWS::Lambda::Permission.InvokedViaFunctionUrl":         "its CloudFormation passes four properties on, and this is not among them",
		"AWS::Logs::LogGroup.RetentionInDays":                   "its CloudFormation drops it",
		"AWS::S3::Bucket.LifecycleConfiguration":                "its CloudFormation drops it",
		"AWS::XRay::SamplingRule":                               "the free edition has no X-Ray, so the stack is deployed there with -c xray=0",
	},
}
