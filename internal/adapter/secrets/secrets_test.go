package secrets_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/smithy-go"
	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/internal/adapter/secrets"
	"github.com/perdure/perdure/internal/host"
)

// answering is a Manager whose service gives one answer.
func answering(t *testing.T, status int, body string) *secrets.Manager {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked, err := io.ReadAll(r.Body)
		if err != nil || string(asked) != `{"SecretId":"perdure/p/default/hook"}` || r.Header.Get("X-Amz-Target") != "secretsmanager.GetSecretValue" {
			t.Errorf("%s %s %v", r.Header.Get("X-Amz-Target"), asked, err)
		}
		w.Header().Set("Content-Type", "application/x-amz-json-1.1")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(server.Close)
	return secrets.New(aws.Config{
		Region: "eu-west-1", BaseEndpoint: &server.URL, Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
		Retryer: func() aws.Retryer { return aws.NopRetryer{} },
	})
}

func TestASecretIsRead(t *testing.T) {
	t.Parallel()
	got, err := answering(t, http.StatusOK, `{"Name":"n","SecretString":"v e r y\n"}`).Secret(t.Context(), "perdure/p/default/hook")
	require.NoError(t, err)
	require.Equal(t, "v e r y\n", got)
}

func TestASecretThatIsNotThere(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status int
		body   string
		there  bool
		code   string
	}{
		{http.StatusBadRequest, `{"__type":"ResourceNotFoundException","message":"no"}`, false, "ResourceNotFoundException"},
		{http.StatusBadRequest, `{"__type":"InvalidRequestException","message":"marked for deletion"}`, false, "InvalidRequestException"},
		{http.StatusOK, `{"Name":"n","SecretBinary":"AAAA"}`, false, ""},
		{http.StatusBadRequest, `{"__type":"AccessDeniedException","message":"no"}`, true, "AccessDeniedException"},
		{http.StatusInternalServerError, `{"__type":"InternalServiceError","message":"no"}`, true, "InternalServiceError"},
	} {
		_, err := answering(t, c.status, c.body).Secret(t.Context(), "perdure/p/default/hook")
		require.Error(t, err)
		if c.there {
			require.NotErrorIs(t, err, host.ErrNotFound, c.code)
		} else {
			require.ErrorIs(t, err, host.ErrNotFound, c.code)
		}
		if c.code != "" {
			var said smithy.APIError
			require.ErrorAs(t, err, &said)
			require.Equal(t, c.code, said.ErrorCode())
		}
	}
}
