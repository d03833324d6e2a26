package main

import (
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambdaeventsources"
	"github.com/aws/jsii-runtime-go"
)

// How many of a queue's messages are worked on at once at most, so that a full
// queue leaves functions for everybody else.
const (
	inboxAtOnce   = 50
	deliverAtOnce = 10
	deliverBatch  = 10
)

// addSources lets the queues call their functions. One command is one call: it is
// admitted, or counted as a try, alone.
func addSources(q queues, f functions) {
	addSource(f.Inbox, awslambdaeventsources.NewSqsEventSource(q.Inbox, &awslambdaeventsources.SqsEventSourceProps{
		BatchSize:               jsii.Number(1),
		ReportBatchItemFailures: jsii.Bool(true),
		MaxConcurrency:          jsii.Number(inboxAtOnce),
	}))
	addSource(f.Deliver, awslambdaeventsources.NewSqsEventSource(q.Outbox, &awslambdaeventsources.SqsEventSourceProps{
		BatchSize:               jsii.Number(deliverBatch),
		ReportBatchItemFailures: jsii.Bool(true),
		MaxConcurrency:          jsii.Number(deliverAtOnce),
	}))
}

func addSource(function awslambda.Function, source awslambda.IEventSource) {
	function.AddEventSource(source)
}
