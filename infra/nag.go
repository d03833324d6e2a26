package main

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/jsii-runtime-go"
	"github.com/cdklabs/cdk-nag-go/cdknag/v2"
)

// exception is a rule of cdk-nag's AwsSolutions that does not hold here, and why.
type exception struct {
	Rule   string
	Only   []string // what of the rule, as regular expressions; nothing is all of it
	Reason string
}

func exceptions(xray bool) []exception {
	list := []exception{
		{"AwsSolutions-S1", nil, "Every access is by a function of the stack, whose log and trace name it; a bucket of access logs would hold tenants' and sessions' names in its keys."},
		{"AwsSolutions-SMG4", nil, "Rotating the admin's key would lock clients out, and rotating the root of signatures would void the promise tokens that people hold. An operator changes them by hand: docs/OPERATIONS.md."},
		{"AwsSolutions-SF1", nil, "Level ALL would write several entries for each turn; the session's own log has all of it, and the execution history is kept for 90 days."},
		{"AwsSolutions-APIG4", nil, "The functions ask for an API key themselves, the same way behind an API, a function URL and on a laptop, and let in without one only what needs none: the health check and a promise's own token."},
		{"AwsSolutions-IAM5", []string{`^Resource::<Bucket[0-9A-F]+\.Arn>/\*$`}, "Objects are named by tenant, session and hash, so a role can name the bucket only."},
		{"AwsSolutions-IAM5", []string{`^Resource::arn:<AWS::Partition>:states:<AWS::Region>:<AWS::AccountId>:execution:[A-Za-z0-9-]+-session:\*$`}, "Executions are named by session and epoch, so a role can name their state machine only."},
		{"AwsSolutions-IAM5", []string{`^Resource::arn:<AWS::Partition>:secretsmanager:<AWS::Region>:<AWS::AccountId>:secret:perdure/[A-Za-z0-9-]+/\*$`}, "Secrets of tools and providers are the operator's to add, under a prefix that holds nothing else."},
		{"AwsSolutions-IAM5", []string{`^Resource::\*$`}, "X-Ray's and CloudWatch Logs' actions for traces and for the delivery of logs know no resources; wildcards_test.go holds that nothing else has this one."},
	}
	if !xray {
		list = append(list, exception{"AwsSolutions-SF2", nil, "The operator wants no traces: -c xray=0."})
	}
	return list
}

// addExceptions says them to cdk-nag, which tests ask about the stack.
func addExceptions(stack awscdk.Stack, xray bool) {
	var list []*cdknag.NagPackSuppression
	for _, e := range exceptions(xray) {
		suppression := &cdknag.NagPackSuppression{Id: &e.Rule, Reason: &e.Reason}
		if len(e.Only) > 0 {
			var only []any
			for _, form := range e.Only {
				only = append(only, &cdknag.RegexAppliesTo{Regex: jsii.String("/" + form + "/")})
			}
			suppression.AppliesTo = &only
		}
		list = append(list, suppression)
	}
	cdknag.NagSuppressions_AddStackSuppressions(stack, &list, nil)
}
