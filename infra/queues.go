package main

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

// Receives after which a message is dead. The inbox's function knows the number:
// on its last receive it notes the command as dead in the session.
const (
	inboxReceives  = 3
	outboxReceives = 5
	workReceives   = 5
)

// A message is invisible for six times as long as its function may run, as AWS
// advises: its poller, too, may have to wait for a free function.
const visibilityFactor = 6

// workSeconds is how long an outside worker has for a call before another gets
// it, if it does not ask for longer.
const workSeconds = 300

type queuesProps struct {
	Inbox, Deliver functionSpec // who consume
}

// queues are the three, each with the one for what nobody could handle.
type queues struct {
	Inbox, Outbox, Work             awssqs.Queue
	InboxDead, OutboxDead, WorkDead awssqs.Queue
}

func newQueues(scope constructs.Construct, id string, props queuesProps) queues {
	scope = constructs.NewConstruct(scope, &id)
	var q queues
	q.Inbox, q.InboxDead = newInbox(scope, visibilityFactor*props.Inbox.Timeout)
	q.Outbox, q.OutboxDead = newStandard(scope, "Outbox", visibilityFactor*props.Deliver.Timeout, outboxReceives)
	q.Work, q.WorkDead = newStandard(scope, "Work", workSeconds, workReceives)
	return q
}

// newInbox holds commands in the order of their sessions: the group is the
// session, and a slow one delays no other.
func newInbox(scope constructs.Construct, visible float64) (queue, dead awssqs.Queue) {
	dead = awssqs.NewQueue(scope, jsii.String("InboxDead"), &awssqs.QueueProps{
		Fifo:            jsii.Bool(true),
		Encryption:      awssqs.QueueEncryption_SQS_MANAGED,
		EnforceSSL:      jsii.Bool(true),
		RetentionPeriod: awscdk.Duration_Days(jsii.Number(deadDays)),
	})
	queue = awssqs.NewQueue(scope, jsii.String("Inbox"), &awssqs.QueueProps{
		Fifo:                jsii.Bool(true),
		DeduplicationScope:  awssqs.DeduplicationScope_MESSAGE_GROUP,
		FifoThroughputLimit: awssqs.FifoThroughputLimit_PER_MESSAGE_GROUP_ID,
		Encryption:          awssqs.QueueEncryption_SQS_MANAGED,
		EnforceSSL:          jsii.Bool(true),
		VisibilityTimeout:   seconds(visible),
		RetentionPeriod:     awscdk.Duration_Days(jsii.Number(liveDays)),
		DeadLetterQueue:     &awssqs.DeadLetterQueue{Queue: dead, MaxReceiveCount: jsii.Number(inboxReceives)},
	})
	return queue, dead
}

func newStandard(scope constructs.Construct, id string, visible, receives float64) (queue, dead awssqs.Queue) {
	dead = awssqs.NewQueue(scope, jsii.String(id+"Dead"), &awssqs.QueueProps{
		Encryption:      awssqs.QueueEncryption_SQS_MANAGED,
		EnforceSSL:      jsii.Bool(true),
		RetentionPeriod: awscdk.Duration_Days(jsii.Number(deadDays)),
	})
	queue = awssqs.NewQueue(scope, &id, &awssqs.QueueProps{
		Encryption:        awssqs.QueueEncryption_SQS_MANAGED,
		EnforceSSL:        jsii.Bool(true),
		VisibilityTimeout: seconds(visible),
		RetentionPeriod:   awscdk.Duration_Days(jsii.Number(liveDays)),
		DeadLetterQueue:   &awssqs.DeadLetterQueue{Queue: dead, MaxReceiveCount: &receives},
	})
	return queue, dead
}

// Messages live on in the dead-letter queue from when they were first sent, so
// that one keeps them longer than the other: there is a week and a half to act.
const (
	liveDays = 4
	deadDays = 14
)

func seconds(n float64) awscdk.Duration {
	return awscdk.Duration_Seconds(&n)
}
