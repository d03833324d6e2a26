package api_test

import (
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/internal/api"
)

// Who calls the handler in process says in the context who asks. It is held to
// scopes and tenants as everyone is.
func TestAPrincipalOfTheContext(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.create("s")
	ask := func(who api.Principal, path string, body any) *response {
		r := request("POST", path, body)
		r.Header.Del("Authorization")
		r.Host = "inbox"
		rec := httptest.NewRecorder()
		w.ServeHTTP(rec, r.WithContext(api.WithPrincipal(r.Context(), who, "slack")))
		return &response{t, rec}
	}
	eve := api.Principal{Tenant: "t1", Actor: "U123", Roles: []string{"lead"}, Scopes: []string{api.ScopeWrite}}
	var run api.Run
	ask(eve, "/v1/sessions/s/runs?wait=20", m{"input": "hi"}).is(202, &run)
	require.Equal(t, "U123", run.RequestedBy)
	require.Equal(t, "slack", run.Via)

	ask(eve, "/v1/sessions/s/release", nil).refused(403, "forbidden")
	eve.Tenant = "t2"
	ask(eve, "/v1/sessions/s/runs", m{"input": "hi"}).refused(404, "not_found")

	// Nothing that comes over the wire does the same.
	r := request("POST", "/v1/sessions/s/runs", m{"input": "hi"}, header("Perdure-Via", "slack"), header("X-Perdure-Principal", "U123"))
	r.Header.Del("Authorization")
	rec := httptest.NewRecorder()
	w.ServeHTTP(rec, r)
	(&response{t, rec}).refused(401, "unauthenticated")
}
