package env_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/internal/env"
)

func lookup(pairs ...string) env.Lookup {
	return func(name string) (string, bool) {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1], true
			}
		}
		return "", false
	}
}

func TestServerHasDefaults(t *testing.T) {
	t.Parallel()
	s, err := env.ParseServer(lookup(), "/home/ada")
	require.NoError(t, err)
	require.Equal(t, env.Server{
		Addr: "127.0.0.1:7337", Data: filepath.Join("/home/ada", ".perdure"), AllowPrivate: true, OpenAIModel: env.DefaultModel,
	}, s)
}

func TestAnEmptyValueIsNone(t *testing.T) {
	t.Parallel()
	s, err := env.ParseServer(lookup(env.Addr, "", env.Open, "", env.AllowPrivate, ""), "/home/ada")
	require.NoError(t, err)
	require.Equal(t, env.DefaultAddr, s.Addr)
	require.True(t, s.AllowPrivate)
}

func TestServerReadsEverySetting(t *testing.T) {
	t.Parallel()
	s, err := env.ParseServer(lookup(
		env.Addr, "[::1]:0", env.Data, "~/elsewhere", env.Open, "true", env.AllowPrivate, "0", env.Log, "json",
		env.OpenAIKey, "k", env.OpenAIBaseURL, "http://127.0.0.1:11434/v1", env.OpenAIModel, "llama"), "/home/ada")
	require.NoError(t, err)
	require.Equal(t, env.Server{
		Addr: "[::1]:0", Data: filepath.Join("/home/ada", "elsewhere"), Open: true, LogJSON: true,
		OpenAIKey: "k", OpenAIBaseURL: "http://127.0.0.1:11434/v1", OpenAIModel: "llama",
	}, s)
}

func TestPrivateAddressesAreOpenOnLoopbackOnly(t *testing.T) {
	t.Parallel()
	for addr, open := range map[string]bool{
		"127.0.0.1:1": true, "localhost:1": true, "[::1]:1": true, "127.8.8.8:1": true,
		"0.0.0.0:1": false, ":1": false, "10.0.0.1:1": false, "example.com:1": false,
	} {
		s, err := env.ParseServer(lookup(env.Addr, addr), "/h")
		require.NoError(t, err)
		require.Equal(t, open, s.AllowPrivate, addr)
	}
	s, err := env.ParseServer(lookup(env.Addr, "10.0.0.1:1", env.AllowPrivate, "1"), "/h")
	require.NoError(t, err)
	require.True(t, s.AllowPrivate)
}

func TestMistakesNameTheVariableAndSayWhatToWrite(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, value, want string }{
		{env.Addr, "7337", "write host:port"},
		{env.Open, "yes please", "write 1 or 0"},
		{env.AllowPrivate, "maybe", "write 1 or 0"},
		{env.Log, "xml", "write text or json"},
		{env.OpenAIBaseURL, "ollama", "write http://host:port"},
	} {
		_, err := env.ParseServer(lookup(c.name, c.value), "/h")
		require.ErrorContains(t, err, c.name)
		require.ErrorContains(t, err, c.want)
	}
	_, err := env.ParseServer(lookup(env.Addr, "0.0.0.0:7337", env.Open, "1"), "/h")
	require.ErrorContains(t, err, "lets everyone in")
	_, err = env.ParseServer(lookup(), "")
	require.ErrorContains(t, err, env.Data)
}

func TestNoErrorRepeatsACredential(t *testing.T) {
	t.Parallel()
	_, err := env.ParseServer(lookup(env.OpenAIBaseURL, "http://u:hunter2@host/v1"), "/h")
	require.Error(t, err)
	require.NotContains(t, err.Error(), "hunter2")
}

func TestClientFindsTheServerWhereItListens(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pairs []string
		want  string
	}{
		{nil, "http://127.0.0.1:7337"},
		{[]string{env.Addr, "127.0.0.1:9000"}, "http://127.0.0.1:9000"},
		{[]string{env.Addr, "0.0.0.0:9000"}, "http://127.0.0.1:9000"},
		{[]string{env.Addr, ":9000"}, "http://127.0.0.1:9000"},
		{[]string{env.Addr, "[::]:9000"}, "http://127.0.0.1:9000"},
		{[]string{env.URL, "https://agents.example.com", env.Addr, ":9000"}, "https://agents.example.com"},
	} {
		got, err := env.ParseClient(lookup(c.pairs...))
		require.NoError(t, err)
		require.Equal(t, c.want, got.URL)
	}
	_, err := env.ParseClient(lookup(env.URL, "localhost:7337"))
	require.ErrorContains(t, err, env.URL)
}

func TestMisspeltNamesAreFound(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"PERDURE_ADDR_", "PERDURE_DTA"}, env.Unknown([]string{
		"HOME=/h", "PERDURE_DTA=x", "PERDURE_DATA=y", "PERDURE_ADDR_=:1", "OPENAI_API_KEYS=z",
	}))
}

func TestEveryVariableIsDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/VARIABLES.md")
	require.NoError(t, err)
	rows := 0
	for line := range strings.SplitSeq(string(page), "\n") {
		if strings.HasPrefix(line, "| `") {
			rows++
		}
	}
	for _, v := range env.Variables() {
		require.Contains(t, string(page), "\n## "+v.Owner+"\n")
		row := "| `" + v.Name + "` | " + v.Default + " | " + v.Purpose + " |\n"
		require.Contains(t, string(page), row)
	}
	require.Equal(t, len(env.Variables()), rows, "the page has variables that nothing reads")
}
