package main

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/internal/env"
)

// everywhere are the actions that know no resources; AWS's own page of each
// service says so.
var everywhere = []string{
	"xray:PutTelemetryRecords", "xray:PutTraceSegments", "xray:GetSamplingRules", "xray:GetSamplingTargets",
	"logs:CreateLogDelivery", "logs:DeleteLogDelivery", "logs:DescribeLogGroups", "logs:DescribeResourcePolicies",
	"logs:GetLogDelivery", "logs:ListLogDeliveries", "logs:PutResourcePolicy", "logs:UpdateLogDelivery",
}

// patterns are the resources that can only be named by one: see nag.go.
var patterns = regexp.MustCompile(`"(/\*|:execution:[a-z]+-session:\*|:secret:perdure/[a-z]+/\*)"`)

// statement is one of a role's, and whose it is.
type statement struct {
	owner              string
	actions, resources []string
}

func (s synthesized) statements(t *testing.T) []statement {
	t.Helper()
	var all []statement
	add := func(owner string, document any) {
		for _, st := range listOf(at(document, "Statement")) {
			one := statement{owner: owner}
			for _, a := range listOf(at(st, "Action")) {
				one.actions = append(one.actions, a.(string))
			}
			for _, r := range listOf(at(st, "Resource")) {
				one.resources = append(one.resources, jsonOf(t, r))
			}
			require.Equal(t, "Allow", at(st, "Effect"))
			all = append(all, one)
		}
	}
	for id, role := range s.of(t, "AWS::IAM::Role") {
		require.Empty(t, role.Properties["ManagedPolicyArns"], "%s: what AWS manages holds more than is needed", id)
		for _, p := range listOf(role.Properties["Policies"]) {
			add(id, at(p, "PolicyDocument"))
		}
	}
	for _, p := range s.of(t, "AWS::IAM::Policy") {
		add(at(listOf(p.Properties["Roles"])[0], "Ref").(string), p.Properties["PolicyDocument"])
	}
	return all
}

func TestNoRoleMayMoreThanItNames(t *testing.T) {
	t.Parallel()
	for _, stack := range []func() (synthesized, error){defaults, chosen} {
		for _, st := range stackOf(t, stack).statements(t) {
			for _, action := range st.actions {
				require.NotContains(t, action, "*", st.owner)
			}
			for _, r := range st.resources {
				if r == `"*"` {
					require.Subset(t, everywhere, st.actions, st.owner)
				} else if strings.Contains(r, "*") {
					require.Regexp(t, patterns, r, st.owner)
				}
			}
		}
	}
}

// may returns who may do something.
func (s synthesized) may(t *testing.T, action string) []string {
	t.Helper()
	var who []string
	for _, st := range s.statements(t) {
		if slices.Contains(st.actions, action) {
			who = append(who, strings.ToLower(regexp.MustCompile(`^Functions(\w+?)Role|^(Machine)Role`).FindString(st.owner)))
		}
	}
	for i, w := range who {
		who[i] = strings.TrimSuffix(strings.TrimPrefix(w, "functions"), "role")
	}
	slices.Sort(who)
	return slices.Compact(who)
}

// TestWhoMayDoWhat: the list that a reviewer asks for.
func TestWhoMayDoWhat(t *testing.T) {
	t.Parallel()
	s := stackOf(t, defaults)
	all := []string{env.FunctionAPI, env.FunctionDrive, env.FunctionInbox, env.FunctionPark, env.FunctionRead, env.FunctionStream, env.FunctionSweep, env.FunctionTool}
	commit := []string{env.FunctionAPI, env.FunctionDrive, env.FunctionInbox, env.FunctionPark, env.FunctionSweep, env.FunctionTool}
	for action, who := range map[string][]string{
		"dynamodb:Query":          all,
		"dynamodb:DeleteItem":     commit,
		"dynamodb:PutItem":        all, // who reads says that somebody is looking
		"s3:GetObject":            all,
		"s3:PutObject":            {env.FunctionAPI, env.FunctionDrive, env.FunctionInbox, env.FunctionTool},
		"s3:DeleteObject":         {env.FunctionAPI, env.FunctionDrive, env.FunctionInbox, env.FunctionSweep, env.FunctionTool},
		"states:StartExecution":   commit,
		"states:SendTaskSuccess":  commit,
		"states:StopExecution":    {env.FunctionSweep},
		"lambda:InvokeFunction":   {"machine"},
		"logs:PutLogEvents":       env.FunctionNames(),
		"dynamodb:Scan":           nil,
		"s3:ListBucket":           all,
		"sqs:DeleteMessage":       {env.FunctionDeliver, env.FunctionInbox},
		"states:SendTaskFailure":  nil,
		"logs:CreateLogGroup":     nil,
		"dynamodb:BatchWriteItem": commit,
		"dynamodb:UpdateItem":     commit,
		"sqs:SendMessage":         {env.FunctionDeliver, env.FunctionDrive, env.FunctionTool},
	} {
		require.ElementsMatch(t, who, s.may(t, action), action)
	}
	require.Equal(t, []string{env.FunctionDrive, "machine", env.FunctionTool}, stackOf(t, chosen).may(t, "lambda:InvokeFunction"))
}

func TestSecretsAreReadByThoseWhoNeedThem(t *testing.T) {
	t.Parallel()
	s := stackOf(t, chosen)
	readers := map[string][]string{}
	for _, st := range s.statements(t) {
		if slices.Contains(st.actions, "secretsmanager:GetSecretValue") {
			for _, r := range st.resources {
				for _, secret := range []string{"SecretsKey", "SecretsSigning", someSecret, "secret:perdure/other/*"} {
					if strings.Contains(r, secret) {
						readers[secret] = append(readers[secret], regexp.MustCompile(`[A-Z][a-z]+`).FindAllString(st.owner, 2)[1])
					}
				}
			}
		}
	}
	for secret, who := range map[string][]string{
		"SecretsKey":             {"Api", "Read", "Stream"},
		"SecretsSigning":         {"Api", "Drive", "Inbox", "Read", "Stream", "Tool"},
		someSecret:               {"Drive"},
		"secret:perdure/other/*": {"Drive", "Tool"},
	} {
		require.ElementsMatch(t, who, readers[secret], secret)
	}
}

func TestToolsInvokeTheFunctionsThatWereNamedAndNoOther(t *testing.T) {
	t.Parallel()
	for _, st := range stackOf(t, chosen).statements(t) {
		if slices.Contains(st.actions, "lambda:InvokeFunction") && strings.HasPrefix(st.owner, "Functions") {
			require.Equal(t, []string{`"` + someFunction + `"`}, st.resources)
		}
	}
}
