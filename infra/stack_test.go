package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/internal/env"
)

// TestStackPassesTheSecurityChecks: a rule of cdk-nag that fails without a reason
// fails the making of the stack. Here it is seen that the rules were asked, and
// that what they hold against the stack is what nag.go answers for.
func TestStackPassesTheSecurityChecks(t *testing.T) {
	t.Parallel()
	answered := map[string]bool{}
	for _, stack := range []func() (synthesized, error){defaults, atURLs, chosen} {
		compliant := 0
		for _, row := range stackOf(t, stack).Checks[1:] {
			rule, verdict, reason := row[0], row[2], row[3]
			switch verdict {
			case "Compliant":
				compliant++
			case "Suppressed":
				i := slices.IndexFunc(exceptions(false), func(e exception) bool { return e.Rule == rule && strings.HasSuffix(reason, e.Reason) })
				require.GreaterOrEqual(t, i, 0, "%v", row)
				answered[exceptions(false)[i].Reason] = true
			default:
				require.NotEqual(t, "Non-Compliant", verdict, "%s: %v", rule, row)
			}
		}
		require.Greater(t, compliant, 20, "the rules were not asked")
	}
	for _, e := range exceptions(false) {
		require.True(t, answered[e.Reason], "%s: nothing needs this exception", e.Rule)
	}
}

func TestTableHasTheKeysAndIndexesThatTheCodeNames(t *testing.T) {
	t.Parallel()
	table := stackOf(t, defaults).only(t, "AWS::DynamoDB::Table").Properties
	require.JSONEq(t, keys(env.KeyPartition, env.KeySort), jsonOf(t, table["KeySchema"]))
	want := map[string]struct{ keys, projection string }{
		env.IndexList: {keys(env.IndexListPartition, env.IndexListSort), "ALL"},
		env.IndexDue:  {keys(env.IndexDuePartition, env.IndexDueSort), "KEYS_ONLY"},
		env.IndexTodo: {keys(env.IndexTodoPartition, env.IndexTodoSort), "ALL"},
	}
	indexes := listOf(table["GlobalSecondaryIndexes"])
	require.Len(t, indexes, len(want))
	for _, index := range indexes {
		w := want[at(index, "IndexName").(string)]
		require.JSONEq(t, w.keys, jsonOf(t, at(index, "KeySchema")))
		require.Equal(t, w.projection, at(index, "Projection", "ProjectionType"))
	}
	for _, a := range listOf(table["AttributeDefinitions"]) {
		kind := "S"
		if at(a, "AttributeName") == env.IndexDueSort {
			kind = "N"
		}
		require.Equal(t, kind, at(a, "AttributeType"), "%v", a)
	}
	require.Equal(t, env.KeyExpiry, at(table, "TimeToLiveSpecification", "AttributeName"))
	require.Equal(t, "PAY_PER_REQUEST", table["BillingMode"])
	require.JSONEq(t, `{"PointInTimeRecoveryEnabled": true, "RecoveryPeriodInDays": 35}`, jsonOf(t, table["PointInTimeRecoverySpecification"]))
}

func keys(partition, sort string) string {
	return `[{"AttributeName": "` + partition + `", "KeyType": "HASH"}, {"AttributeName": "` + sort + `", "KeyType": "RANGE"}]`
}

func TestDataOutlivesTheStackUnlessChosenOtherwise(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		stack  func() (synthesized, error)
		policy string
		keep   bool
	}{{defaults, "Retain", true}, {chosen, "Delete", false}} {
		s := stackOf(t, c.stack)
		table, bucket := s.only(t, "AWS::DynamoDB::Table"), s.only(t, "AWS::S3::Bucket")
		require.Equal(t, c.policy, table.DeletionPolicy)
		require.Equal(t, c.keep, table.Properties["DeletionProtectionEnabled"])
		require.Equal(t, c.policy, bucket.DeletionPolicy)
	}
}

func TestBucketIsShutAndKeepsNoVersions(t *testing.T) {
	t.Parallel()
	bucket := stackOf(t, defaults).only(t, "AWS::S3::Bucket").Properties
	require.JSONEq(t, `{"BlockPublicAcls": true, "BlockPublicPolicy": true, "IgnorePublicAcls": true, "RestrictPublicBuckets": true}`,
		jsonOf(t, bucket["PublicAccessBlockConfiguration"]))
	require.Equal(t, "AES256", at(listOf(at(bucket, "BucketEncryption", "ServerSideEncryptionConfiguration"))[0], "ServerSideEncryptionByDefault", "SSEAlgorithm"))
	require.NotContains(t, bucket, "VersioningConfiguration", "what is deleted must be gone")
	require.Equal(t, 1, whole(t, at(listOf(at(bucket, "LifecycleConfiguration", "Rules"))[0], "AbortIncompleteMultipartUpload", "DaysAfterInitiation")))
}

// TestEveryQueueHasADeadLetterQueue, and an alarm on its depth; and what comes out
// of one stays invisible for long enough.
func TestEveryQueueHasADeadLetterQueue(t *testing.T) {
	t.Parallel()
	s := stackOf(t, defaults)
	queues := s.of(t, "AWS::SQS::Queue")
	dead := map[string]bool{}
	for id, q := range queues {
		arn := at(q.Properties, "RedrivePolicy", "deadLetterTargetArn")
		if arn == nil {
			continue
		}
		target := listOf(at(arn, "Fn::GetAtt"))[0].(string)
		dead[target] = true
		require.Equal(t, q.Properties["FifoQueue"], queues[target].Properties["FifoQueue"], id)
		require.Greater(t, whole(t, queues[target].Properties["MessageRetentionPeriod"]), whole(t, q.Properties["MessageRetentionPeriod"]), id)
		require.GreaterOrEqual(t, whole(t, at(q.Properties, "RedrivePolicy", "maxReceiveCount")), 3, id)
		require.Equal(t, true, queues[target].Properties["SqsManagedSseEnabled"])
	}
	require.Len(t, dead, 3)
	for id, q := range queues {
		require.True(t, dead[id] || q.Properties["RedrivePolicy"] != nil, id)
	}
	for id := range dead {
		require.True(t, s.hasAlarm(t, "ApproximateNumberOfMessagesVisible", id), "%s has no alarm on its depth", id)
	}
	for id, source := range s.of(t, "AWS::Lambda::EventSourceMapping") {
		queue := queues[listOf(at(source.Properties, "EventSourceArn", "Fn::GetAtt"))[0].(string)].Properties
		function := s.Template.Resources[at(source.Properties, "FunctionName", "Ref").(string)].Properties
		require.GreaterOrEqual(t, whole(t, queue["VisibilityTimeout"]), 6*whole(t, function["Timeout"]), id)
	}
}

func TestInboxKeepsTheOrderOfASessionAndOfNoMore(t *testing.T) {
	t.Parallel()
	s := stackOf(t, defaults)
	for id, source := range s.of(t, "AWS::Lambda::EventSourceMapping") {
		require.JSONEq(t, `["ReportBatchItemFailures"]`, jsonOf(t, source.Properties["FunctionResponseTypes"]), id)
		require.NotNil(t, at(source.Properties, "ScalingConfig", "MaximumConcurrency"), id)
		queue := s.Template.Resources[listOf(at(source.Properties, "EventSourceArn", "Fn::GetAtt"))[0].(string)].Properties
		if queue["FifoQueue"] == nil {
			continue
		}
		require.Equal(t, 1, whole(t, source.Properties["BatchSize"]))
		require.Equal(t, "messageGroup", queue["DeduplicationScope"])
		require.Equal(t, "perMessageGroupId", queue["FifoThroughputLimit"])
		require.Equal(t, 3, whole(t, at(queue, "RedrivePolicy", "maxReceiveCount")))
		require.Nil(t, queue["ContentBasedDeduplication"], "the sender names a command")
	}
}

func TestFunctionsAreAsTheTableSays(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		stack func() (synthesized, error)
		arch  string
		days  int
	}{{defaults, archARM, 30}, {chosen, archX86, 7}} {
		s := stackOf(t, c.stack)
		require.Len(t, s.of(t, "AWS::Lambda::Function"), len(env.FunctionNames()))
		for _, name := range env.FunctionNames() {
			_, f := s.function(t, name)
			require.Equal(t, "provided.al2023", f.Properties["Runtime"], name)
			require.JSONEq(t, `["`+c.arch+`"]`, jsonOf(t, f.Properties["Architectures"]), name)
			require.Equal(t, "JSON", at(f.Properties, "LoggingConfig", "LogFormat"), name)
			log := s.Template.Resources[at(f.Properties, "LoggingConfig", "LogGroup", "Ref").(string)]
			require.Equal(t, "AWS::Logs::LogGroup", log.Type, name)
			require.Equal(t, c.days, whole(t, log.Properties["RetentionInDays"]), name)
		}
		for id, log := range s.of(t, "AWS::Logs::LogGroup") {
			require.Equal(t, c.days, whole(t, log.Properties["RetentionInDays"]), id)
		}
	}
}

// TestEnvironmentsAreWhatEnvNames: no name is spelt twice, and a function finds
// all it may look for.
func TestEnvironmentsAreWhatEnvNames(t *testing.T) {
	t.Parallel()
	for _, stack := range []func() (synthesized, error){defaults, chosen} {
		s := stackOf(t, stack)
		for _, name := range env.FunctionNames() {
			_, f := s.function(t, name)
			variables := at(f.Properties, "Environment", "Variables").(map[string]any)
			require.ElementsMatch(t, env.FunctionVariables(), sortedKeys(variables), name)
			require.Less(t, len(jsonOf(t, variables)), 4096, "Lambda takes 4 KB")
		}
	}
}

func TestEnvironmentCarriesWhatWasChosen(t *testing.T) {
	t.Parallel()
	s := stackOf(t, chosen)
	_, f := s.function(t, env.FunctionDrive)
	variables := at(f.Properties, "Environment", "Variables").(map[string]any)
	for name, want := range map[string]string{
		env.OpenAISecret: someSecret, env.OpenAIBaseURL: "https://models.example.com/v1", env.OpenAIModel: "large",
		env.PublicURL: "https://agents.example.com", env.StreamURL: "https://stream.example.com", env.Secrets: "perdure/other/", env.RolloverSteps: "5", env.SliceTurns: "1",
		env.PurgeAgain: "2", env.AllowPrivate: "1",
	} {
		require.Equal(t, want, variables[name], name)
	}
	require.Equal(t, 50, whole(t, f.Properties["ReservedConcurrentExecutions"]))
	_, f = stackOf(t, defaults).function(t, env.FunctionDrive)
	require.NotContains(t, f.Properties, "ReservedConcurrentExecutions", "new accounts have little")
}

// TestFunctionsKnowWhereTheWorldFindsThem: all but stream know where streams are,
// and all where the API is, if there is one in front.
func TestFunctionsKnowWhereTheWorldFindsThem(t *testing.T) {
	t.Parallel()
	s := stackOf(t, defaults)
	for _, name := range env.FunctionNames() {
		_, f := s.function(t, name)
		variables := at(f.Properties, "Environment", "Variables")
		require.Contains(t, jsonOf(t, at(variables, env.PublicURL)), "ApiEndpoint", name)
		if name != env.FunctionStream {
			require.Contains(t, jsonOf(t, at(variables, env.StreamURL)), "FunctionUrl", name)
		}
	}
}

func TestReadsAndWritesHaveFunctionsOfTheirOwn(t *testing.T) {
	t.Parallel()
	s := stackOf(t, defaults)
	want := map[string]string{"GET /": env.FunctionRead, "GET /{proxy+}": env.FunctionRead, "$default": env.FunctionAPI}
	routes := s.of(t, "AWS::ApiGatewayV2::Route")
	require.Len(t, routes, len(want))
	for _, route := range routes {
		target := jsonOf(t, route.Properties["Target"])
		for id, integration := range s.of(t, "AWS::ApiGatewayV2::Integration") {
			if strings.Contains(target, `"`+id+`"`) {
				function, _ := s.function(t, want[route.Properties["RouteKey"].(string)])
				require.True(t, refers(t, integration.Properties["IntegrationUri"], function), "%v", route)
				require.Equal(t, "2.0", integration.Properties["PayloadFormatVersion"])
			}
		}
	}
	stage := s.only(t, "AWS::ApiGatewayV2::Stage").Properties
	require.NotZero(t, at(stage, "DefaultRouteSettings", "ThrottlingRateLimit"))
	require.NotZero(t, at(stage, "DefaultRouteSettings", "ThrottlingBurstLimit"))
}

// TestAccessLogTellsNoSecret: a path may hold a promise's token, and a header a key.
func TestAccessLogTellsNoSecret(t *testing.T) {
	t.Parallel()
	format := at(stackOf(t, defaults).only(t, "AWS::ApiGatewayV2::Stage").Properties, "AccessLogSettings", "Format").(string)
	require.Contains(t, format, "$context.routeKey")
	for _, no := range []string{"$context.path", "querystring", "header", "authorizer", "$request"} {
		require.NotContains(t, strings.ToLower(format), strings.ToLower(no))
	}
}

func TestOutputsKeepTheirNames(t *testing.T) {
	t.Parallel()
	want := []string{"AdminKeySecret", "AlarmTopic", "ApiUrl", "Bucket", "InboxUrl", "Machine", "StreamUrl", "Table", "WorkQueueUrl"}
	require.Equal(t, want, sortedKeys(stackOf(t, defaults).Template.Outputs))
	require.ElementsMatch(t, append(want, "ReadUrl"), sortedKeys(stackOf(t, chosen).Template.Outputs))
}

func TestSecretsAreMadeByAWSAndOutOfReachOfTools(t *testing.T) {
	t.Parallel()
	s := stackOf(t, defaults)
	ids := map[any]bool{}
	for id, secret := range s.of(t, "AWS::SecretsManager::Secret") {
		require.NotContains(t, secret.Properties, "SecretString", id)
		require.NotContains(t, secret.Properties, "Name", "a name under the tools' prefix would hand it to them")
		made := secret.Properties["GenerateSecretString"]
		require.Equal(t, 64, whole(t, at(made, "PasswordLength")))
		require.Equal(t, true, at(made, "ExcludePunctuation"))
		require.Equal(t, env.SecretText, at(made, "GenerateStringKey"))
		ids[at(made, "SecretStringTemplate")] = true
	}
	require.Equal(t, map[any]bool{`{"id":"admin"}`: true, `{"id":"1"}`: true}, ids)
}

// TestEmulatorHasEveryType: without the rule for sampling the stack deploys to the
// targets of localstack, too.
func TestEmulatorHasEveryType(t *testing.T) {
	t.Parallel()
	missing := []string{
		"AWS::StepFunctions::StateMachineVersion", "AWS::StepFunctions::StateMachineAlias", "AWS::CloudWatch::CompositeAlarm",
		"AWS::XRay::SamplingRule", "AWS::ResourceGroups::Group",
	}
	for id, r := range stackOf(t, chosen).Template.Resources {
		require.NotContains(t, missing, r.Type, id)
		require.NotContains(t, r.Type, "Custom::", id)
	}
	for id, a := range stackOf(t, defaults).of(t, "AWS::CloudWatch::Alarm") {
		require.NotContains(t, a.Properties, "Metrics", "%s: a query", id)
	}
	require.InDelta(t, 0.05, at(stackOf(t, defaults).only(t, "AWS::XRay::SamplingRule").Properties, "SamplingRule", "FixedRate"), 0)
}

func TestTemplateFits(t *testing.T) {
	t.Parallel()
	s := stackOf(t, defaults)
	require.Less(t, len(s.Text), 1_000_000/2, "CloudFormation takes 1 MB")
	require.Less(t, len(s.Template.Resources), 500/2, "CloudFormation takes 500")
}
