package doctor_test

import (
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/internal/doctor"
	"github.com/perdure/perdure/internal/env"
	"github.com/perdure/perdure/internal/local"
)

// machine is one with these variables and a folder of its own.
func machine(t *testing.T, variables map[string]string) doctor.Machine {
	t.Helper()
	all := map[string]string{env.Data: t.TempDir(), env.Addr: free(t)}
	maps.Copy(all, variables)
	m := doctor.Machine{Lookup: func(name string) (string, bool) { v, ok := all[name]; return v, ok }}
	for name, value := range all {
		m.Environ = append(m.Environ, name+"="+value)
	}
	m.Server = "http://" + env.Reachable(all[env.Addr])
	return m
}

// free is an address where nobody listens.
func free(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { require.NoError(t, l.Close()) }()
	return l.Addr().String()
}

func find(t *testing.T, r doctor.Report, name string) doctor.Check {
	t.Helper()
	for _, c := range r.Checks {
		if c.Name == name {
			return c
		}
	}
	require.Fail(t, "nobody looked", "%s in %+v", name, r)
	return doctor.Check{}
}

// has looks for a check and what it says.
func has(t *testing.T, r doctor.Report, name, status, text string) doctor.Check {
	t.Helper()
	c := find(t, r, name)
	require.Equal(t, status, c.Status, "%+v", c)
	require.Contains(t, c.Text, text)
	if status == doctor.Wrong || status == doctor.Ask {
		require.NotEmpty(t, c.Do, "%+v", c)
	}
	return c
}

func TestAFreshMachineIsWell(t *testing.T) {
	t.Parallel()
	m := machine(t, map[string]string{env.Data: filepath.Join(t.TempDir(), "not", "yet")})
	r := doctor.Local(t.Context(), m)
	require.True(t, r.OK, "%+v", r)
	has(t, r, "settings", doctor.OK, "")
	has(t, r, "data folder", doctor.Note, "not there yet")
	has(t, r, "server", doctor.Note, "the address is free")
	has(t, r, "model", doctor.Note, "scripted")
	require.NoDirExists(t, filepath.Join(filepath.Dir(m.Server), "not"), "it makes nothing")
}

func TestSettings(t *testing.T) {
	t.Parallel()
	r := doctor.Local(t.Context(), machine(t, map[string]string{"PERDURE_TABEL": "x"}))
	has(t, r, "settings", doctor.Note, "PERDURE_TABEL")
	r = doctor.Local(t.Context(), machine(t, map[string]string{env.Open: "perhaps"}))
	require.False(t, r.OK)
	has(t, r, "settings", doctor.Wrong, "write 1 or 0")
}

func TestTheDataFolder(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	has(t, doctor.Local(t.Context(), machine(t, map[string]string{env.Data: file})), "data folder", doctor.Wrong, "is no folder")
	has(t, doctor.Local(t.Context(), machine(t, map[string]string{env.Data: filepath.Join(file, "below")})), "data folder", doctor.Wrong, "not a directory")

	folder := t.TempDir()
	m := machine(t, map[string]string{env.Data: folder})
	require.NoError(t, os.WriteFile(local.KeyFile(folder), []byte("no key\n"), 0o600))
	has(t, doctor.Local(t.Context(), m), "data folder", doctor.Wrong, "holds no key")
	require.NoError(t, os.WriteFile(local.KeyFile(folder), []byte("pk_local_"+strings.Repeat("a", 52)+"\n"), 0o600))
	r := doctor.Local(t.Context(), m)
	has(t, r, "data folder", doctor.OK, folder)
	require.NoError(t, os.Chmod(local.KeyFile(folder), 0o644))
	c := has(t, doctor.Local(t.Context(), m), "data folder", doctor.Wrong, "read by others")
	require.NotContains(t, c.Text, "pk_local")
	left, err := os.ReadDir(folder)
	require.NoError(t, err)
	require.Len(t, left, 1, "it leaves nothing behind")
}

func serve(t *testing.T, handle http.HandlerFunc) (addr string) {
	t.Helper()
	s := httptest.NewServer(handle)
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

func TestTheServerAndItsKey(t *testing.T) {
	t.Parallel()
	addr := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/":
			_, _ = w.Write([]byte(`{"name":"Perdure","version":"v1","about":"","openapi":""}`))
		case r.Header.Get("Authorization") == "Bearer pk_a_good":
			_, _ = w.Write([]byte(`{"tenant":"default","actor":"admin","roles":[],"scopes":[]}`))
		default:
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = w.Write([]byte(`{"code":"unauthenticated","title":"No","status":401}`))
		}
	})
	m := machine(t, map[string]string{env.Addr: addr})
	m.Key = "pk_a_good"
	r := doctor.Local(t.Context(), m)
	require.True(t, r.OK, "%+v", r)
	has(t, r, "server", doctor.OK, "Perdure v1 answers")
	has(t, r, "key", doctor.OK, "admin's")
	m.Key = ""
	has(t, doctor.Local(t.Context(), m), "key", doctor.Wrong, "there is none")
	m.Key = "pk_a_sekret"
	c := has(t, doctor.Local(t.Context(), m), "key", doctor.Wrong, "does not know")
	require.NotContains(t, c.Text+c.Do, "sekret")

	stranger := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"hello":"world"}`)) })
	has(t, doctor.Local(t.Context(), machine(t, map[string]string{env.Addr: stranger})), "server", doctor.Wrong, "no server of sessions")
	page := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`<html>`)) })
	has(t, doctor.Local(t.Context(), machine(t, map[string]string{env.Addr: page})), "server", doctor.Wrong, "no server of sessions")

	m = machine(t, nil)
	m.Server = "http://" + free(t)
	has(t, doctor.Local(t.Context(), m), "server", doctor.Wrong, "no answer from")
}

// Somebody listens and says nothing of use: the address is taken.
func TestAnAddressThatIsTaken(t *testing.T) {
	t.Parallel()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
		}
	}()
	has(t, doctor.Local(t.Context(), machine(t, map[string]string{env.Addr: l.Addr().String()})), "server", doctor.Wrong, "cannot be listened on")
}

func TestTheModelsProvider(t *testing.T) {
	t.Parallel()
	asked := ""
	addr := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked = r.Method + " " + r.URL.Path
		switch r.Header.Get("Authorization") {
		case "Bearer good":
			_, _ = w.Write([]byte(`{"data":[]}`))
		case "Bearer moved":
			http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusFound)
		default:
			w.WriteHeader(http.StatusUnauthorized)
		}
	})
	look := func(more map[string]string) doctor.Report {
		all := map[string]string{env.OpenAIBaseURL: "http://" + addr + "/v1/"}
		maps.Copy(all, more)
		return doctor.Local(t.Context(), machine(t, all))
	}
	has(t, look(map[string]string{env.OpenAIKey: "good"}), "model", doctor.OK, env.DefaultModel)
	require.Equal(t, "GET /v1/models", asked)
	c := has(t, look(map[string]string{env.OpenAIKey: "sekret"}), "model", doctor.Wrong, "HTTP 401")
	require.NotContains(t, c.Text+c.Do, "sekret")
	has(t, look(map[string]string{env.OpenAIKey: "moved"}), "model", doctor.Unknown, "HTTP 302")
	has(t, look(map[string]string{env.AllowPrivate: "0"}), "model", doctor.Wrong, "loopback")
	has(t, look(map[string]string{env.OpenAIBaseURL: "http://127.0.0.1:1"}), "model", doctor.Wrong, "no answer")
}
