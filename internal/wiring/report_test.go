package wiring

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/internal/host"
)

func TestTroubleIsLoggedOnceAndQuotesNoLog(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	r := NewReporter(slog.New(slog.NewTextHandler(&out, nil)))
	a, b := host.Key{Tenant: "t", Session: "a"}, host.Key{Tenant: "t", Session: "b"}
	for range 3 {
		r.Report(a, "commit", errors.New("no room"))
		r.Report(b, "quarantine", &session.Divergence{Seq: 7, Code: "seq", Detail: "somebody's words"})
	}
	require.Equal(t, 2, strings.Count(out.String(), "\n"), out.String())
	require.Contains(t, out.String(), "seq=7")
	require.NotContains(t, out.String(), "words")
	r.Report(a, "commit", errors.New("no network"))
	r.Report(a, "commit", errors.New("no room"))
	require.Equal(t, 4, strings.Count(out.String(), "\n"))
}
