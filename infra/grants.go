package main

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awss3"
	"github.com/aws/jsii-runtime-go"

	"github.com/perdure/perdure/internal/env"
)

// grants makes the statements of the functions' roles: actions by name, on
// resources by name. Where a name can only be a pattern, nag.go says why.
type grants struct {
	Stack             awscdk.Stack
	Table             awsdynamodb.Table
	Bucket            awss3.Bucket
	Queues            queues
	Secrets           secrets
	Machine           machineName
	OpenAISecret      string
	ToolSecrets       string
	CustomerFunctions []string
}

type statements []awsiam.PolicyStatement

func allow(resources []*string, actions ...string) awsiam.PolicyStatement {
	return awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
		Effect:    awsiam.Effect_ALLOW,
		Actions:   jsii.Strings(actions...),
		Resources: &resources,
	})
}

// readTable reads items, and the indexes by name.
func (g grants) readTable() statements {
	var indexes []*string
	for _, name := range []string{env.IndexDue, env.IndexList, env.IndexTodo} {
		indexes = append(indexes, jsii.String(*g.Table.TableArn()+"/index/"+name))
	}
	return statements{
		allow([]*string{g.Table.TableArn()}, "dynamodb:BatchGetItem", "dynamodb:GetItem", "dynamodb:Query"),
		allow(indexes, "dynamodb:Query"),
	}
}

// watch says that somebody is looking, so that drives write live frames.
func (g grants) watch() statements {
	return statements{allow([]*string{g.Table.TableArn()}, "dynamodb:PutItem")}
}

// writeTable is what commits and deletions need; transactions are allowed by the
// actions that they consist of.
func (g grants) writeTable() statements {
	return statements{allow([]*string{g.Table.TableArn()},
		"dynamodb:BatchWriteItem", "dynamodb:ConditionCheckItem", "dynamodb:DeleteItem", "dynamodb:PutItem", "dynamodb:UpdateItem")}
}

// readBlobs may list, too: without that an object which is not there looks like
// one that may not be read.
func (g grants) readBlobs() statements {
	return statements{
		allow([]*string{g.objects()}, "s3:GetObject"),
		allow([]*string{g.Bucket.BucketArn()}, "s3:ListBucket"),
	}
}

func (g grants) writeBlobs() statements {
	return statements{allow([]*string{g.objects()}, "s3:PutObject")}
}

// deleteBlobs is for old checkpoints, files of workspaces, and deletions.
func (g grants) deleteBlobs() statements {
	return statements{allow([]*string{g.objects()}, "s3:DeleteObject")}
}

func (g grants) objects() *string {
	return g.Bucket.ArnForObjects(jsii.String("*"))
}

// wake starts executions and completes their tokens; who finds a name taken asks
// what became of it.
func (g grants) wake() statements {
	return statements{
		allow([]*string{g.Machine.ARN}, "states:SendTaskSuccess", "states:StartExecution"),
		allow([]*string{g.Machine.Executions}, "states:DescribeExecution"),
	}
}

func (g grants) stop() statements {
	return statements{allow([]*string{g.Machine.Executions}, "states:StopExecution")}
}

// send is for who runs tools: a call for outside workers leaves by the outbox.
func (g grants) send() statements {
	return statements{allow([]*string{g.Queues.Outbox.QueueArn()}, "sqs:SendMessage")}
}

// deliver is for who takes it on from there.
func (g grants) deliver() statements {
	return statements{allow([]*string{g.Queues.Work.QueueArn()}, "sqs:SendMessage")}
}

// checkKeys is for who lets clients in.
func (g grants) checkKeys() statements {
	return statements{allow([]*string{g.Secrets.Key.SecretArn()}, "secretsmanager:GetSecretValue")}
}

// sign is for who makes or reads promise tokens and cursors.
func (g grants) sign() statements {
	return statements{allow([]*string{g.Secrets.Signing.SecretArn()}, "secretsmanager:GetSecretValue")}
}

// callTools is for who calls tools: secrets under the prefix, and the functions
// of customers that were named.
func (g grants) callTools() statements {
	list := statements{allow([]*string{g.Stack.FormatArn(&awscdk.ArnComponents{
		Service: jsii.String("secretsmanager"), Resource: jsii.String("secret"),
		ArnFormat: awscdk.ArnFormat_COLON_RESOURCE_NAME, ResourceName: jsii.String(g.ToolSecrets + "*"),
	})}, "secretsmanager:GetSecretValue")}
	if len(g.CustomerFunctions) > 0 {
		list = append(list, allow(*jsii.Strings(g.CustomerFunctions...), "lambda:InvokeFunction"))
	}
	return list
}

// callModels is empty where the stack has no provider of its own.
func (g grants) callModels() statements {
	if g.OpenAISecret == "" {
		return nil
	}
	return statements{allow([]*string{&g.OpenAISecret}, "secretsmanager:GetSecretValue")}
}
