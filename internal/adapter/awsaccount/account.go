// Package awsaccount looks at an AWS account: what it allows, and how the parts
// of a stack in it stand.
//
// It changes nothing and judges nothing: what a value means is for who asks. It
// may import the AWS SDK.
package awsaccount

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/lambda"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/aws/aws-sdk-go-v2/service/servicequotas"
	"github.com/aws/aws-sdk-go-v2/service/sfn"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go"
)

// Account is one account in one Region. It is safe for concurrent use.
type Account struct {
	region    string
	identity  *sts.Client
	quotas    *servicequotas.Client
	stacks    *cloudformation.Client
	functions *lambda.Client
	tables    *dynamodb.Client
	buckets   *s3.Client
	machines  *sfn.Client
	queues    *sqs.Client
	secrets   *secretsmanager.Client
}

// Open finds the account by the usual settings of AWS: variables, profile,
// single sign-on. The Region is theirs if none is given. It asks nothing yet.
func Open(ctx context.Context, region string) (*Account, error) {
	var options []func(*config.LoadOptions) error
	if region != "" {
		options = append(options, config.WithRegion(region))
	}
	cfg, err := config.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return nil, fmt.Errorf("the AWS settings cannot be read: %w", err)
	}
	if cfg.Region == "" {
		return nil, errors.New("no AWS Region is set: name one with --region or AWS_REGION")
	}
	return New(cfg), nil
}

// New makes an Account of settings.
func New(cfg aws.Config) *Account {
	return &Account{
		region: cfg.Region, identity: sts.NewFromConfig(cfg), quotas: servicequotas.NewFromConfig(cfg),
		stacks: cloudformation.NewFromConfig(cfg), functions: lambda.NewFromConfig(cfg), tables: dynamodb.NewFromConfig(cfg),
		// An endpoint other than AWS's own need not know every bucket as a host.
		buckets:  s3.NewFromConfig(cfg, func(o *s3.Options) { o.UsePathStyle = cfg.BaseEndpoint != nil }),
		machines: sfn.NewFromConfig(cfg), queues: sqs.NewFromConfig(cfg), secrets: secretsmanager.NewFromConfig(cfg),
	}
}

// Region is the Region that is asked.
func (a *Account) Region() string { return a.region }

// Why a question was not answered.
const (
	WhyDenied      = "denied"      // the caller may not ask it
	WhyCaller      = "caller"      // there are no credentials, or no good ones
	WhyMissing     = "missing"     // there is no such thing
	WhyUnreachable = "unreachable" // nobody answers
	WhyOther       = "other"
)

// FaultError says why a question was not answered. Action is what the caller
// has to be allowed, as it stands in a policy; Code is AWS's, where it said one.
type FaultError struct {
	Action string
	Why    string
	Code   string
	Err    error
}

func (e *FaultError) Error() string { return e.Action + ": " + e.Err.Error() }

// Unwrap returns AWS's own error.
func (e *FaultError) Unwrap() error { return e.Err }

func fault(action string, err error) error {
	if err == nil {
		return nil
	}
	f := &FaultError{Action: action, Why: why(err), Err: err}
	if said, ok := errors.AsType[smithy.APIError](err); ok {
		f.Code = said.ErrorCode()
	}
	return f
}

func why(err error) string {
	said, ok := errors.AsType[smithy.APIError](err)
	if !ok {
		if _, ok := errors.AsType[*net.OpError](err); ok {
			return WhyUnreachable
		}
		if strings.Contains(err.Error(), "credentials") {
			// The chain of providers has no type of error for that it has none.
			return WhyCaller
		}
		return WhyOther
	}
	code := said.ErrorCode()
	switch {
	case slices.Contains(deniedCodes(), code):
		return WhyDenied
	case slices.Contains(callerCodes(), code):
		return WhyCaller
	case slices.Contains(missingCodes(), code):
		return WhyMissing
	// CloudFormation has no code of its own for a stack that is not there.
	case code == "ValidationError" && strings.Contains(said.ErrorMessage(), "does not exist"):
		return WhyMissing
	}
	return WhyOther
}

func deniedCodes() []string {
	return []string{"AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "AuthorizationError", "Forbidden", "403"}
}

func callerCodes() []string {
	return []string{
		"UnrecognizedClientException", "InvalidClientTokenId", "InvalidSignatureException", "SignatureDoesNotMatch", "ExpiredToken",
		"ExpiredTokenException", "MissingAuthenticationToken", "MissingAuthenticationTokenException", "IncompleteSignature", "InvalidAccessKeyId",
	}
}

func missingCodes() []string {
	return []string{
		"ResourceNotFoundException", "NotFound", "NoSuchBucket", "StateMachineDoesNotExist", "NoSuchResourceException",
		"QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue", "TableNotFoundException",
	}
}

// Identity is who asks.
type Identity struct {
	Account string
	ARN     string
}

// Identity says who asks. It takes no permission.
func (a *Account) Identity(ctx context.Context) (Identity, error) {
	out, err := a.identity.GetCallerIdentity(ctx, &sts.GetCallerIdentityInput{})
	if err != nil {
		return Identity{}, fault("sts:GetCallerIdentity", err)
	}
	return Identity{Account: aws.ToString(out.Account), ARN: aws.ToString(out.Arn)}, nil
}
