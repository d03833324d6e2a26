package awsaccount_test

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	cftypes "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	lambdatypes "github.com/aws/aws-sdk-go-v2/service/lambda/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/internal/adapter/awsaccount"
	"github.com/perdure/perdure/localstack/target"
)

// template is a stack with one of everything that is looked at, but functions.
const template = `{"Resources": {
  "Table": {"Type": "AWS::DynamoDB::Table", "Properties": {"BillingMode": "PAY_PER_REQUEST",
    "AttributeDefinitions": [{"AttributeName": "pk", "AttributeType": "S"}, {"AttributeName": "lpk", "AttributeType": "S"}],
    "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}],
    "GlobalSecondaryIndexes": [{"IndexName": "list", "KeySchema": [{"AttributeName": "lpk", "KeyType": "HASH"}], "Projection": {"ProjectionType": "ALL"}}]}},
  "Bucket": {"Type": "AWS::S3::Bucket"},
  "Secret": {"Type": "AWS::SecretsManager::Secret", "Properties": {"SecretString": "{\"id\":\"admin\",\"secret\":\"x\"}"}},
  "Dead": {"Type": "AWS::SQS::Queue"},
  "Inbox": {"Type": "AWS::SQS::Queue", "Properties": {"RedrivePolicy": {"deadLetterTargetArn": {"Fn::GetAtt": ["Dead", "Arn"]}, "maxReceiveCount": 3}}},
  "Role": {"Type": "AWS::IAM::Role", "Properties": {"AssumeRolePolicyDocument": {"Version": "2012-10-17", "Statement": [
    {"Effect": "Allow", "Principal": {"Service": ["states.amazonaws.com", "lambda.amazonaws.com"]}, "Action": "sts:AssumeRole"}]}}},
  "Machine": {"Type": "AWS::StepFunctions::StateMachine", "Properties": {"RoleArn": {"Fn::GetAtt": ["Role", "Arn"]},
    "DefinitionString": "{\"StartAt\":\"Done\",\"States\":{\"Done\":{\"Type\":\"Succeed\"}}}"}}},
 "Outputs": {
  "Table": {"Value": {"Ref": "Table"}}, "Bucket": {"Value": {"Ref": "Bucket"}}, "AdminKeySecret": {"Value": {"Ref": "Secret"}},
  "Machine": {"Value": {"Ref": "Machine"}}, "InboxUrl": {"Value": {"Ref": "Inbox"}}, "DeadUrl": {"Value": {"Ref": "Dead"}},
  "Role": {"Value": {"Fn::GetAtt": ["Role", "Arn"]}}}}`

// deploy makes the stack, and takes it away after the test.
func deploy(t *testing.T, cfg aws.Config) (name string) {
	t.Helper()
	name = "perdure-doctor-" + strings.ToLower(rand.Text()[:8])
	cf := cloudformation.NewFromConfig(cfg)
	_, err := cf.CreateStack(t.Context(), &cloudformation.CreateStackInput{StackName: &name, TemplateBody: aws.String(template), Capabilities: []cftypes.Capability{cftypes.CapabilityCapabilityIam}})
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := cf.DeleteStack(context.WithoutCancel(t.Context()), &cloudformation.DeleteStackInput{StackName: &name})
		require.NoError(t, err)
	})
	done := cloudformation.NewStackCreateCompleteWaiter(cf, func(o *cloudformation.StackCreateCompleteWaiterOptions) {
		o.MinDelay, o.MaxDelay = 100*time.Millisecond, time.Second
	})
	require.NoError(t, done.Wait(t.Context(), &cloudformation.DescribeStacksInput{StackName: &name}, 5*time.Minute))
	return name
}

func TestAStackThatIsThere(t *testing.T) {
	t.Parallel()
	cfg := target.AWS(t)
	name := deploy(t, cfg)
	a := awsaccount.New(cfg)
	ctx := t.Context()

	s, err := a.Stack(ctx, name)
	require.NoError(t, err)
	require.Equal(t, "CREATE_COMPLETE", s.Status)

	status, indexes, err := a.Table(ctx, s.Outputs["Table"])
	require.NoError(t, err)
	require.Equal(t, "ACTIVE", status)
	require.Len(t, indexes, 1)
	require.Contains(t, []string{"ACTIVE", ""}, indexes["list"], "an emulator need not say")
	require.NoError(t, a.Bucket(ctx, s.Outputs["Bucket"]))
	status, err = a.Machine(ctx, s.Outputs["Machine"])
	require.NoError(t, err)
	require.Equal(t, "ACTIVE", status)
	text, err := a.Secret(ctx, s.Outputs["AdminKeySecret"])
	require.NoError(t, err)
	require.JSONEq(t, `{"id":"admin","secret":"x"}`, text)

	_, err = sqs.NewFromConfig(cfg).SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: aws.String(s.Outputs["DeadUrl"]), MessageBody: aws.String("x")})
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		q, err := a.Queue(ctx, s.Outputs["InboxUrl"])
		return err == nil && q == awsaccount.Queue{Dead: 1}
	}, time.Minute, 50*time.Millisecond)
	q, err := a.Queue(ctx, s.Outputs["DeadUrl"])
	require.NoError(t, err)
	require.Equal(t, awsaccount.Queue{Waiting: 1, Dead: -1}, q)

	f := function(t, cfg, name, s.Outputs["Role"])
	got, err := a.Function(ctx, f)
	require.NoError(t, err)
	require.EqualValues(t, -1, got.Reserved)
	require.NotEmpty(t, got.State)

	c, err := a.Concurrency(ctx)
	require.NoError(t, err)
	require.Positive(t, c.Account)
	require.Positive(t, c.Unreserved)
	_, err = a.Identity(ctx)
	require.NoError(t, err)
}

func function(t *testing.T, cfg aws.Config, name, role string) string {
	t.Helper()
	var code bytes.Buffer
	z := zip.NewWriter(&code)
	_, err := z.Create("bootstrap")
	require.NoError(t, err)
	require.NoError(t, z.Close())
	client := lambda.NewFromConfig(cfg)
	// A role is good for a function some seconds after it is there.
	require.Eventually(t, func() bool {
		_, err := client.CreateFunction(t.Context(), &lambda.CreateFunctionInput{
			FunctionName: &name, Role: &role, Runtime: lambdatypes.RuntimeProvidedal2023, Handler: aws.String("bootstrap"), Code: &lambdatypes.FunctionCode{ZipFile: code.Bytes()},
		})
		return err == nil
	}, time.Minute, time.Second)
	t.Cleanup(func() {
		_, err := client.DeleteFunction(context.WithoutCancel(t.Context()), &lambda.DeleteFunctionInput{FunctionName: &name})
		require.NoError(t, err)
	})
	return name
}

func TestAStackThatIsNot(t *testing.T) {
	t.Parallel()
	cfg := target.AWS(t)
	a := awsaccount.New(cfg)
	who, err := a.Identity(t.Context())
	require.NoError(t, err)
	missing := map[string]func(context.Context) error{
		"stack":    func(ctx context.Context) error { _, err := a.Stack(ctx, "perdure-nowhere"); return err },
		"table":    func(ctx context.Context) error { _, _, err := a.Table(ctx, "perdure-nowhere"); return err },
		"bucket":   func(ctx context.Context) error { return a.Bucket(ctx, "perdure-nowhere-"+strings.ToLower(rand.Text())) },
		"secret":   func(ctx context.Context) error { _, err := a.Secret(ctx, "perdure-nowhere"); return err },
		"function": func(ctx context.Context) error { _, err := a.Function(ctx, "perdure-nowhere"); return err },
		"machine": func(ctx context.Context) error {
			_, err := a.Machine(ctx, "arn:aws:states:"+cfg.Region+":"+who.Account+":stateMachine:perdure-nowhere")
			return err
		},
	}
	for name, ask := range missing {
		var f *awsaccount.FaultError
		require.ErrorAs(t, ask(t.Context()), &f, name)
		require.Equal(t, awsaccount.WhyMissing, f.Why, "%s: %v", name, f)
	}
}
