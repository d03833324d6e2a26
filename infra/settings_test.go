package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSettingsHaveDefaults(t *testing.T) {
	t.Parallel()
	set, err := parseSettings(nil)
	require.NoError(t, err)
	require.Equal(t, settings{
		Stack: "perdure", Arch: "arm64", FrontDoor: "http", Reserved: map[string]int{}, LogDays: 30, Keep: true, XRay: true, Assets: "bin/functions",
	}, set)
}

func TestSettingsTakeTextAndJSON(t *testing.T) {
	t.Parallel()
	set, err := parseSettings(everythingChosen())
	require.NoError(t, err)
	require.Equal(t, settings{
		Stack: "other", Arch: "x86_64", FrontDoor: "url", FrontURL: "https://agents.example.com", StreamURL: "https://stream.example.com", CORSOrigins: []string{"https://console.example.com"},
		OpenAISecret: someSecret, OpenAIBaseURL: "https://models.example.com/v1", OpenAIModel: "large", CustomerFunctions: []string{someFunction},
		Reserved: map[string]int{"drive": 50, "api": 20}, AlarmEmail: "ops@example.com", LogDays: 7, RolloverSteps: "5", SliceTurns: "1",
		PurgeAgain: "2", AllowPrivate: "1", Assets: "bin/functions",
	}, set)
}

func TestWrongSettingsNameTheKeyAndSayWhatToWrite(t *testing.T) {
	t.Parallel()
	for key, c := range map[string]struct {
		value any
		want  string
	}{
		keyStack:             {"my_stack", "letters, digits and hyphens"},
		keyArch:              {"x86", "write arm64 or x86_64"},
		keyFrontDoor:         {"alb", "write http or url"},
		keyFrontURL:          {"agents.example.com", "write http://host:port or https://host"},
		keyStreamURL:         {"https://s.example.com?x=1", "write http://host:port or https://host"},
		keyOpenAISecret:      {"openai", "the whole ARN of a secret"},
		keyOpenAIBaseURL:     {"https://u:p@models.example.com", "without a user"},
		keyCustomerFunctions: {someFunction + ",weather", "ARNs of functions"},
		keyReserved:          {"drives=5", "functions are api"},
		keyLogDays:           {"31", "one of 1 3 5 7 14 30"},
		keyKeep:              {"maybe", "write 1 or 0"},
		keyXRay:              {"off", "write 1 or 0"},
		keyRolloverSteps:     {"0", "a number above 0"},
		keySliceTurns:        {"1.5", "a number above 0"},
		keyPurgeAgain:        {"-1", "a number above 0"},
		keyAllowPrivate:      {"yes please", "write 1 or 0"},
		"alarmMail":          {"ops@example.com", "there is no such setting"},
		"front":              {"url", "there is no such setting; there are stack, arch, frontDoor, frontUrl"},
	} {
		_, err := parseSettings(map[string]any{key: c.value})
		require.ErrorContains(t, err, "-c "+key)
		require.ErrorContains(t, err, c.want)
	}
}

func TestTheStacksOwnFunctionsAreNoTools(t *testing.T) {
	t.Parallel()
	const arn = "arn:aws:lambda:eu-west-1:123456789012:function:"
	for _, name := range []string{"mine-drive", "mine-inbox:live"} {
		_, err := parseSettings(map[string]any{keyStack: "mine", keyCustomerFunctions: arn + name})
		require.ErrorContains(t, err, "functions of yours")
	}
	for _, name := range []string{"perdure-drive", "mine-drives", "mine"} {
		_, err := parseSettings(map[string]any{keyStack: "mine", keyCustomerFunctions: arn + name})
		require.NoError(t, err)
	}
}

// TestContextOfTheCDKIsLeftAlone: its keys are none of ours.
func TestContextOfTheCDKIsLeftAlone(t *testing.T) {
	t.Parallel()
	context, err := contextFile()
	require.NoError(t, err)
	context["aws:cdk:bundling-stacks"] = []any{"**"}
	context["availability-zones:account=1:region=eu-west-1"] = []any{"eu-west-1a"}
	_, err = parseSettings(context)
	require.NoError(t, err)
}
