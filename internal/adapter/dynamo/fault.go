package dynamo

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// verdict is what an answer means for the request.
type verdict int

const (
	// fine: it was done.
	fine verdict = iota
	// lost: whether it was done is not known; it may be sent again.
	lost
	// contended: another transaction has one of the items. It was not done.
	contended
	// throttled: it was not done, and should not be sent again at once.
	throttled
	// invalid: it will never be done, however often it is sent.
	invalid
	// mismatched: another request was sent under its token.
	mismatched
	// refused: a condition did not hold.
	refused
)

// Codes of errors and of the reasons of a cancelled transaction.
const (
	codeNone      = "None"
	codeCondition = "ConditionalCheckFailed"
)

// verdictOf reads a code. Errors and cancellation reasons have names of their
// own for the same things.
func verdictOf(code string) verdict {
	switch code {
	case "", codeNone:
		return fine
	case codeCondition, "ConditionalCheckFailedException":
		return refused
	case "IdempotentParameterMismatchException", "IdempotentParameterMismatch":
		return mismatched
	case "TransactionConflict", "TransactionConflictException",
		// The same token is at work: the first request may still land.
		"TransactionInProgressException", "TransactionInProgress":
		return contended
	case "ThrottlingError", "ThrottlingException", "ThrottledException", "Throttling", "RequestThrottledException",
		"ProvisionedThroughputExceeded", "ProvisionedThroughputExceededException",
		"RequestLimitExceeded", "LimitExceededException", "TooManyRequestsException":
		return throttled
	case "InternalServerError", "InternalFailure", "ServiceUnavailable", "ServiceUnavailableException", "RequestTimeout", "RequestTimeoutException":
		return lost
	}
	return invalid
}

// judge says what an answer means. A transaction is cancelled for the reasons
// of all its items; the strongest decides, in the order of verdict: a refused
// condition tells the truth about the head, whatever else was in the way; what
// is invalid stays so; throttling asks for a longer pause than a conflict.
func judge(err error) verdict {
	if err == nil {
		return fine
	}
	if cancelled, ok := errors.AsType[*types.TransactionCanceledException](err); ok {
		strongest := fine
		for _, r := range cancelled.CancellationReasons {
			strongest = max(strongest, verdictOf(aws.ToString(r.Code)))
		}
		if strongest == fine {
			return lost // cancelled, and no word why
		}
		return strongest
	}
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		v := verdictOf(api.ErrorCode())
		if response, ok := errors.AsType[*smithyhttp.ResponseError](err); ok && v == invalid && response.HTTPStatusCode() >= http.StatusInternalServerError {
			return lost
		}
		return v
	}
	if _, ok := errors.AsType[*smithy.SerializationError](err); ok {
		return invalid
	}
	return lost // a connection that was cut, a response that cannot be read
}

// Pauses between tries: full jitter under a bound that doubles.
const (
	pauseContended = 20 * time.Millisecond
	pauseThrottled = 80 * time.Millisecond
	pauseMost      = 2 * time.Second
)

func pauseAfter(v verdict, tries int) time.Duration {
	base := pauseContended
	if v == throttled {
		base = pauseThrottled
	}
	most := min(base<<min(tries, 10), pauseMost)
	return rand.N(most) //nolint:gosec // jitter
}

// try makes a request, and makes it again where that is safe and may help. It
// must be one that may be sent again: a read, a write with a condition or a
// token, a write that does the same twice. Refused and mismatched requests come
// back as they are, for the caller to read.
func (s *Store) try(ctx context.Context, op string, request func(ctx context.Context) error) error {
	for tries := 1; ; tries++ {
		if err := ctx.Err(); err != nil {
			return err //nolint:wrapcheck // the caller compares it with its own
		}
		err := s.once(ctx, request)
		v := judge(err)
		switch {
		case v == fine, v == refused, v == mismatched:
			return err
		case ctx.Err() != nil:
			return fmt.Errorf("%s: %w", op, ctx.Err())
		case v == invalid:
			return fmt.Errorf("%s: %w", op, explain(err))
		case tries >= s.o.Tries:
			return fmt.Errorf("%s: %w", op, exhausted(v, err))
		}
		if err := s.o.Pause(ctx, pauseAfter(v, tries)); err != nil {
			return fmt.Errorf("%s: %w", op, err)
		}
	}
}

func (s *Store) once(ctx context.Context, request func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	return request(ctx)
}

func exhausted(v verdict, err error) error {
	switch v {
	case throttled:
		return fmt.Errorf("%w: %w", ErrThrottled, err)
	case contended:
		return fmt.Errorf("%w: %w", ErrContended, err)
	default:
		return err
	}
}

// explain says what to do about an error that stays. Texts of reasons may quote
// items, so only their codes are kept.
func explain(err error) error {
	if cancelled, ok := errors.AsType[*types.TransactionCanceledException](err); ok {
		codes := make([]string, 0, len(cancelled.CancellationReasons))
		for _, r := range cancelled.CancellationReasons {
			codes = append(codes, aws.ToString(r.Code))
		}
		return fmt.Errorf("the transaction is not acceptable as it is: reasons %q", codes)
	}
	api, ok := errors.AsType[smithy.APIError](err)
	if !ok {
		return err
	}
	switch api.ErrorCode() {
	case "ResourceNotFoundException":
		return fmt.Errorf("the table or its index is not there: check the table's name, the region and that the stack is deployed: %w", err)
	case "AccessDeniedException":
		return fmt.Errorf("not allowed: give the function's role this action on the table and its indexes: %w", err)
	case "UnrecognizedClientException", "ExpiredTokenException", "InvalidSignatureException", "MissingAuthenticationTokenException":
		return fmt.Errorf("the credentials are not good: renew them, or set the role's: %w", err)
	default:
		return err
	}
}
