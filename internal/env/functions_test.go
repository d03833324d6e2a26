package env_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/internal/env"
)

func TestAFunctionReadsEverySetting(t *testing.T) {
	t.Parallel()
	f, err := env.ParseFunction(lookup(
		env.AWSFunction, "p-api", env.AWSEndpointURL, "http://localhost:4566",
		env.Table, "t", env.Bucket, "b", env.Machine, "m", env.Inbox, "i", env.Outbox, "o", env.Work, "w",
		env.KeySecret, "k", env.SigningSecret, "s", env.OpenAISecret, "a",
		env.OpenAIBaseURL, "https://m.example/v1", env.OpenAIModel, "llama", env.PublicURL, "https://p.example/", env.Secrets, "perdure/p/",
		env.RolloverSteps, "4", env.SliceTurns, "1", env.PurgeAgain, "2", env.AllowPrivate, "1",
	), env.Table)
	require.NoError(t, err)
	require.Equal(t, env.Function{
		Name: "p-api", Table: "t", Bucket: "b", Machine: "m", Inbox: "i", Outbox: "o", Work: "w",
		KeySecret: "k", SigningSecret: "s", OpenAISecret: "a", OpenAIBaseURL: "https://m.example/v1", OpenAIModel: "llama",
		PublicURL: "https://p.example", Secrets: "perdure/p/",
		RolloverSteps: 4, SliceTurns: 1, PurgeAgainMs: 2000, AllowPrivate: true, Emulated: true,
	}, f)

	f, err = env.ParseFunction(lookup())
	require.NoError(t, err)
	require.Equal(t, env.Function{Name: "perdure", OpenAIModel: env.DefaultModel}, f)
}

func TestAFunctionSaysAllThatIsWrongWithItsSettings(t *testing.T) {
	t.Parallel()
	_, err := env.ParseFunction(lookup(
		env.Table, "", env.SliceTurns, "0", env.RolloverSteps, "many", env.PurgeAgain, "-1", env.AllowPrivate, "maybe", env.PublicURL, "p.example",
	), env.Table, env.Bucket)
	for _, want := range []string{
		"PERDURE_TABLE is not set: the stack sets it, so deploy it again, or set it yourself (Name of the table)",
		"PERDURE_BUCKET is not set",
		`PERDURE_SLICE_TURNS is "0": write a whole number`,
		`PERDURE_ROLLOVER_STEPS is "many"`,
		`PERDURE_PURGE_AGAIN_SECONDS is "-1"`,
		`PERDURE_ALLOW_PRIVATE is "maybe": write 1 or 0`,
		"PERDURE_PUBLIC_URL is no address",
	} {
		require.ErrorContains(t, err, want)
	}
}

func TestAnEmulatorIsKnownByItsAddress(t *testing.T) {
	t.Parallel()
	for address, emulated := range map[string]bool{
		"": false, "http://127.0.0.1:4566": true, "http://[::1]:4566": true, "http://LOCALHOST": true, "http://127.9.9.9:1": true,
		"http://localhost.example:4566": false, "https://dynamodb.eu-west-1.amazonaws.com": false, "http://10.0.0.1:4566": false, "127.0.0.1:4566": false,
	} {
		f, err := env.ParseFunction(lookup(env.AWSEndpointURL, address))
		require.NoError(t, err)
		require.Equal(t, emulated, f.Emulated, address)
	}
}
