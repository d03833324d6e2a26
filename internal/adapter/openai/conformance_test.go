package openai_test

import (
	"net/http"
	"testing"

	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/internal/adapter/openai"
	"github.com/perdure/perdure/internal/adapter/openai/openaitest"
	"github.com/perdure/perdure/internal/host"
	"github.com/perdure/perdure/internal/host/porttest"
)

// refusals are what the server answers with to make a fault of a class.
var refusals = map[string]openaitest.Reply{
	host.ClassAuthentication: openaitest.Refuse(http.StatusUnauthorized, "invalid_request_error", "invalid_api_key", "Incorrect API key provided"),
	host.ClassAccess:         openaitest.Refuse(http.StatusForbidden, "invalid_request_error", "", "Not allowed"),
	host.ClassNotFound:       openaitest.Refuse(http.StatusNotFound, "invalid_request_error", "model_not_found", "The model does not exist"),
	host.ClassInvalid:        openaitest.Refuse(http.StatusBadRequest, "invalid_request_error", "invalid_value", "Invalid value"),
	host.ClassRateLimit:      openaitest.Refuse(http.StatusTooManyRequests, "requests", "rate_limit_exceeded", "Rate limit reached"),
	host.ClassServer:         openaitest.Refuse(http.StatusInternalServerError, "server_error", "", "The server had an error"),
	host.ClassContentFilter:  openaitest.Refuse(http.StatusBadRequest, "invalid_request_error", "content_filter", "Filtered"),
	host.ClassContextLength:  openaitest.Refuse(http.StatusBadRequest, "invalid_request_error", "context_length_exceeded", "Too long"),
	host.ClassQuota:          openaitest.Refuse(http.StatusTooManyRequests, "insufficient_quota", "insufficient_quota", "You exceeded your current quota"),
	host.ClassTimeout:        openaitest.Refuse(http.StatusGatewayTimeout, "", "", "Timed out"),
}

func TestModelPort(t *testing.T) {
	t.Parallel()

	porttest.Model(t, func(t *testing.T, replies ...porttest.ModelReply) porttest.ModelSetup {
		t.Helper()

		m, server := setup(t, nil)
		aborted := make(chan struct{})

		for _, r := range replies {
			if r.Class != "" {
				server.Enqueue(refusals[r.Class])

				continue
			}

			reply := openaitest.Reply{Text: r.Text, Chunks: 5, Hold: r.Hold}
			for _, c := range r.Calls {
				reply.Calls = append(reply.Calls, openaitest.Call{ID: c.ID, Name: c.Name, Arguments: c.Arguments, Fragments: 3})
			}

			server.Enqueue(reply)

			if r.Hold {
				go func() {
					defer close(aborted)

					<-server.Seen(1)

					if requests := server.Requests(); len(requests) > 0 {
						<-requests[0].Gone
					}
				}()
			}
		}

		setup := porttest.ModelSetup{
			Port: m, Model: session.Model{Provider: "test", Model: "gpt-test"}, Requests: func() int { return len(server.Requests()) },
		}
		if len(replies) > 0 && replies[0].Hold {
			setup.Aborted = aborted
		}

		return setup
	})
}

var _ host.ModelPort = (*openai.Model)(nil)
