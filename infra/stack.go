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
		Grants:   g,
		Reserved: set.Reserved,
		Function: functionProps{
			Stack:       set.Stack,
			Arch:        architecture(set.Arch),
			Assets:      set.Assets,
			Environment: environment(environmentProps{Grants: g, PublicURL: publicURL, Settings: set}),
			Logs:        logs,
			XRay:        set.XRay,
		},
	})
	machine := newMachine(stack, "Machine", machineProps{Name: g.Machine, Drive: f.Drive, Tool: f.Tool, Park: f.Park, Logs: logs, XRay: set.XRay})
	addSources(g.Queues, f)
	newRules(stack, "Rules", rulesProps{Sweep: f.Sweep, Machine: g.Machine})
	w := watched{Stack: set.Stack, Functions: f, Queues: g.Queues, Table: g.Table, Machine: machine, API: api}
	topic := newAlarms(stack, "Alarms", alarmsProps{Watched: w, Email: set.AlarmEmail})
	newDashboard(stack, "Dashboard", w)
	if set.XRay {
		newSampling(stack, "Sampling", set.Stack)
	}
	streamURL := addStreamURL(f.Stream, set.CORSOrigins)
	apiURL := openFront(api, f, set)
	addOutputs(stack, "Outputs", []output{
		{"ApiUrl", "Where clients find the API.", apiURL},
		{"StreamUrl", "Where viewers read events as they happen.", streamURL.Url()},
		{"AdminKeySecret", "Secret with the admin's key.", g.Secrets.Key.SecretArn()},
		{"Table", "The table.", g.Table.TableName()},
		{"Bucket", "The bucket.", g.Bucket.BucketName()},
		{"Machine", "The state machine.", machine.StateMachineArn()},
		{"InboxUrl", "Queue that takes commands.", g.Queues.Inbox.QueueUrl()},
		{"WorkQueueUrl", "Queue that outside workers take calls from.", g.Queues.Work.QueueUrl()},
		{"AlarmTopic", "Topic that alarms go to.", topic.TopicArn()},
	})
	addExceptions(stack, set.XRay)
}

// newFront is the front door, if it is an API, and the address that the functions
// tell others. A function cannot be told its own address, so without an API it is
// what the operator says.
func newFront(stack awscdk.Stack, set settings, logs logsProps) (awsapigatewayv2.HttpApi, *string) {
	if set.Front == frontURL {
		return nil, &set.FrontURL
	}
	api := newAPI(stack, "Api", apiProps{Stack: set.Stack, CORS: set.CORSOrigins, Logs: logs})
	if set.FrontURL != "" {
		return api, &set.FrontURL
	}
	return api, api.ApiEndpoint()
}

// openFront lets clients in, and says where.
func openFront(api awsapigatewayv2.HttpApi, f functions, set settings) *string {
	if api == nil {
		return addFrontURL(f.API, set.CORSOrigins).Url()
	}
	addRoutes(api, f)
	return api.ApiEndpoint()
}

func architecture(name string) awslambda.Architecture {
	if name == archX86 {
		return awslambda.Architecture_X86_64()
	}
	return awslambda.Architecture_ARM_64()
}
