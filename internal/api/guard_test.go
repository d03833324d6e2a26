package api_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/internal/adapter/memory"
	"github.com/perdure/perdure/internal/adapter/scripted"
	"github.com/perdure/perdure/internal/api"
	"github.com/perdure/perdure/internal/host"
)

func bare(r *http.Request) { r.Header.Del("Authorization") }

func addressed(name string) option { return func(r *http.Request) { r.Host = name } }

func TestUnderWhichNamesTheServerIsAddressed(t *testing.T) {
	t.Parallel()
	w := setup(t, func(d *api.Deps, _ *memory.Options) { d.Guard.Hosts = []string{"agents.example.com"} })
	for _, name := range []string{"127.0.0.1:7337", "localhost:7337", "LOCALHOST:7337", "[::1]:7337", "127.9.9.9:7337", "[::ffff:127.0.0.1]:7337", "agents.example.com", "Agents.Example.com"} {
		w.call("GET", "/v1/me", nil, addressed(name)).is(200, nil)
	}
	for _, name := range []string{"", "evil.com", "evil.com:7337", "127.0.0.1", "localhost", "127.0.0.1:80", "localhost.evil.com:7337", "10.0.0.1:7337", "0.0.0.0:7337", "[fe80::1]:7337", "agents.example.com:7337", "127.0.0.1:7337:7337"} {
		for _, path := range []string{"/v1/me", "/healthz", "/", "/nothing", "/v1/openapi.json", "/v1/promises/x/input"} {
			w.call("GET", path, nil, addressed(name), bare).refused(403, "forbidden")
			w.call("OPTIONS", path, nil, addressed(name), bare).refused(403, "forbidden")
		}
	}
}

func TestPagesOfOtherSitesAreRefused(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.create("s1")
	for _, origin := range []string{"http://127.0.0.1:7337", "http://localhost:7337", "http://[::1]:7337"} {
		w.call("POST", "/v1/sessions/s1/runs", m{"input": "x"}, header("Origin", origin)).is(202, nil)
	}
	for _, origin := range []string{"http://evil.com", "https://evil.com:7337", "null", "", "http://127.0.0.1", "http://127.0.0.1:3000", "http://127.0.0.1:7337@evil.com", "file://", "chrome-extension://abc", "http://localhost.evil.com:7337"} {
		w.call("POST", "/v1/sessions/s1/runs", m{"input": "x"}, header("Origin", origin)).refused(403, "forbidden")
		w.call("GET", "/healthz", nil, header("Origin", origin), bare).refused(403, "forbidden")
		w.call("OPTIONS", "/v1/sessions", nil, header("Origin", origin), bare).refused(403, "forbidden")
	}
	// No answer ever invites another site.
	require.Empty(t, w.call("GET", "/v1/me", nil).Header().Get("Access-Control-Allow-Origin"))
}

func TestThePortOfTheConnectionCounts(t *testing.T) {
	t.Parallel()
	w := setup(t, func(d *api.Deps, _ *memory.Options) { d.Guard = api.Guard{} })
	srv := httptest.NewServer(w)
	t.Cleanup(srv.Close)
	get := func(name string) int {
		r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, srv.URL+"/healthz", nil)
		require.NoError(t, err)
		if name != "" {
			r.Host = name
		}
		res, err := srv.Client().Do(r)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		return res.StatusCode
	}
	require.Equal(t, 200, get(""))
	require.Equal(t, 403, get("127.0.0.1:1"))
	require.Equal(t, 403, get("evil.com"))
}

func TestWhoMayComeIn(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.create("s1")
	res := w.call("GET", "/v1/me", nil, bare)
	p := res.refused(401, "unauthenticated")
	require.Equal(t, `Bearer realm="perdure"`, res.Header().Get("WWW-Authenticate"))
	require.Contains(t, p.Detail, "the key lies in a file")
	for _, value := range []string{"Bearer", "Bearer ", "Basic abc", ann, "Bearer pk_nobody_x", "Bearer " + ann + "x"} {
		w.call("GET", "/v1/me", nil, header("Authorization", value)).refused(401, "unauthenticated")
	}
	w.call("GET", "/v1/me", nil, func(r *http.Request) { r.Header.Add("Authorization", "Bearer "+ann) }).refused(401, "unauthenticated")
	w.call("GET", "/v1/me", nil, header("Authorization", "bearer "+ann)).is(200, nil)
	w.call("GET", "/v1/me", nil, as(broken)).refused(503, "unavailable")
	// Who may not come in is not told what is wrong with the rest.
	w.call("POST", "/v1/sessions", "{", bare).refused(401, "unauthenticated")
	w.call("POST", "/v1/sessions", "{", as(reader)).refused(403, "forbidden")

	var me api.Me
	w.call("GET", "/v1/me", nil).is(200, &me)
	require.Equal(t, api.Me{Tenant: "t1", Actor: "ann", Roles: []string{"lead"}, Scopes: api.AllScopes(), Key: "ann"}, me)
	w.call("GET", "/v1/me", nil, header("Perdure-Actor", "eve@example.com"), header("Perdure-Roles", "a, b,a")).is(200, &me)
	require.Equal(t, "eve@example.com", me.Actor)
	require.Equal(t, []string{"a", "b"}, me.Roles)
	w.call("GET", "/v1/me", nil, header("Perdure-Actor", "eve")).is(200, &me)
	require.Empty(t, me.Roles)
	for _, bad := range []string{"system", "system:deadline", "a b", "", strings.Repeat("x", 129)} {
		w.call("GET", "/v1/me", nil, header("Perdure-Actor", bad)).refused(400, "invalid_request")
	}
	w.call("GET", "/v1/me", nil, header("Perdure-Actor", "eve"), header("Perdure-Roles", "a;b")).refused(400, "invalid_request")
	w.call("GET", "/v1/me", nil, header("Perdure-Roles", "a")).refused(400, "invalid_request")
	w.call("GET", "/v1/me", nil, as(reader), header("Perdure-Actor", "eve")).refused(403, "forbidden")
	w.call("GET", "/v1/me", nil, as(reader), header("Perdure-Roles", "lead")).refused(403, "forbidden")
	for _, path := range []string{"/", "/healthz", "/readyz", "/v1/openapi.json"} {
		require.Equal(t, 200, w.call("GET", path, nil, bare).Code)
	}
	var root api.Root
	w.call("GET", "/", nil, bare).is(200, &root)
	require.Equal(t, "the key lies in a file", root.Key)
	require.Equal(t, 200, w.call("HEAD", "/v1/me", nil).Code)
}

func TestAKeyTakenApart(t *testing.T) {
	t.Parallel()
	id, secret, ok := api.ParseKey("pk_local_a_b")
	require.True(t, ok)
	require.Equal(t, "local", id)
	require.Equal(t, "a_b", secret)
	for _, bad := range []string{"", "pk_", "pk_a", "pk_a_", "pk__b", "sk_a_b", "a_b"} {
		_, _, ok := api.ParseKey(bad)
		require.False(t, ok, bad)
	}
}

// inSession is every route under a session, with a body that would do.
var inSession = map[string]any{
	"GET ":                              nil,
	"PATCH ":                            m{"name": "mine"},
	"DELETE ":                           nil,
	"PUT /config":                       config(),
	"POST /close":                       m{"force": true},
	"POST /release":                     nil,
	"POST /compact":                     nil,
	"GET /context":                      nil,
	"PATCH /context":                    m{"put": []m{{"key": "k", "role": "user", "input": "x"}}},
	"GET /log":                          nil,
	"GET /events":                       nil,
	"GET /events?after=1&wait=20":       nil,
	"GET /events?before=head":           nil,
	"GET /stream":                       nil,
	"GET /stream?after=head":            nil,
	"POST /stream-tickets":              nil,
	"POST /runs":                        m{"input": "x"},
	"POST /runs?wait=20":                m{"input": "x", "mode": "interrupt"},
	"GET /runs":                         nil,
	"GET /runs/run_1":                   nil,
	"GET /runs/run_1?wait=20":           nil,
	"GET /runs/run_1/calls":             nil,
	"POST /runs/run_1/cancel":           m{"force": true},
	"POST /runs/run_1/steer":            m{"input": "x"},
	"POST /runs/run_1/approvals":        m{"decisions": []m{{"approvalId": "approval_1", "decision": "approve"}}},
	"POST /runs/run_1/answers":          m{"questionId": "question_1", "skip": true},
	"POST /approvals/approval_1":        m{"decision": "approve", "arguments": m{"x": "y"}},
	"DELETE /remembered/t.write":        nil,
	"GET /promises":                     nil,
	"POST /promises/promise_1":          m{"status": "resolved"},
	"GET /promises?status=pending":      nil,
	"GET /runs?status=waiting&limit=10": nil,
}

// TestNothingCrossesATenant tries every route on another tenant's session: it
// is not found, as if it were not there, and stays as it is (T75).
func TestNothingCrossesATenant(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.asking("s1", 1, m{})
	w.call("POST", "/v1/sessions/s1/runs", m{"input": "next"}).is(202, nil)
	before := w.call("GET", "/v1/sessions/s1", nil).Body.String()
	covered := map[string]bool{}
	for route, body := range inSession {
		method, path, _ := strings.Cut(route, " ")
		for _, opts := range [][]option{{as(bob)}, {as(bob), header("Idempotency-Key", "k"+path)}, {as(bob), header("Perdure-Actor", "ann")}} {
			there := w.call(method, "/v1/sessions/s1"+path, body, opts...)
			there.refused(404, "not_found")
			// And it is told just as of one that is not there at all.
			not := w.call(method, "/v1/sessions/s0"+path, body, opts...)
			require.Equal(t, not.Body.String(), there.Body.String(), route)
		}
		path, _, _ = strings.Cut(path, "?")
		for _, id := range []string{"run_1", "approval_1", "promise_1", "t.write"} {
			path = strings.ReplaceAll(path, "/"+id, map[string]string{"run_1": "/{run}", "approval_1": "/{approvalId}", "promise_1": "/{promise}", "t.write": "/{tool}"}[id])
		}
		covered[method+" /v1/sessions/{id}"+path] = true
	}
	require.Equal(t, before, w.call("GET", "/v1/sessions/s1", nil).Body.String())
	for _, route := range built {
		if strings.Contains(route, "/v1/sessions/{id}") {
			require.True(t, covered[route], "%s is not tried", route)
		}
	}
	// The same id in both tenants is two sessions.
	w.call("POST", "/v1/sessions", m{"id": "s1", "config": config("t.*")}, as(bob)).is(201, nil)
	var list api.Page[api.SessionSummary]
	w.call("GET", "/v1/sessions", nil, as(bob)).is(200, &list)
	require.Len(t, list.Items, 1)
	require.Empty(t, list.Items[0].Title)
	// A token of one tenant's promise does not fit another's.
	require.Equal(t, before, w.call("GET", "/v1/sessions/s1", nil).Body.String())
}

// TestACursorIsGoodForOneList moves cursors elsewhere (T76).
func TestACursorIsGoodForOneList(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for _, id := range []string{"a", "b"} {
		for _, opts := range [][]option{nil, {as(bob)}} {
			w.call("POST", "/v1/sessions", m{"id": id, "config": config()}, opts...).is(201, nil)
			for range 3 {
				w.call("POST", "/v1/sessions/"+id+"/runs?wait=20", m{"input": "x"}, opts...).is(202, nil)
			}
		}
	}
	var runs api.Page[api.Run]
	w.call("GET", "/v1/sessions/a/runs?limit=1&status=completed", nil).is(200, &runs)
	c := runs.Next
	require.NotEmpty(t, c)
	w.call("GET", "/v1/sessions/a/runs?limit=2&status=completed&cursor="+c, nil).is(200, &runs)
	for _, path := range []string{
		"/v1/sessions/b/runs?status=completed&cursor=", "/v1/sessions/a/runs?cursor=", "/v1/sessions/a/runs?status=failed&cursor=",
		"/v1/sessions?cursor=", "/v1/sessions/a/promises?cursor=", "/v1/approvals?cursor=", "/v1/sessions/a/runs/run_1/calls?cursor=",
	} {
		w.call("GET", path+c, nil).refused(400, "invalid_request")
	}
	w.call("GET", "/v1/sessions/a/runs?status=completed&cursor="+c, nil, as(bob)).refused(400, "invalid_request")
	for i := range len(c) {
		flipped := []byte(c)
		flipped[i] = map[bool]byte{true: 'A', false: 'B'}[flipped[i] == 'B']
		if i == len(c)-1 && len(c)%4 != 0 {
			continue // its last bits may say nothing
		}
		w.call("GET", "/v1/sessions/a/runs?status=completed&cursor="+string(flipped), nil).refused(400, "invalid_request")
	}
	w.call("GET", "/v1/sessions/a/runs?status=completed&cursor="+c[:len(c)-4], nil).refused(400, "invalid_request")
}

func TestAQuarantinedSession(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.create("s1")
	w.model.For("s1", scripted.Step{Text: "fine"})
	w.run("s1", "hello")
	w.restart()
	// A build that has since been mended froze it; the log itself is sound.
	ctx, key := context.Background(), host.Key{Tenant: "t1", Session: "s1"}
	h, err := w.store.Head(ctx, key)
	require.NoError(t, err)
	h.Rev++
	h.Write, h.Quarantine = "frozen", &host.Quarantine{Seq: 3, Code: "plan", Detail: "a bug"}
	require.NoError(t, w.store.Commit(ctx, host.Commit{Key: key, Expect: h.Rev - 1, Head: h}))

	s := w.session("s1")
	require.Equal(t, "quarantined", s.Activity)
	require.Equal(t, &api.Quarantine{Seq: 3, Code: "plan", Detail: "a bug"}, s.Quarantine)
	w.call("POST", "/v1/sessions/s1/runs", m{"input": "x"}).refused(409, "session_quarantined")
	w.call("GET", "/v1/sessions/s1/events", nil).is(200, nil)
	require.Equal(t, 200, w.call("GET", "/v1/sessions/s1/log", nil).Code)
	var list api.Page[api.SessionSummary]
	w.call("GET", "/v1/sessions?activity=quarantined", nil).is(200, &list)
	require.Len(t, list.Items, 1)
	w.call("POST", "/v1/sessions/s1/release", nil, as(reader)).refused(403, "forbidden")
	w.call("POST", "/v1/sessions/s1/release", m{}).is(200, &s)
	require.Nil(t, s.Quarantine)
	require.Equal(t, "idle", s.Activity)
	w.call("POST", "/v1/sessions/s1/runs", m{"input": "x"}).is(202, nil)
}
