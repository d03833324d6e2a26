package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// answer is what came back.
type answer struct {
	testing.TB
	asked  string
	status int
	header http.Header
	body   []byte
}

// direct speaks to servers without following where they send it. Names below
// localhost, as an emulator has them, are this machine (RFC 6761), whatever its
// resolver knows of them.
var direct = &http.Client{
	Timeout:       hang,
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	Transport: &http.Transport{
		MaxIdleConnsPerHost: 16,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			if host, port, err := net.SplitHostPort(address); err == nil && strings.HasSuffix(host, ".localhost") {
				address = net.JoinHostPort("127.0.0.1", port)
			}
			return new(net.Dialer).DialContext(ctx, network, address)
		},
	},
}

// ask sends a request and holds its answer against the document that the
// server has of itself. A body is a string as it is, or else JSON; headers come
// in pairs, and one with an empty value is left out.
func (at *target) ask(tb testing.TB, method, path string, body any, headers ...string) answer {
	tb.Helper()
	a := at.send(tb, method, path, body, headers...)
	documented(tb, at, method, path, a)
	return a
}

func (at *target) send(tb testing.TB, method, path string, body any, headers ...string) answer {
	tb.Helper()
	var data []byte
	switch b := body.(type) {
	case nil:
	case string:
		data = []byte(b)
	default:
		var err error
		data, err = json.Marshal(b)
		require.NoError(tb, err)
	}
	r, err := http.NewRequest(method, at.url+path, bytes.NewReader(data))
	require.NoError(tb, err)
	r.Header.Set("Authorization", "Bearer "+at.key)
	if len(data) > 0 {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		switch {
		case headers[i+1] == "":
			r.Header.Del(headers[i])
		case headers[i] == "Host":
			r.Host = headers[i+1]
		default:
			r.Header.Set(headers[i], headers[i+1])
		}
	}
	resp, err := direct.Do(r)
	require.NoError(tb, err, "%s %s", method, path)
	defer resp.Body.Close()
	a := answer{TB: tb, asked: method + " " + path, status: resp.StatusCode, header: resp.Header}
	a.body, err = io.ReadAll(resp.Body)
	require.NoError(tb, err, "%s %s", method, path)
	return a
}

// is holds the status.
func (a answer) is(status int) answer {
	a.Helper()
	require.Equal(a, status, a.status, "%s: %.2000s", a.asked, a.body)
	return a
}

// refused holds status and code of a problem.
func (a answer) refused(status int, code string) problem {
	a.Helper()
	a.is(status)
	require.Equal(a, "application/problem+json", a.header.Get("Content-Type"))
	p := read[problem](a)
	require.Equal(a, code, p.Code, "%s: %s", a.asked, a.body)
	require.Equal(a, status, p.Status)
	require.Equal(a, "urn:perdure:problem:"+code, p.Type)
	return p
}

// problem is RFC 9457 with our members.
type problem struct {
	Type, Title, Detail, Code string
	Status                    int
	Errors                    []struct{ Location, Message string }
	Limit                     string
	Actual, Expected, Max     any
	DecidedBy                 string
	DecidedAt                 string
	RetryAfterSeconds         int
}

// read decodes an answer.
func read[T any](a answer) (out T) {
	a.Helper()
	require.NoError(a, json.Unmarshal(a.body, &out), "%s: %.2000s", a.asked, a.body)
	return out
}

// soon takes what must come.
func soon[T any](tb testing.TB, from <-chan T) T {
	tb.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(hang):
		require.Fail(tb, "it does not come")
		panic("unreachable")
	}
}

// quoted is a revision as If-Match takes it.
func quoted(revision int64) string { return `"` + strconv.FormatInt(revision, 10) + `"` }
