package client

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"
)

// An emulator's API gateway answers under a name below localhost, and tells
// APIs apart by it: the name is kept in the request and not looked up.
func TestANameBelowLocalhostIsThisMachine(t *testing.T) {
	t.Parallel()
	var host string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host = r.Host
		_, _ = w.Write([]byte(`{"status":"ready"}`))
	}))
	t.Cleanup(server.Close)
	u, err := url.Parse(server.URL)
	require.NoError(t, err)
	name := "a1b2.execute-api.LocalHost:" + u.Port()
	require.NoError(t, New("http://"+name, "").Ready(t.Context()))
	require.Equal(t, name, host)
}

func TestWhereNamesAreDialed(t *testing.T) {
	t.Parallel()
	for addr, want := range map[string][]string{
		"a.localhost:1":           {"127.0.0.1:1", "[::1]:1"},
		"a.localhost.:1":          {"127.0.0.1:1", "[::1]:1"},
		"localhost:1":             {"localhost:1"},
		"notlocalhost:1":          {"notlocalhost:1"},
		"localhost.example.com:1": {"localhost.example.com:1"},
		"10.0.0.1:1":              {"10.0.0.1:1"},
	} {
		var asked []string
		dial := atHome(func(_ context.Context, _, addr string) (net.Conn, error) {
			asked = append(asked, addr)
			return nil, errors.New("nobody")
		})
		conn, err := dial(t.Context(), "tcp", addr)
		require.Error(t, err)
		require.Nil(t, conn)
		require.Equal(t, want, asked, addr)
	}
}

func TestNoProxyForThisMachine(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequest(http.MethodGet, "http://a.localhost/", nil)
	u, err := proxy(r)
	require.NoError(t, err)
	require.Nil(t, u)
}
