package main

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigatewayv2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscloudwatch"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsdynamodb"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsstepfunctions"
	"github.com/aws/jsii-runtime-go"

	"github.com/perdure/perdure/internal/env"
)

// watched is what alarms and the dashboard look at.
type watched struct {
	Stack     string
	Functions functions
	Queues    queues
	Table     awsdynamodb.Table
	Machine   awsstepfunctions.StateMachine
	API       awsapigatewayv2.HttpApi // nil if functions are the front door
}

const (
	sum     = "Sum"
	maximum = "Maximum"
)

// named is a function with the name that people know it by.
type named struct {
	Name     string
	Function awslambda.Function
}

func (f functions) list() []named {
	return []named{
		{env.FunctionAPI, f.API},
		{env.FunctionRead, f.Read},
		{env.FunctionStream, f.Stream},
		{env.FunctionInbox, f.Inbox},
		{env.FunctionDrive, f.Drive},
		{env.FunctionTool, f.Tool},
		{env.FunctionPark, f.Park},
		{env.FunctionDeliver, f.Deliver},
		{env.FunctionSweep, f.Sweep},
	}
}

func minutes(n float64) awscdk.Duration {
	return awscdk.Duration_Minutes(&n)
}

// line is a metric that the dashboard shows under a label.
func line(label, statistic string) *awscloudwatch.MetricOptions {
	return &awscloudwatch.MetricOptions{Label: &label, Statistic: &statistic, Period: minutes(lookBack)}
}

// number is a metric that an alarm compares. It has no label: with one it would
// be a query, which is more than an alarm needs and the emulator has.
func number(statistic string) *awscloudwatch.MetricOptions {
	return &awscloudwatch.MetricOptions{Statistic: &statistic, Period: minutes(lookBack)}
}

// lookBack is the period of nearly all metrics, in minutes.
const lookBack = 5

// own is a metric that a function writes itself. Its dimension is the function's
// whole name, which tells the stacks of an account apart.
func (w watched) own(name, function string, of *awscloudwatch.MetricOptions) awscloudwatch.Metric {
	return awscloudwatch.NewMetric(&awscloudwatch.MetricProps{
		Namespace:     jsii.String(env.MetricNamespace),
		MetricName:    &name,
		DimensionsMap: &map[string]*string{env.DimensionFunction: jsii.String(w.Stack + "-" + function)},
		Label:         of.Label,
		Statistic:     of.Statistic,
		Period:        of.Period,
	})
}

// quarantiners are the functions that may set a session aside: those that fold.
func quarantiners() []string {
	return []string{env.FunctionAPI, env.FunctionInbox, env.FunctionDrive, env.FunctionTool, env.FunctionPark, env.FunctionSweep}
}

// eachFunction is one metric of all functions.
func (w watched) eachFunction(metric func(awslambda.Function, *awscloudwatch.MetricOptions) awscloudwatch.Metric, statistic string) []awscloudwatch.IMetric {
	var all []awscloudwatch.IMetric
	for _, f := range w.Functions.list() {
		all = append(all, metric(f.Function, line(f.Name, statistic)))
	}
	return all
}

func throttles(f awslambda.Function, o *awscloudwatch.MetricOptions) awscloudwatch.Metric {
	return f.MetricThrottles(o)
}

func errorsOf(f awslambda.Function, o *awscloudwatch.MetricOptions) awscloudwatch.Metric {
	return f.MetricErrors(o)
}

func durations(f awslambda.Function, o *awscloudwatch.MetricOptions) awscloudwatch.Metric {
	return f.MetricDuration(o)
}

func invocations(f awslambda.Function, o *awscloudwatch.MetricOptions) awscloudwatch.Metric {
	return f.MetricInvocations(o)
}

// counted is a metric, as somebody wants to see it.
type counted func(*awscloudwatch.MetricOptions) awscloudwatch.Metric

// door is an address that clients ask, and what CloudWatch counts there.
type door struct {
	Function                             string // that answers, where it is not known by its route
	ServerErrors, Requests, ClientErrors counted
}

// doors are the HTTP API, or the URLs of functions in its place, whose metrics are
// on https://docs.aws.amazon.com/lambda/latest/dg/urls-monitoring.html.
func (w watched) doors() []door {
	if w.API != nil {
		return []door{{"", w.API.MetricServerError, w.API.MetricCount, w.API.MetricClientError}}
	}
	var doors []door
	for _, f := range []named{{env.FunctionAPI, w.Functions.API}, {env.FunctionRead, w.Functions.Read}} {
		at := func(name string) counted {
			return func(of *awscloudwatch.MetricOptions) awscloudwatch.Metric { return f.Function.Metric(&name, of) }
		}
		doors = append(doors, door{f.Name, at("Url5xxCount"), at("UrlRequestCount"), at("Url4xxCount")})
	}
	return doors
}
