package s3

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	aws3 "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"

	"github.com/perdure/perdure/internal/host"
)

// ErrCorrupt: stored bytes are not those of their address.
var ErrCorrupt = errors.New("content does not match its address")

var (
	errRefused  = errors.New("the condition of the write does not hold")
	errTooLarge = errors.New("the object is too large")
)

// Codes of S3. What a HEAD is refused with has no body, and so only a status.
const (
	conflictCode = "ConditionalRequestConflict"
	refusedCode  = "PreconditionFailed"
	noKeyCode    = "NoSuchKey"
	noBucketCode = "NoSuchBucket"
	notFoundCode = "NotFound"
	deniedCode   = "AccessDenied"
	deniedHead   = "Forbidden"
)

// judge says in the port's words, and for the people who can do something
// about it, why a request failed. permission is what the request needs.
func (b *bucket) judge(what, permission string, err error) error {
	if err == nil {
		b.seen.Store(true)
		return nil
	}
	var api smithy.APIError
	if !errors.As(err, &api) {
		return fmt.Errorf("%s an object: %w", what, err)
	}
	switch api.ErrorCode() {
	case noBucketCode:
		return b.missing(what, err)
	case noKeyCode:
		b.seen.Store(true)
		return fmt.Errorf("%s an object: %w", what, host.ErrNotFound)
	case refusedCode:
		b.seen.Store(true)
		return fmt.Errorf("%s an object: %w", what, errRefused)
	case deniedCode, deniedHead:
		// Without s3:ListBucket S3 says this of an object that is not there.
		return fmt.Errorf("%s an object: not allowed: grant the role %s on the objects of bucket %s, and s3:ListBucket on the bucket: %w", what, permission, b.name, err)
	}
	return fmt.Errorf("%s an object: %w", what, err)
}

func (b *bucket) missing(what string, err error) error {
	return fmt.Errorf("%s an object: bucket %s does not exist: deploy first or set PERDURE_BUCKET: %w", what, b.name, err)
}

// judgeHead tells an object that is not there from a bucket that is not: the
// answer to a HEAD is 404 for both. A bucket that has answered once is there.
func (b *bucket) judgeHead(ctx context.Context, err error) error {
	var api smithy.APIError
	if !errors.As(err, &api) || api.ErrorCode() != notFoundCode {
		return b.judge("look at", "s3:GetObject", err)
	}
	if !b.seen.Load() {
		_, err := b.client.HeadBucket(ctx, &aws3.HeadBucketInput{Bucket: &b.name})
		switch {
		case errors.As(err, &api) && api.ErrorCode() == notFoundCode:
			return b.missing("look at", err)
		case err != nil:
			return b.judge("look at", "s3:ListBucket", err)
		}
		b.seen.Store(true)
	}
	return fmt.Errorf("look at an object: %w", host.ErrNotFound)
}

// keyError is what became of one key of a deletion.
func keyError(e types.Error) error {
	return &smithy.GenericAPIError{Code: aws.ToString(e.Code), Message: aws.ToString(e.Message)}
}
