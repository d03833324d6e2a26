package awsaccount_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/internal/adapter/awsaccount"
)

// service plays AWS on the wire: what it answers is by operation.
func service(t *testing.T, answer func(op string, r *http.Request, body string) (status int, text string)) *awsaccount.Account {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		status, text := answer(operation(r, string(body)), r, string(body))
		if strings.HasPrefix(text, "<") {
			w.Header().Set("Content-Type", "text/xml")
		} else {
			w.Header().Set("Content-Type", "application/x-amz-json-1.1")
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	}))
	t.Cleanup(server.Close)
	return awsaccount.New(aws.Config{
		Region: "eu-west-1", BaseEndpoint: aws.String(server.URL), Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
		RetryMaxAttempts: 1,
	})
}

// operation is what a request asks for, in any of the protocols.
func operation(r *http.Request, body string) string {
	if target := r.Header.Get("X-Amz-Target"); target != "" {
		return target[strings.LastIndexByte(target, '.')+1:]
	}
	if form, err := url.ParseQuery(body); err == nil && form.Get("Action") != "" {
		return form.Get("Action")
	}
	return r.Method + " " + r.URL.Path
}

func TestQuotasArePagedAndCompletedByDefaults(t *testing.T) {
	t.Parallel()
	quota := func(code, name string, value float64) string {
		return fmt.Sprintf(`{"ServiceCode":"states","QuotaCode":%q,"QuotaName":%q,"Value":%g,"Adjustable":true}`, code, name, value)
	}
	a := service(t, func(op string, _ *http.Request, body string) (int, string) {
		var in struct{ ServiceCode, NextToken string }
		if json.Unmarshal([]byte(body), &in) != nil || in.ServiceCode != "states" {
			return 400, `{"__type":"IllegalArgumentException"}`
		}
		switch op + in.NextToken {
		case "ListServiceQuotas":
			return 200, `{"NextToken":"2","Quotas":[` + quota("L-1", "one", 10) + `]}`
		case "ListServiceQuotas2":
			return 200, `{"Quotas":[` + quota("L-2", "two", 0.5) + `,{"QuotaCode":"L-9","QuotaName":"without a value"}]}`
		case "ListAWSDefaultServiceQuotas":
			return 200, `{"Quotas":[` + quota("L-1", "one", 1000) + `,` + quota("L-3", "three", 3) + `]}`
		}
		return 400, `{"__type":"UnknownOperationException"}`
	})
	got, err := a.Quotas(t.Context(), "states")
	require.NoError(t, err)
	require.Equal(t, []awsaccount.Quota{
		{Service: "states", Name: "one", Code: "L-1", Value: 10, Adjustable: true},
		{Service: "states", Name: "two", Code: "L-2", Value: 0.5, Adjustable: true},
		{Service: "states", Name: "three", Code: "L-3", Value: 3, Adjustable: true, Default: true},
	}, got)
}

func TestWhatServicesSayOfThemselves(t *testing.T) {
	t.Parallel()
	a := service(t, func(op string, _ *http.Request, _ string) (int, string) {
		switch op {
		case "GetCallerIdentity":
			return 200, `<GetCallerIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><GetCallerIdentityResult><Arn>arn:aws:iam::123456789012:user/ada</Arn><UserId>U</UserId><Account>123456789012</Account></GetCallerIdentityResult></GetCallerIdentityResponse>`
		case "GET /2016-08-19/account-settings", "GET /2016-08-19/account-settings/":
			return 200, `{"AccountLimit":{"ConcurrentExecutions":10,"UnreservedConcurrentExecutions":4},"AccountUsage":{}}`
		case "DescribeLimits":
			return 200, `{"AccountMaxReadCapacityUnits":80000,"AccountMaxWriteCapacityUnits":80000,"TableMaxReadCapacityUnits":40000,"TableMaxWriteCapacityUnits":30000}`
		}
		return 400, `{"__type":"UnknownOperationException"}`
	})
	who, err := a.Identity(t.Context())
	require.NoError(t, err)
	require.Equal(t, awsaccount.Identity{Account: "123456789012", ARN: "arn:aws:iam::123456789012:user/ada"}, who)
	c, err := a.Concurrency(t.Context())
	require.NoError(t, err)
	require.Equal(t, awsaccount.Concurrency{Account: 10, Unreserved: 4}, c)
	th, err := a.Throughput(t.Context())
	require.NoError(t, err)
	require.Equal(t, awsaccount.Throughput{TableRead: 40000, TableWrite: 30000}, th)
}

// questions are all that can be asked.
func questions(a *awsaccount.Account) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"sts:GetCallerIdentity":           func(ctx context.Context) error { _, err := a.Identity(ctx); return err },
		"servicequotas:ListServiceQuotas": func(ctx context.Context) error { _, err := a.Quotas(ctx, "lambda"); return err },
		"lambda:GetAccountSettings":       func(ctx context.Context) error { _, err := a.Concurrency(ctx); return err },
		"dynamodb:DescribeLimits":         func(ctx context.Context) error { _, err := a.Throughput(ctx); return err },
		"cloudformation:DescribeStacks":   func(ctx context.Context) error { _, err := a.Stack(ctx, "s"); return err },
		"dynamodb:DescribeTable":          func(ctx context.Context) error { _, _, err := a.Table(ctx, "table"); return err },
		"s3:ListBucket":                   func(ctx context.Context) error { return a.Bucket(ctx, "bucket") },
		"states:DescribeStateMachine": func(ctx context.Context) error {
			_, err := a.Machine(ctx, "arn:aws:states:eu-west-1:123456789012:stateMachine:m")
			return err
		},
		"secretsmanager:GetSecretValue": func(ctx context.Context) error { _, err := a.Secret(ctx, "s"); return err },
		"sqs:GetQueueAttributes": func(ctx context.Context) error {
			_, err := a.Queue(ctx, "https://sqs.eu-west-1.amazonaws.com/1/q")
			return err
		},
		"lambda:GetFunctionConfiguration": func(ctx context.Context) error { _, err := a.Function(ctx, "f"); return err },
	}
}

// Whoever may not ask is told what it takes, in the words of a policy.
func TestWhyAQuestionIsNotAnswered(t *testing.T) {
	t.Parallel()
	problem := func(status int, code, message string) func(string, *http.Request, string) (int, string) {
		return func(op string, r *http.Request, _ string) (int, string) {
			switch {
			case r.Method == http.MethodHead:
				return status, ""
			case op == "GetCallerIdentity" || op == "DescribeStacks":
				return status, "<ErrorResponse><Error><Type>Sender</Type><Code>" + code + "</Code><Message>" + message + "</Message></Error><RequestId>r</RequestId></ErrorResponse>"
			}
			return status, fmt.Sprintf(`{"__type":%q,"code":%q,"message":%q,"Code":%q}`, code, code, message, code)
		}
	}
	for name, c := range map[string]struct {
		answer func(string, *http.Request, string) (int, string)
		why    string
		except []string
	}{
		"denied":  {problem(403, "AccessDeniedException", "no"), awsaccount.WhyDenied, nil},
		"caller":  {problem(403, "ExpiredTokenException", "no"), awsaccount.WhyCaller, []string{"s3:ListBucket"}}, // a HEAD is answered without words
		"missing": {problem(404, "ResourceNotFoundException", "no"), awsaccount.WhyMissing, nil},
		"other":   {problem(400, "ThrottlingException", "slow down"), awsaccount.WhyOther, nil},
	} {
		a := service(t, c.answer)
		for action, ask := range questions(a) {
			err := ask(t.Context())
			var f *awsaccount.FaultError
			require.ErrorAs(t, err, &f, "%s: %s", name, action)
			require.Equal(t, action, f.Action)
			if len(c.except) == 0 || c.except[0] != action {
				require.Equal(t, c.why, f.Why, "%s: %s: %v", name, action, err)
			}
		}
	}
	for action, ask := range questions(awsaccount.New(aws.Config{
		Region: "eu-west-1", BaseEndpoint: aws.String("http://127.0.0.1:1"), Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
		RetryMaxAttempts: 1,
	})) {
		var f *awsaccount.FaultError
		require.ErrorAs(t, ask(t.Context()), &f)
		require.Equal(t, awsaccount.WhyUnreachable, f.Why, action)
	}
	a := service(t, problem(400, "ValidationError", "Stack with id s does not exist"))
	_, err := a.Stack(t.Context(), "s")
	var f *awsaccount.FaultError
	require.ErrorAs(t, err, &f)
	require.Equal(t, awsaccount.WhyMissing, f.Why)
}
