package sfn

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/sfn/types"
	"github.com/aws/smithy-go"

	"github.com/perdure/perdure/internal/host"
)

// denied are the codes of a call that AWS knows the caller of, and refuses.
var denied = []string{"AccessDenied", "AccessDeniedException", "UnauthorizedOperation"}

// unknownCaller are the codes of credentials that are no good.
var unknownCaller = []string{
	"UnrecognizedClientException", "InvalidClientTokenId", "InvalidSignatureException", "ExpiredToken",
	"ExpiredTokenException", "MissingAuthenticationToken", "MissingAuthenticationTokenException", "IncompleteSignature",
}

// explain says what to do about an error of AWS: what is wrong for good names
// its remedy, all else may be tried again.
func (w *Waker) explain(ctx context.Context, action string, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", action, errors.Join(ctx.Err(), err))
	}
	if _, ok := errors.AsType[*types.StateMachineDoesNotExist](err); ok {
		return fmt.Errorf("state machine %s does not exist; deploy the stack, or name the one that was deployed: %w", w.arn, err)
	}
	if _, ok := errors.AsType[*types.StateMachineDeleting](err); ok {
		return fmt.Errorf("state machine %s is being deleted; deploy the stack again: %w", w.arn, err)
	}
	if said, ok := errors.AsType[smithy.APIError](err); ok {
		switch code := said.ErrorCode(); {
		case slices.Contains(denied, code):
			return fmt.Errorf("not allowed to call %s on %s; add it to the role of this function: %w", action, w.arn, err)
		case slices.Contains(unknownCaller, code):
			return fmt.Errorf("%s: AWS does not accept the credentials (%s); see that they are set and have not expired: %w", action, code, err)
		case code == "InvalidArn" || code == "InvalidName" || code == "InvalidExecutionInput" || code == "ValidationException":
			return fmt.Errorf("%s: %w", action, err)
		}
	}
	return fmt.Errorf("%w: %s: %w", host.ErrUnavailable, action, err)
}
