package main

import (
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatchactions"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssns"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssnssubscriptions"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/perdure/perdure/internal/env"
)

// alarm is one line of the list below.
type alarm struct {
	ID      string
	Says    string // what has happened and what to do, in the message
	Metric  awscloudwatch.IMetric
	AtLeast float64
	Below   bool    // the other way round: less than AtLeast
	For     float64 // periods in a row; 0 is one
	Missing awscloudwatch.TreatMissingData
}

// Ages of the oldest message, in seconds, that somebody should know of.
const (
	inboxAge  = 300
	outboxAge = 900
	workAge   = 3600
)

type alarmsProps struct {
	Watched watched
	Email   string
}

// newAlarms tell the topic. An alarm that is never looked at is worse than none,
// so each names one thing that goes wrong and not by itself comes right.
func newAlarms(scope constructs.Construct, id string, props alarmsProps) awssns.Topic {
	scope = constructs.NewConstruct(scope, &id)
	topic := awssns.NewTopic(scope, jsii.String("Topic"), &awssns.TopicProps{EnforceSSL: jsii.Bool(true)})
	if props.Email != "" {
		topic.AddSubscription(awssnssubscriptions.NewEmailSubscription(&props.Email, nil))
	}
	w := props.Watched
	for _, list := range [][]alarm{w.queueAlarms(), w.sessionAlarms(), w.capacityAlarms()} {
		for _, a := range list {
			newAlarm(scope, a, w.Stack, topic)
		}
	}
	return topic
}

func newAlarm(scope constructs.Construct, a alarm, stack string, topic awssns.Topic) {
	compare := awscloudwatch.ComparisonOperator_GREATER_THAN_OR_EQUAL_TO_THRESHOLD
	if a.Below {
		compare = awscloudwatch.ComparisonOperator_LESS_THAN_THRESHOLD
	}
	missing := a.Missing
	if missing == "" {
		missing = awscloudwatch.TreatMissingData_NOT_BREACHING
	}
	awscloudwatch.NewAlarm(scope, &a.ID, &awscloudwatch.AlarmProps{
		AlarmName:          jsii.String(stack + "-" + a.ID),
		AlarmDescription:   &a.Says,
		Metric:             a.Metric,
		Threshold:          &a.AtLeast,
		EvaluationPeriods:  jsii.Number(max(a.For, 1)),
		ComparisonOperator: compare,
		TreatMissingData:   missing,
	}).AddAlarmAction(awscloudwatchactions.NewSnsAction(topic))
}

func (w watched) queueAlarms() []alarm {
	dead := func(q awssqs.Queue) awscloudwatch.IMetric {
		return q.MetricApproximateNumberOfMessagesVisible(number(maximum))
	}
	oldest := func(q awssqs.Queue) awscloudwatch.IMetric {
		return q.MetricApproximateAgeOfOldestMessage(number(maximum))
	}
	q := w.Queues
	return []alarm{
		{ID: "InboxDead", Says: "A command was given up; its session notes it as dead. Find out why, then redrive the dead-letter queue.", Metric: dead(q.InboxDead), AtLeast: 1},
		{ID: "OutboxDead", Says: "A delivery was given up. Find out why, then redrive the dead-letter queue.", Metric: dead(q.OutboxDead), AtLeast: 1},
		{ID: "WorkDead", Says: "Outside workers took a call again and again and never finished it.", Metric: dead(q.WorkDead), AtLeast: 1},
		{ID: "InboxOld", Says: "Commands wait for minutes: the function inbox fails, is throttled, or there are too many.", Metric: oldest(q.Inbox), AtLeast: inboxAge},
		{ID: "OutboxOld", Says: "Deliveries wait: the function deliver fails, is throttled, or there are too many.", Metric: oldest(q.Outbox), AtLeast: outboxAge},
		{ID: "WorkOld", Says: "No outside worker takes calls.", Metric: oldest(q.Work), AtLeast: workAge},
	}
}

func (w watched) sessionAlarms() []alarm {
	// Overdue is counted in each minute's round.
	everyMinute := &awscloudwatch.MetricOptions{Statistic: jsii.String(maximum), Period: minutes(1)}
	list := []alarm{
		{ID: "ExecutionsFailed", Says: "An execution failed. The sweeper starts the session's next one; the execution's history says what happened.", Metric: w.Machine.MetricFailed(number(sum)), AtLeast: 1},
		{ID: "ExecutionsTimedOut", Says: "An execution took longer than any may. The sweeper starts the session's next one.", Metric: w.Machine.MetricTimedOut(number(sum)), AtLeast: 1},
		{ID: "Overdue", Says: "Something has been owed to sessions for minutes, and the sweeper does not settle it. Read its log.", Metric: w.own(env.MetricOverdue, env.FunctionSweep, everyMinute), AtLeast: 1, For: 3},
		{ID: "SweepErrors", Says: "The sweeper fails: lost wake-ups stay lost. Read its log.", Metric: w.Functions.Sweep.MetricErrors(number(sum)), AtLeast: 3},
		{
			ID: "SweepSilent", Says: "The sweeper is not called: lost wake-ups stay lost. Look at the rule that calls it.",
			Metric: w.Functions.Sweep.MetricInvocations(number(sum)), AtLeast: 1, Below: true, For: 2, Missing: awscloudwatch.TreatMissingData_BREACHING,
		},
	}
	for _, name := range quarantiners() {
		list = append(list, alarm{
			ID: "Quarantined-" + name, Says: "A session was set aside: its log cannot be folded, or its drivers are lost again and again. Look at it, then release it.",
			Metric: w.own(env.MetricQuarantined, name, number(sum)), AtLeast: 1,
		})
	}
	return list
}

func (w watched) capacityAlarms() []alarm {
	table := func(name string) awscloudwatch.IMetric { return w.Table.Metric(&name, number(sum)) }
	const tableSays = "DynamoDB refuses requests: one session is too busy, or the table grew faster than it may."
	list := []alarm{
		{ID: "ExecutionsThrottled", Says: "Step Functions slows executions down: ask for more transitions a second.", Metric: w.Machine.MetricThrottled(number(sum)), AtLeast: 1, For: 2},
		{ID: "ReadsThrottled", Says: tableSays, Metric: table(readThrottles), AtLeast: 1, For: 2},
		{ID: "WritesThrottled", Says: tableSays, Metric: table(writeThrottles), AtLeast: 1, For: 2},
	}
	for _, d := range w.doors() {
		a := alarm{ID: "ServerErrors", Says: "The API answers 5xx. Read the logs of api and read.", Metric: d.ServerErrors(number(sum)), AtLeast: 5}
		if d.Function != "" {
			a.ID, a.Says = a.ID+"-"+d.Function, "The API answers 5xx at one of its URLs. Read the log of "+d.Function+"."
		}
		list = append(list, a)
	}
	for _, f := range w.Functions.list() {
		list = append(list, alarm{
			ID: "Throttled-" + f.Name, Says: "The function was refused for want of concurrency: ask for more of it, or reserve some.",
			Metric: throttles(f.Function, number(sum)), AtLeast: 1, For: 2,
		})
	}
	return list
}

// Metrics of the table that have no method of their own.
const (
	readThrottles  = "ReadThrottleEvents"
	writeThrottles = "WriteThrottleEvents"
)
