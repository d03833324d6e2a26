package target_test

import (
	"net/http"
	"net/http/httptrace"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/localstack/target"
)

// A connection to the emulator does not end in the midst of what is asked over
// it: an answer that is lost makes clients ask again, for what is done already.
func TestAConnectionTakesManyRequests(t *testing.T) {
	t.Parallel()
	at := target.Get(t)
	if at.Endpoint == "" {
		t.Skip("AWS says itself when it ends a connection")
	}
	client := target.HTTP()
	fresh := 0
	trace := &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) {
		if !c.Reused {
			fresh++
		}
	}}
	for range 1500 {
		r, err := http.NewRequestWithContext(httptrace.WithClientTrace(t.Context(), trace), http.MethodGet, at.Endpoint+"/_localstack/health", http.NoBody)
		require.NoError(t, err)
		res, err := client.Do(r)
		require.NoError(t, err)
		buffer := make([]byte, 64<<10)
		for err == nil {
			_, err = res.Body.Read(buffer)
		}
		require.NoError(t, res.Body.Close())
	}
	require.Equal(t, 1, fresh)
}
