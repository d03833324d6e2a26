package main

import (
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssqs"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"github.com/perdure/perdure/internal/env"
)

// newDashboard is one page: sessions first, then what they run on.
func newDashboard(scope constructs.Construct, id string, w watched) {
	awscloudwatch.NewDashboard(scope, &id, &awscloudwatch.DashboardProps{
		DashboardName: &w.Stack,
		Widgets:       &[]*[]awscloudwatch.IWidget{w.sessionRow(), w.queueRow(), w.functionRow(), w.tableRow()},
	})
}

func (w watched) sessionRow() *[]awscloudwatch.IWidget {
	m := w.Machine
	var aside []awscloudwatch.IMetric
	for _, name := range quarantiners() {
		aside = append(aside, w.own(env.MetricQuarantined, name, line("set aside by "+name, sum)))
	}
	return &[]awscloudwatch.IWidget{
		graph("Executions",
			m.MetricStarted(line("started", sum)), m.MetricSucceeded(line("done", sum)), m.MetricFailed(line("failed", sum)),
			m.MetricTimedOut(line("timed out", sum)), m.MetricAborted(line("stopped", sum)), m.MetricThrottled(line("throttled", sum))),
		graph("Owed for minutes", w.own(env.MetricOverdue, env.FunctionSweep, line("owed", maximum))),
		graph("Set aside, given up", append(aside, w.own(env.MetricDead, env.FunctionInbox, line("dead commands", sum)))...),
	}
}

func (w watched) queueRow() *[]awscloudwatch.IWidget {
	var front []awscloudwatch.IMetric
	for _, d := range w.doors() {
		label := func(what string) *awscloudwatch.MetricOptions {
			return line(strings.TrimSpace(what+" "+d.Function), sum)
		}
		front = append(front, d.ServerErrors(label("5xx")), d.Requests(label("requests")), d.ClientErrors(label("4xx")))
	}
	return &[]awscloudwatch.IWidget{
		graph("Front door", front...),
		graph("Oldest message, seconds", w.eachQueue(func(q awssqs.Queue, name string) awscloudwatch.IMetric {
			return q.MetricApproximateAgeOfOldestMessage(line(name, maximum))
		})...),
		graph("Messages that wait", w.eachQueue(func(q awssqs.Queue, name string) awscloudwatch.IMetric {
			return q.MetricApproximateNumberOfMessagesVisible(line(name, maximum))
		})...),
	}
}

func (w watched) functionRow() *[]awscloudwatch.IWidget {
	return &[]awscloudwatch.IWidget{
		graph("Invocations", w.eachFunction(invocations, sum)...),
		graph("Errors", w.eachFunction(errorsOf, sum)...),
		graph("Throttled", w.eachFunction(throttles, sum)...),
	}
}

func (w watched) tableRow() *[]awscloudwatch.IWidget {
	table := func(name, label string) awscloudwatch.IMetric { return w.Table.Metric(&name, line(label, sum)) }
	return &[]awscloudwatch.IWidget{
		graph("Duration, p95, ms", w.eachFunction(durations, "p95")...),
		graph("Table, units", table("ConsumedReadCapacityUnits", "read"), table("ConsumedWriteCapacityUnits", "written")),
		graph("Table, refused", table(readThrottles, "reads"), table(writeThrottles, "writes")),
	}
}

func (w watched) eachQueue(metric func(q awssqs.Queue, name string) awscloudwatch.IMetric) []awscloudwatch.IMetric {
	q := w.Queues
	return []awscloudwatch.IMetric{
		metric(q.Inbox, "inbox"), metric(q.Outbox, "outbox"), metric(q.Work, "work"),
		metric(q.InboxDead, "inbox, dead"), metric(q.OutboxDead, "outbox, dead"), metric(q.WorkDead, "work, dead"),
	}
}

func graph(title string, metrics ...awscloudwatch.IMetric) awscloudwatch.IWidget {
	return awscloudwatch.NewGraphWidget(&awscloudwatch.GraphWidgetProps{
		Title: &title, Left: &metrics, Width: jsii.Number(graphWidth),
		LeftYAxis: &awscloudwatch.YAxisProps{Min: jsii.Number(0)},
	})
}

// graphWidth is a third of a row.
const graphWidth = 8
