package inbox

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func fields() map[string]any {
	return map[string]any{
		"v": 1, "tenant": "default", "session": "s", "inc": "01JQ", "method": "POST", "path": "/v1/sessions/s/runs", "key": "k1",
		"actor": map[string]any{"id": "U1", "roles": []string{}}, "via": "slack", "body": `{"input":"hi"}`,
	}
}

func text(t *testing.T, f map[string]any) string {
	t.Helper()
	data, err := json.Marshal(f)
	require.NoError(t, err)
	return string(data)
}

func TestDecode(t *testing.T) {
	t.Parallel()
	c, f := decode(text(t, fields()))
	require.Nil(t, f)
	require.Equal(t, "POST /runs", c.name())
	require.Equal(t, "default/s", c.key.String())

	// As it is sent: in ASCII alone, whatever the text is.
	c, f = decode(`{"v":1,"tenant":"default","session":"s","method":"POST","path":"/v1/sessions/s/runs","key":"k","actor":{"id":"U1","roles":[]},"via":"webhook","body":"{\"input\":\"caf\u00e9 \\ud83d\\ude00\"}"}`)
	require.Nil(t, f)
	require.JSONEq(t, `{"input":"café 😀"}`, c.Body)
}

// A message asks for a command of the session that it is of, as somebody, and
// for nothing else. What is wrong is said without a word of it.
func TestWhatNoMessageMayAsk(t *testing.T) {
	t.Parallel()
	set := func(name string, value any) func(map[string]any) { return func(f map[string]any) { f[name] = value } }
	for name, change := range map[string]func(map[string]any){
		"a newer version":     set("v", 2),
		"no version":          set("v", 0),
		"no tenant":           set("tenant", ""),
		"no session":          set("session", nil),
		"a tenant's slash":    set("tenant", "a/b"),
		"a read":              set("method", "GET"),
		"a deletion":          set("method", "DELETE"),
		"another session":     set("path", "/v1/sessions/t/runs"),
		"another's by dots":   set("path", "/v1/sessions/s/../t/runs"),
		"an escape":           set("path", "/v1/sessions/s/%2e%2e/t"),
		"a query":             set("path", "/v1/sessions/s/runs?wait=20"),
		"a fragment":          set("path", "/v1/sessions/s/runs#x"),
		"a slash at the end":  set("path", "/v1/sessions/s/runs/"),
		"the session itself":  set("path", "/v1/sessions/s"),
		"a promise":           set("path", "/v1/promises/pt_sekret"),
		"a tool":              set("path", "/v1/tools/x"),
		"another's making":    func(f map[string]any) { f["path"], f["body"] = "/v1/sessions", `{"id":"t"}` },
		"anybody's making":    func(f map[string]any) { f["path"], f["body"] = "/v1/sessions", `{}` },
		"no key":              set("key", ""),
		"a key with a space":  set("key", "sekret key"),
		"nobody":              set("actor", map[string]any{"id": ""}),
		"the system":          set("actor", map[string]any{"id": "system:deadline"}),
		"a role of two words": set("actor", map[string]any{"id": "U1", "roles": []string{"sekret role"}}),
		"no surface":          set("via", ""),
		"a surface of ours":   set("via", "key"),
		"two bodies":          set("ref", "sha256:00"),
		"an actor's name":     set("actor", "sekret"),
	} {
		f := fields()
		change(f)
		c, fault := decode(text(t, f))
		require.NotNil(t, fault, name)
		require.Equal(t, codeMalformed, fault.code, name)
		require.NotContains(t, fault.detail, "sekret", name)
		require.NotContains(t, c.name()+c.Key, "sekret", name)
	}
	for _, body := range []string{``, `null`, `7`, `"s"`, `[]`, `{`, `{"v":1}x`} {
		c, fault := decode(body)
		require.NotNil(t, fault, body)
		require.Empty(t, c.key.Session, body)
	}
	f := fields()
	f["path"], f["body"] = "/v1/sessions", `{"id":"s"}`
	_, fault := decode(text(t, f))
	require.Nil(t, fault)
}

// Whatever comes is a command of its own session or malformed.
func FuzzDecode(f *testing.F) {
	f.Add(`{"v":1,"tenant":"default","session":"s","method":"POST","path":"/v1/sessions/s/runs","key":"k","actor":{"id":"U1","roles":[]},"via":"slack","body":"{}"}`)
	f.Add(`{"v":1,"tenant":"default","session":"s","method":"POST","path":"/v1/sessions","key":"k","actor":{"id":"U1"},"via":"slack","body":"{\"id\":\"s\"}"}`)
	f.Add(`{"v":9,"tenant":"default","session":"s"}`)
	f.Add(`[`)
	f.Fuzz(func(t *testing.T, body string) {
		c, fault := decode(body)
		if fault != nil {
			require.Equal(t, codeMalformed, fault.code)
			return
		}
		r := c.request(t.Context(), []byte(c.Body))
		require.Equal(t, http.MethodPost, r.Method)
		require.True(t, r.URL.Path == sessions || strings.HasPrefix(r.URL.Path, sessions+"/"+string(c.key.Session)+"/"))
		require.Empty(t, r.URL.RawQuery)
		require.NotEmpty(t, r.Header.Get("Idempotency-Key"))
	})
}
