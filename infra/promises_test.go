package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/internal/env"
)

// hasAlarm says whether an alarm on a metric of a resource tells the topic.
func (s synthesized) hasAlarm(t *testing.T, metric, of string) bool {
	t.Helper()
	for _, a := range s.of(t, "AWS::CloudWatch::Alarm") {
		p := a.Properties
		if p["MetricName"] != metric || !strings.Contains(jsonOf(t, p["Dimensions"]), of) {
			continue
		}
		topic := at(listOf(p["AlarmActions"])[0], "Ref").(string)
		return s.Template.Resources[topic].Type == "AWS::SNS::Topic"
	}
	return false
}

// TestT27EveryWaitEndsAndIsWatched: no state waits without a limit, the execution
// has one too, and whoever waits too long or is forgotten raises an alarm. A wait
// has no heartbeat: a person has none, and what stops waiting for one is the limit,
// the sweep and the alarm on what is overdue.
func TestT27EveryWaitEndsAndIsWatched(t *testing.T) {
	t.Parallel()
	var machine map[string]any
	require.NoError(t, json.Unmarshal(definition, &machine))
	require.NotZero(t, machine["TimeoutSeconds"], "the execution has no limit")
	tasks, waits := 0, 0
	eachState(machine, func(name string, state map[string]any) {
		require.NotEqual(t, "Wait", state["Type"], "%s waits where nobody can wake it", name)
		if state["Type"] != "Task" {
			return
		}
		tasks++
		require.True(t, state["TimeoutSeconds"] != nil || state["TimeoutSecondsPath"] != nil, "%s has no limit", name)
		if strings.HasSuffix(state["Resource"].(string), ".waitForTaskToken") {
			waits++
			require.Contains(t, jsonOf(t, state["Catch"]), "States.Timeout", "%s does not go on when its limit comes", name)
		}
	})
	require.GreaterOrEqual(t, tasks, 4)
	require.Equal(t, 1, waits)

	for _, stack := range []func() (synthesized, error){defaults, chosen} {
		s := stackOf(t, stack)
		for _, metric := range []string{"ExecutionsFailed", "ExecutionsTimedOut", "ExecutionThrottled"} {
			require.True(t, s.hasAlarm(t, metric, "MachineSession"), metric)
		}
		require.True(t, s.hasAlarm(t, env.MetricOverdue, "-"+env.FunctionSweep))
		for _, name := range quarantiners() {
			require.True(t, s.hasAlarm(t, env.MetricQuarantined, "-"+name), name)
		}
		for _, name := range env.FunctionNames() {
			id, _ := s.function(t, name)
			require.True(t, s.hasAlarm(t, "Throttles", id), name)
		}
		sweep, _ := s.function(t, env.FunctionSweep)
		require.True(t, s.hasAlarm(t, "Errors", sweep))
		require.True(t, s.hasAlarm(t, "Invocations", sweep))
		for _, queue := range []string{"QueuesInbox2", "QueuesOutbox", "QueuesWork"} {
			require.True(t, s.hasAlarm(t, "ApproximateAgeOfOldestMessage", queue), queue)
		}
	}
}

// eachState visits the states of a machine and of the maps within.
func eachState(machine map[string]any, visit func(name string, state map[string]any)) {
	states, _ := machine["States"].(map[string]any)
	for name, value := range states {
		state, _ := value.(map[string]any)
		visit(name, state)
		if inner, ok := state["ItemProcessor"].(map[string]any); ok {
			eachState(inner, visit)
		}
	}
}

func TestAlarmsReachWhomTheyShould(t *testing.T) {
	t.Parallel()
	sub := stackOf(t, chosen).only(t, "AWS::SNS::Subscription").Properties
	require.Equal(t, "ops@example.com", sub["Endpoint"])
	require.Equal(t, "email", sub["Protocol"])
	for id, a := range stackOf(t, defaults).of(t, "AWS::CloudWatch::Alarm") {
		require.Len(t, listOf(a.Properties["AlarmActions"]), 1, id)
		require.NotEmpty(t, a.Properties["AlarmDescription"], id)
		require.NotEmpty(t, a.Properties["TreatMissingData"], id)
	}
}

// TestT35NothingIsTriedAgainUnasked: Lambda would run an event that failed twice
// more, EventBridge for a day; here each says how often.
func TestT35NothingIsTriedAgainUnasked(t *testing.T) {
	t.Parallel()
	s := stackOf(t, defaults)
	retries := map[string]any{}
	for _, c := range s.of(t, "AWS::Lambda::EventInvokeConfig") {
		retries[at(c.Properties, "FunctionName", "Ref").(string)] = c.Properties["MaximumRetryAttempts"]
		require.Equal(t, asyncSeconds, whole(t, c.Properties["MaximumEventAgeInSeconds"]))
	}
	for id := range s.of(t, "AWS::Lambda::Function") {
		require.Equal(t, 0, whole(t, retries[id]), id)
	}
	sweep, _ := s.function(t, env.FunctionSweep)
	rules := s.of(t, "AWS::Events::Rule")
	require.Len(t, rules, 2)
	for id, rule := range rules {
		for _, target := range listOf(rule.Properties["Targets"]) {
			require.True(t, refers(t, at(target, "Arn"), sweep), id)
			require.LessOrEqual(t, whole(t, at(target, "RetryPolicy", "MaximumRetryAttempts")), 1, id)
			require.LessOrEqual(t, whole(t, at(target, "RetryPolicy", "MaximumEventAgeInSeconds")), asyncSeconds, id)
		}
	}
}

// TestSweepIsCalledEveryMinuteAndWhenAnExecutionEndsBadly: both of this machine
// alone, since an account may have several stacks.
func TestSweepIsCalledEveryMinuteAndWhenAnExecutionEndsBadly(t *testing.T) {
	t.Parallel()
	var schedules, patterns int
	for _, rule := range stackOf(t, defaults).of(t, "AWS::Events::Rule") {
		if rule.Properties["ScheduleExpression"] != nil {
			schedules++
			require.Equal(t, "rate(1 minute)", rule.Properties["ScheduleExpression"])
			continue
		}
		patterns++
		pattern := rule.Properties["EventPattern"]
		require.JSONEq(t, `["aws.states"]`, jsonOf(t, at(pattern, "source")))
		require.JSONEq(t, `["FAILED", "TIMED_OUT", "ABORTED"]`, jsonOf(t, at(pattern, "detail", "status")))
		require.Contains(t, jsonOf(t, at(pattern, "detail", "stateMachineArn")), "stateMachine:perdure-session")
	}
	require.Equal(t, []int{1, 1}, []int{schedules, patterns})
}

// TestMachineIsTheFile: with nothing left to put in, and a log without data.
func TestMachineIsTheFile(t *testing.T) {
	t.Parallel()
	m := stackOf(t, defaults).only(t, "AWS::StepFunctions::StateMachine").Properties
	require.JSONEq(t, string(definition), m["DefinitionString"].(string))
	substitutions := m["DefinitionSubstitutions"].(map[string]any)
	text := string(definition)
	for name := range substitutions {
		require.Contains(t, text, "${"+name+"}", "nothing needs it")
		text = strings.ReplaceAll(text, "${"+name+"}", "")
	}
	require.NotContains(t, text, "${", "nothing puts it in")
	require.Equal(t, "STANDARD", m["StateMachineType"])
	require.Equal(t, "ERROR", at(m, "LoggingConfiguration", "Level"))
	require.Equal(t, false, at(m, "LoggingConfiguration", "IncludeExecutionData"))
}
