package localstack_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	ddbtypes "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/stretchr/testify/require"
)

func (r *reading) table(is resource) {
	client := dynamodb.NewFromConfig(r.stack.Config)
	got, err := client.DescribeTable(r.Context(), &dynamodb.DescribeTableInput{TableName: &is.physical})
	if !r.there(is, err) {
		return
	}
	const billing, recovery, expiry = "BillingMode", "PointInTimeRecoverySpecification", "TimeToLiveSpecification"
	r.hasAll(is, got.Table, billing, recovery, expiry)
	r.has(is, billing, dig(plainly(r.T, got.Table.BillingModeSummary), billing))
	ttl, err := client.DescribeTimeToLive(r.Context(), &dynamodb.DescribeTimeToLiveInput{TableName: &is.physical})
	require.NoError(r, err)
	on := []ddbtypes.TimeToLiveStatus{ddbtypes.TimeToLiveStatusEnabled, ddbtypes.TimeToLiveStatusEnabling}
	r.has(is, expiry, map[string]any{
		"AttributeName": ttl.TimeToLiveDescription.AttributeName, "Enabled": slices.Contains(on, ttl.TimeToLiveDescription.TimeToLiveStatus),
	})
	backups, err := client.DescribeContinuousBackups(r.Context(), &dynamodb.DescribeContinuousBackupsInput{TableName: &is.physical})
	require.NoError(r, err)
	points := backups.ContinuousBackupsDescription.PointInTimeRecoveryDescription
	r.has(is, recovery, map[string]any{
		"PointInTimeRecoveryEnabled": points.PointInTimeRecoveryStatus == ddbtypes.PointInTimeRecoveryStatusEnabled,
		"RecoveryPeriodInDays":       points.RecoveryPeriodInDays,
	})
}

func (r *reading) objects() *s3.Client {
	return s3.NewFromConfig(r.stack.Config, func(o *s3.Options) { o.UsePathStyle = true })
}

func (r *reading) bucket(is resource) {
	client := r.objects()
	if _, err := client.HeadBucket(r.Context(), &s3.HeadBucketInput{Bucket: &is.physical}); !r.there(is, err) {
		return
	}
	// What a bucket does not have is an error of its own.
	var encryption, lifecycle, ownership, block any
	if got, err := client.GetBucketEncryption(r.Context(), &s3.GetBucketEncryptionInput{Bucket: &is.physical}); err == nil {
		encryption = dig(plainly(r.T, got.ServerSideEncryptionConfiguration.Rules), "ApplyServerSideEncryptionByDefault")
	}
	if got, err := client.GetBucketLifecycleConfiguration(r.Context(), &s3.GetBucketLifecycleConfigurationInput{Bucket: &is.physical}); err == nil {
		lifecycle = map[string]any{"Rules": got.Rules}
	}
	if got, err := client.GetBucketOwnershipControls(r.Context(), &s3.GetBucketOwnershipControlsInput{Bucket: &is.physical}); err == nil {
		ownership = got.OwnershipControls
	}
	if got, err := client.GetPublicAccessBlock(r.Context(), &s3.GetPublicAccessBlockInput{Bucket: &is.physical}); err == nil {
		block = got.PublicAccessBlockConfiguration
	}
	r.hasAll(is, map[string]any{
		"BucketEncryption":       map[string]any{"ServerSideEncryptionConfiguration": map[string]any{"ServerSideEncryptionByDefault": encryption}},
		"LifecycleConfiguration": lifecycle, "OwnershipControls": ownership, "PublicAccessBlockConfiguration": block,
	})
}

func (r *reading) bucketPolicy(is resource) {
	got, err := r.objects().GetBucketPolicy(r.Context(), &s3.GetBucketPolicyInput{Bucket: aws.String(r.named(is, "Bucket"))})
	if r.there(is, err) {
		r.has(is, "PolicyDocument", got.Policy)
	}
}

// named is the name of a resource that another refers to.
func (r *reading) named(is resource, property string) string {
	r.Helper()
	switch name := is.says[property].(type) {
	case part:
		return string(name)
	case whole:
		return string(name)
	default:
		require.FailNow(r, "no reference", "%s: %s is %v", is.id, property, name)
		return ""
	}
}

// listedBy are the ids of resources that another lists.
func (r *reading) listedBy(is resource, property string) (ids []string) {
	r.Helper()
	for _, to := range listed(is.says[property]) {
		id, ok := to.(whole)
		require.True(r, ok, "%s: %s is %v", is.id, property, to)
		ids = append(ids, string(id))
	}
	require.NotEmpty(r, ids, is.id)
	return ids
}

func (r *reading) attributes(queue string) (map[string]string, error) {
	got, err := sqs.NewFromConfig(r.stack.Config).GetQueueAttributes(r.Context(), &sqs.GetQueueAttributesInput{
		QueueUrl: &queue, AttributeNames: []sqstypes.QueueAttributeName{sqstypes.QueueAttributeNameAll},
	})
	if err != nil {
		return nil, err
	}
	return got.Attributes, nil
}

func (r *reading) queue(is resource) {
	if got, err := r.attributes(is.physical); r.there(is, err) {
		r.hasAll(is, got)
	}
}

func (r *reading) queuePolicy(is resource) {
	for _, queue := range r.listedBy(is, "Queues") {
		got, err := r.attributes(queue)
		if err == nil && got["Policy"] == "" {
			err = errors.New("the queue has no policy")
		}
		if r.there(is, err) {
			r.has(is, "PolicyDocument", got["Policy"])
		}
	}
}

func (r *reading) lambda() *lambda.Client { return lambda.NewFromConfig(r.stack.Config) }

func (r *reading) function(is resource) {
	got, err := r.lambda().GetFunction(r.Context(), &lambda.GetFunctionInput{FunctionName: &is.physical})
	if !r.there(is, err) {
		return
	}
	require.Positive(r, got.Configuration.CodeSize)
	r.hasAll(is, got.Configuration, "Code", "ReservedConcurrentExecutions")
	r.has(is, "ReservedConcurrentExecutions", dig(plainly(r.T, got.Concurrency), "ReservedConcurrentExecutions"))
}

func (r *reading) mapping(is resource) {
	got, err := r.lambda().GetEventSourceMapping(r.Context(), &lambda.GetEventSourceMappingInput{UUID: &is.physical})
	if err == nil && *got.State != "Enabled" {
		err = fmt.Errorf("it is %s", *got.State)
	}
	if r.there(is, err) {
		r.hasAll(is, got, "FunctionName")
		r.has(is, "FunctionName", resource{physical: *got.FunctionArn}.name())
	}
}

func (r *reading) eventInvoke(is resource) {
	got, err := r.lambda().GetFunctionEventInvokeConfig(r.Context(), &lambda.GetFunctionEventInvokeConfigInput{
		FunctionName: aws.String(r.named(is, "FunctionName")), Qualifier: aws.String(text(is.says["Qualifier"])),
	})
	if r.there(is, err) {
		r.hasAll(is, got, "FunctionName", "Qualifier")
	}
}

func (r *reading) url(is resource) {
	got, err := r.lambda().GetFunctionUrlConfig(r.Context(), &lambda.GetFunctionUrlConfigInput{FunctionName: aws.String(r.named(is, "TargetFunctionArn"))})
	if r.there(is, err) {
		r.hasAll(is, got, "TargetFunctionArn")
		r.has(is, "TargetFunctionArn", got.FunctionArn)
	}
}

// permission finds the statement of a function's policy that a permission is. It
// is called what CloudFormation calls the permission.
func (r *reading) permission(is resource) {
	got, err := r.lambda().GetPolicy(r.Context(), &lambda.GetPolicyInput{FunctionName: aws.String(r.named(is, "FunctionName"))})
	var statement any
	if err == nil {
		var policy struct{ Statement []map[string]any }
		require.NoError(r, json.Unmarshal([]byte(*got.Policy), &policy))
		i := slices.IndexFunc(policy.Statement, func(s map[string]any) bool { return s["Sid"] == is.name() })
		if err = errors.New("the function's policy does not have it"); i >= 0 {
			statement, err = policy.Statement[i], nil
		}
	}
	if !r.there(is, err) {
		return
	}
	who := dig(statement, "Principal")
	for _, kind := range []string{"Service", "AWS"} {
		if of := dig(who, kind); of != nil {
			who = of
		}
	}
	r.hasAll(is, map[string]any{
		"Action": dig(statement, "Action"), "FunctionName": dig(statement, "Resource"), "Principal": who,
		"SourceArn":             dig(statement, "Condition", "ArnLike", "AWS:SourceArn"),
		"FunctionUrlAuthType":   dig(statement, "Condition", "StringEquals", "lambda:FunctionUrlAuthType"),
		"InvokedViaFunctionUrl": dig(statement, "Condition", "Bool", "lambda:InvokedViaFunctionUrl"),
	})
}

func (r *reading) machine(is resource) {
	got, err := sfn.NewFromConfig(r.stack.Config).DescribeStateMachine(r.Context(), &sfn.DescribeStateMachineInput{StateMachineArn: &is.physical})
	if !r.there(is, err) {
		return
	}
	r.hasAll(is, map[string]any{
		"LoggingConfiguration": got.LoggingConfiguration, "RoleArn": got.RoleArn, "StateMachineName": got.Name,
		"StateMachineType": got.Type, "TracingConfiguration": got.TracingConfiguration,
	}, "DefinitionString", "DefinitionSubstitutions")
	definition := text(is.says["DefinitionString"])
	substitutions, _ := is.says["DefinitionSubstitutions"].(map[string]any)
	for name, value := range substitutions {
		require.Contains(r, definition, "${"+name+"}")
		if of, reference := value.(part); reference {
			require.Contains(r, *got.Definition, string(of), "what %s stands for", name)
		}
	}
	require.NotContains(r, *got.Definition, "${")
	var want, have struct{ States map[string]any }
	require.NoError(r, json.Unmarshal([]byte(definition), &want))
	require.NoError(r, json.Unmarshal([]byte(*got.Definition), &have))
	require.ElementsMatch(r, slices.Collect(maps.Keys(want.States)), slices.Collect(maps.Keys(have.States)))
}

func (r *reading) secret(is resource) {
	client := secretsmanager.NewFromConfig(r.stack.Config)
	got, err := client.DescribeSecret(r.Context(), &secretsmanager.DescribeSecretInput{SecretId: &is.physical})
	if !r.there(is, err) {
		return
	}
	r.hasAll(is, got, "GenerateSecretString")
	value, err := client.GetSecretValue(r.Context(), &secretsmanager.GetSecretValueInput{SecretId: &is.physical})
	require.NoError(r, err)
	made := *value.SecretString
	if key := text(dig(is.says, "GenerateSecretString", "GenerateStringKey")); key != "" {
		var in map[string]string
		require.NoError(r, json.Unmarshal([]byte(made), &in))
		made = in[key]
	}
	require.Equal(r, text(dig(is.says, "GenerateSecretString", "PasswordLength")), strconv.Itoa(len(made)))
}

func (r *reading) topic(is resource) {
	_, err := r.query("sns", "2010-03-31", "GetTopicAttributes", "TopicArn", is.physical)
	r.there(is, err)
}

func (r *reading) topicPolicy(is resource) {
	for _, topic := range r.listedBy(is, "Topics") {
		got, err := r.query("sns", "2010-03-31", "GetTopicAttributes", "TopicArn", topic)
		if !r.there(is, err) {
			continue
		}
		for _, entry := range listed(dig(got, "GetTopicAttributesResult", "Attributes")) {
			if dig(entry, "key") == "Policy" {
				r.has(is, "PolicyDocument", dig(entry, "value"))
			}
		}
		require.Contains(r, r.facts, is.kind+".PolicyDocument", "the topic has no policy")
	}
}

const iamVersion = "2010-05-08"

func (r *reading) role(is resource) {
	got, err := r.query("iam", iamVersion, "GetRole", "RoleName", is.physical)
	if !r.there(is, err) {
		return
	}
	r.has(is, "AssumeRolePolicyDocument", unescaped(dig(got, "GetRoleResult", "Role", "AssumeRolePolicyDocument")))
	for _, p := range listed(is.says["Policies"]) {
		r.document(is, "Policies", is.physical, dig(p, "PolicyName"), dig(p, "PolicyDocument"))
	}
}

func (r *reading) policy(is resource) {
	for _, role := range r.listedBy(is, "Roles") {
		r.document(is, "", role, is.says["PolicyName"], is.says["PolicyDocument"])
	}
}

// document holds a role's inline policy.
func (r *reading) document(is resource, property, role string, name, want any) {
	r.Helper()
	if name == nil {
		return // there is none
	}
	got, err := r.query("iam", iamVersion, "GetRolePolicy", "RoleName", role, "PolicyName", text(name))
	have := unescaped(dig(got, "GetRolePolicyResult", "PolicyDocument"))
	if err == nil && !covers(want, have) {
		err = fmt.Errorf("want %s, got %s", text(want), have)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", is.id, err)
	}
	r.note(strings.TrimSuffix(is.kind+"."+property, "."), err)
}

// unescaped is a document as IAM writes it: escaped as in a URL.
func unescaped(v any) string {
	document, err := url.QueryUnescape(text(v))
	if err != nil {
		return text(v)
	}
	return document
}

func (r *reading) alarm(is resource) {
	got, err := r.rpc("monitoring", "GraniteServiceVersion20100801.DescribeAlarms", map[string]any{"AlarmNames": []string{is.physical}})
	found := dig(got, "MetricAlarms")
	if alarms, ok := found.([]any); err == nil && (!ok || len(alarms) == 0) {
		err = errors.New("there is no such alarm")
	}
	if r.there(is, err) {
		r.hasAll(is, listed(found)[0])
	}
}

func (r *reading) dashboard(is resource) {
	got, err := r.rpc("monitoring", "GraniteServiceVersion20100801.GetDashboard", map[string]any{"DashboardName": is.physical})
	if r.there(is, err) {
		r.has(is, "DashboardBody", dig(got, "DashboardBody"))
	}
}

func (r *reading) logGroup(is resource) {
	got, err := r.rpc("logs", "Logs_20140328.DescribeLogGroups", map[string]any{"logGroupNamePrefix": is.physical})
	var group any
	if err == nil {
		groups := listed(dig(got, "logGroups"))
		i := slices.IndexFunc(groups, func(g any) bool { return dig(g, "logGroupName") == is.physical })
		if err = errors.New("there is no such group"); i >= 0 {
			group, err = groups[i], nil
		}
	}
	if r.there(is, err) {
		r.hasAll(is, group)
	}
}

func (r *reading) rule(is resource) {
	got, err := r.rpc("events", "AWSEvents.DescribeRule", map[string]any{"Name": is.name()})
	if !r.there(is, err) {
		return
	}
	r.hasAll(is, got, "Targets")
	got, err = r.rpc("events", "AWSEvents.ListTargetsByRule", map[string]any{"Rule": is.name()})
	require.NoError(r, err)
	r.has(is, "Targets", dig(got, "Targets"))
}

func (r *reading) api(is resource) {
	if got, err := r.rest(http.MethodGet, "apigateway", "/v2/apis/"+is.physical); r.there(is, err) {
		r.hasAll(is, got)
	}
}

func (r *reading) stage(is resource)       { r.ofAPI(is, "stages") }
func (r *reading) route(is resource)       { r.ofAPI(is, "routes") }
func (r *reading) integration(is resource) { r.ofAPI(is, "integrations") }

func (r *reading) ofAPI(is resource, kind string) {
	got, err := r.rest(http.MethodGet, "apigateway", "/v2/apis/"+r.named(is, "ApiId")+"/"+kind+"/"+is.name())
	if r.there(is, err) {
		r.hasAll(is, got, "ApiId")
	}
}

func (r *reading) sampling(is resource) {
	got, err := r.rest(http.MethodPost, "xray", "/GetSamplingRules")
	want := is.says["SamplingRule"]
	var rule any
	if err == nil {
		err = errors.New("there is no such rule")
		for _, record := range listed(dig(got, "SamplingRuleRecords")) {
			if found := dig(record, "SamplingRule"); dig(found, "RuleName") == dig(want, "RuleName") {
				rule, err = found, nil
			}
		}
	}
	if r.there(is, err) {
		r.has(is, "SamplingRule", rule)
	}
}

// Services that this module has no client of.

// query asks a service that answers in XML.
func (r *reading) query(service, version, action string, pairs ...string) (any, error) {
	form := url.Values{"Action": {action}, "Version": {version}}
	for i := 0; i < len(pairs); i += 2 {
		form.Set(pairs[i], pairs[i+1])
	}
	body, err := r.send(http.MethodPost, service, "/", []byte(form.Encode()), "Content-Type", "application/x-www-form-urlencoded")
	if err != nil {
		return nil, err
	}
	decoder := xml.NewDecoder(bytes.NewReader(body))
	for {
		token, err := decoder.Token()
		if err != nil {
			return nil, err
		}
		if _, root := token.(xml.StartElement); root {
			return element(decoder)
		}
	}
}

// element reads the rest of an element: text, a list of members or named
// elements.
func element(d *xml.Decoder) (any, error) {
	var words strings.Builder
	var list []any
	named := map[string]any{}
	for {
		token, err := d.Token()
		if err != nil {
			return nil, err
		}
		switch token := token.(type) {
		case xml.CharData:
			words.Write(token)
		case xml.StartElement:
			inner, err := element(d)
			if err != nil {
				return nil, err
			}
			if name := token.Name.Local; name == "member" || name == "entry" {
				list = append(list, inner)
			} else {
				named[name] = inner
			}
		case xml.EndElement:
			switch {
			case list != nil:
				return list, nil
			case len(named) > 0:
				return named, nil
			default:
				return strings.TrimSpace(words.String()), nil
			}
		}
	}
}

// rpc asks a service that takes and answers JSON.
func (r *reading) rpc(service, action string, request any) (out any, err error) {
	body, err := json.Marshal(request)
	require.NoError(r, err)
	if body, err = r.send(http.MethodPost, service, "/", body, "Content-Type", "application/x-amz-json-1.1", "X-Amz-Target", action); err == nil {
		err = json.Unmarshal(body, &out)
	}
	return out, err
}

// rest asks a service for what is at a path.
func (r *reading) rest(method, service, path string) (out any, err error) {
	body, err := r.send(method, service, path, nil)
	if err == nil {
		err = json.Unmarshal(body, &out)
	}
	return out, err
}

func (r *reading) send(method, service, path string, body []byte, headers ...string) ([]byte, error) {
	r.Helper()
	ctx := r.Context()
	endpoint, region := r.stack.Endpoint, r.stack.Config.Region
	if endpoint == "" {
		endpoint = "https://" + service + "." + region + ".amazonaws.com"
		if service == "iam" {
			endpoint, region = "https://iam.amazonaws.com", "us-east-1"
		}
	}
	request, err := http.NewRequestWithContext(ctx, method, endpoint+path, bytes.NewReader(body))
	require.NoError(r, err)
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	who, err := r.stack.Config.Credentials.Retrieve(ctx)
	require.NoError(r, err)
	sum := sha256.Sum256(body)
	require.NoError(r, v4.NewSigner().SignHTTP(ctx, who, request, hex.EncodeToString(sum[:]), service, region, time.Now()))
	response, err := r.stack.HTTP.Do(request)
	require.NoError(r, err)
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	require.NoError(r, err)
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %.300s", response.Status, answer)
	}
	return answer, nil
}
