package cloud

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"

	"github.com/perdure/perdure/internal/env"
)

// coded is an error that AWS answered with.
type coded interface {
	error
	ErrorCode() string
}

// operated is what AWS's clients wrap an error in.
type operated interface {
	error
	Service() string
	Operation() string
}

// codeOf is AWS's code of an error; empty if it has none.
func codeOf(err error) string {
	if c, ok := errors.AsType[coded](err); ok {
		return c.ErrorCode()
	}
	return ""
}

// refused says that AWS knew who asked, or did not, and refused.
func refused(err error) bool {
	return slices.Contains([]string{
		"AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "UnrecognizedClientException", "InvalidClientTokenId",
		"InvalidSignatureException", "SignatureDoesNotMatch", "ExpiredToken", "ExpiredTokenException", "KMSAccessDeniedException",
	}, codeOf(err))
}

// advice says what to do about an error of AWS's; empty if there is nothing to
// say.
func advice(err error) string {
	code := codeOf(err)
	service := ""
	if op, ok := errors.AsType[operated](err); ok {
		service = op.Service()
	}
	switch {
	case refused(err):
		return "the function's role may not do this: deploy the stack again, which sets its rights; if a policy, a boundary or a key of KMS was narrowed by hand, widen it"
	case code == "NoSuchBucket":
		return "there is no such bucket: deploy the stack again, or set " + env.Bucket + " to one that is there, in this region"
	case code == "StateMachineDoesNotExist", code == "InvalidArn":
		return "there is no such state machine: deploy the stack again, or set " + env.Machine + " to the ARN of one that is there"
	case strings.HasSuffix(code, "NonExistentQueue"), code == "QueueDoesNotExist":
		return "there is no such queue: deploy the stack again, or set " + strings.Join([]string{env.Inbox, env.Outbox, env.Work}, ", ") + " to the URLs of those that are there"
	case code == "ResourceNotFoundException" && service == "DynamoDB":
		return "there is no such table, or it lacks an index: deploy the stack again, or set " + env.Table + " to one that is there, in this region"
	case code == "ResourceNotFoundException" && service == "Secrets Manager":
		return "there is no such entry of Secrets Manager: deploy the stack again, or name one that is there"
	}
	return ""
}

// advising is a slog.Handler that says beside an error what to do about it.
type advising struct{ slog.Handler }

// Handle implements slog.Handler.
func (h advising) Handle(ctx context.Context, r slog.Record) error {
	text := ""
	r.Attrs(func(a slog.Attr) bool {
		if err, ok := a.Value.Any().(error); ok {
			text = advice(err)
		}
		return text == ""
	})
	if text != "" {
		r.AddAttrs(slog.String("advice", text))
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h advising) WithAttrs(attrs []slog.Attr) slog.Handler {
	return advising{h.Handler.WithAttrs(attrs)}
}

// WithGroup implements slog.Handler.
func (h advising) WithGroup(name string) slog.Handler { return advising{h.Handler.WithGroup(name)} }
