package main

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigatewayv2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

// newStack puts the parts together.
func newStack(scope constructs.Construct, set settings) {
	stack := awscdk.NewStack(scope, &set.Stack, &awscdk.StackProps{
		Description: jsii.String("Perdure: durable agent sessions."),
	})
	logs := logsProps{Stack: set.Stack, Days: set.LogDays}
	g := grants{
		Stack:             stack,
		Table:             newTable(stack, "Table", tableProps{Keep: set.Keep}),
		Bucket:            newBucket(stack, "Bucket", bucketProps{Keep: set.Keep}),
		Queues:            newQueues(stack, "Queues", queuesProps{Inbox: specInbox, Deliver: specDeliver}),
		Secrets:           newSecrets(stack, "Secrets"),
		Machine:           nameMachine(stack, set.Stack+"-session"),
		OpenAISecret:      set.OpenAISecret,
		ToolSecrets:       toolSecrets(set.Stack),
		CustomerFunctions: set.CustomerFunctions,
	}
	api, publicURL := newFront(stack, set, logs)
	f := newFunctions(stack, "Functions", functionsProps{
		Grants:      g,
		Environment: environmentProps{Grants: g, PublicURL: publicURL, StreamURL: &set.StreamURL, Settings: set},
		Reserved:    set.Reserved,
		CORS:        set.CORSOrigins,
		Function:    functionProps{Stack: set.Stack, Arch: architecture(set.Arch), Assets: set.Assets, Logs: logs, XRay: set.XRay},
	})
	if api != nil {
		addRoutes(api, f)
	}
	machine := newMachine(stack, "Machine", machineProps{Name: g.Machine, Drive: f.Drive, Tool: f.Tool, Park: f.Park, Logs: logs, XRay: set.XRay})
	addSources(g.Queues, f)
	newRules(stack, "Rules", rulesProps{Sweep: f.Sweep, Machine: g.Machine})
	w := watched{Stack: set.Stack, Functions: f, Queues: g.Queues, Table: g.Table, Machine: machine, API: api}
	topic := newAlarms(stack, "Alarms", alarmsProps{Watched: w, Email: set.AlarmEmail})
	newDashboard(stack, "Dashboard", w)
	if set.XRay {
		newSampling(stack, "Sampling", set.Stack)
	}
	addOutputs(stack, "Outputs", append(addresses(api, f), []output{
		{"AdminKeySecret", "Secret with the admin's key.", g.Secrets.Key.SecretArn()},
		{"Table", "The table.", g.Table.TableName()},
		{"Bucket", "The bucket.", g.Bucket.BucketName()},
		{"Machine", "The state machine.", machine.StateMachineArn()},
		{"InboxUrl", "Queue that takes commands.", g.Queues.Inbox.QueueUrl()},
		{"WorkQueueUrl", "Queue that outside workers take calls from.", g.Queues.Work.QueueUrl()},
		{"AlarmTopic", "Topic that alarms go to.", topic.TopicArn()},
	}...))
	addExceptions(stack, set.XRay)
}

// newFront is the API, if one is the front door, and the address that the
// functions tell others, if it is known by now.
func newFront(stack awscdk.Stack, set settings, logs logsProps) (awsapigatewayv2.HttpApi, *string) {
	if set.FrontDoor == doorURL {
		return nil, &set.FrontURL
	}
	api := newAPI(stack, "Api", apiProps{Stack: set.Stack, CORS: set.CORSOrigins, Logs: logs})
	return api, firstOf(&set.FrontURL, api.ApiEndpoint())
}

// addresses are those of the stack itself, whatever the functions tell others. One
// is enough for every client. Who would not have long polls take the place of
// commands asks read by itself where URLs are the front door; an HTTP API sends
// GETs there anyway.
func addresses(api awsapigatewayv2.HttpApi, f functions) []output {
	stream := output{"StreamUrl", "Where viewers read events as they happen.", f.StreamURL}
	if api != nil {
		return []output{{outputAPI, sayAPI, api.ApiEndpoint()}, stream}
	}
	return []output{
		{outputAPI, sayAPI, f.FrontURL},
		{"ReadUrl", "Where GETs and long polls may go, so that they take no place of a command.", f.ReadURL},
		stream,
	}
}

// The output that every client needs, and what is said of it.
const (
	outputAPI = "ApiUrl"
	sayAPI    = "Where clients find the API."
)

func architecture(name string) awslambda.Architecture {
	if name == archX86 {
		return awslambda.Architecture_X86_64()
	}
	return awslambda.Architecture_ARM_64()
}
