package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/internal/env"
)

// urlOf is the URL of a function.
func (s synthesized) urlOf(t *testing.T, name string) (id string, properties map[string]any) {
	t.Helper()
	function, _ := s.function(t, name)
	for id, url := range s.of(t, "AWS::Lambda::Url") {
		if refers(t, url.Properties["TargetFunctionArn"], function) {
			return id, url.Properties
		}
	}
	t.Fatalf("%s has no URL", name)
	return "", nil
}

// TestFrontDoorMayBeURLs: of api and read, beside the one of stream, and nothing
// of API Gateway.
func TestFrontDoorMayBeURLs(t *testing.T) {
	t.Parallel()
	for _, stack := range []func() (synthesized, error){atURLs, chosen} {
		s := stackOf(t, stack)
		for id, r := range s.Template.Resources {
			require.NotContains(t, r.Type, "ApiGateway", id)
		}
		require.Len(t, s.of(t, "AWS::Lambda::Url"), 3)
		for name, want := range map[string]struct{ mode, output string }{
			env.FunctionAPI:    {"BUFFERED", "ApiUrl"},
			env.FunctionRead:   {"BUFFERED", "ReadUrl"},
			env.FunctionStream: {"RESPONSE_STREAM", "StreamUrl"},
		} {
			id, url := s.urlOf(t, name)
			require.Equal(t, want.mode, url["InvokeMode"], name)
			require.Equal(t, "NONE", url["AuthType"], name)
			require.JSONEq(t, `{"Fn::GetAtt": ["`+id+`", "FunctionUrl"]}`, jsonOf(t, s.Template.Outputs[want.output].Value), name)
		}
	}
	require.Equal(t, "RESPONSE_STREAM", stackOf(t, defaults).only(t, "AWS::Lambda::Url").Properties["InvokeMode"])
}

// TestEverybodyMayCallAURLAndNothingElse: AWS takes two permissions for a URL, and
// the second is good for calls by the URL alone.
func TestEverybodyMayCallAURLAndNothingElse(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		stack func() (synthesized, error)
		open  []string
	}{
		{defaults, []string{env.FunctionStream}},
		{atURLs, []string{env.FunctionAPI, env.FunctionRead, env.FunctionStream}},
	} {
		s := stackOf(t, c.stack)
		var granted []string
		for _, p := range s.of(t, "AWS::Lambda::Permission") {
			if p.Properties["Principal"] != "*" {
				continue
			}
			target := listOf(at(p.Properties, "FunctionName", "Fn::GetAtt"))[0].(string)
			condition := p.Properties["InvokedViaFunctionUrl"]
			if p.Properties["Action"] == "lambda:InvokeFunctionUrl" {
				condition = p.Properties["FunctionUrlAuthType"]
			}
			granted = append(granted, fmt.Sprintf("%s %s %v", target, p.Properties["Action"], condition))
		}
		var want []string
		for _, name := range c.open {
			id, _ := s.function(t, name)
			want = append(want, id+" lambda:InvokeFunctionUrl NONE", id+" lambda:InvokeFunction true")
		}
		require.ElementsMatch(t, want, granted)
	}
}

// TestPromiseAddressesAreKnownWhereTheyAreMade: no function can be told its own
// URL, and those that go without make none.
func TestPromiseAddressesAreKnownWhereTheyAreMade(t *testing.T) {
	t.Parallel()
	s := stackOf(t, atURLs)
	id, _ := s.urlOf(t, env.FunctionAPI)
	for _, name := range env.FunctionNames() {
		_, f := s.function(t, name)
		url := at(f.Properties, "Environment", "Variables", env.PublicURL)
		if slices.Contains([]string{env.FunctionAPI, env.FunctionStream}, name) {
			require.Empty(t, url, name)
			continue
		}
		require.JSONEq(t, `{"Fn::GetAtt": ["`+id+`", "FunctionUrl"]}`, jsonOf(t, url), name)
	}
	for _, name := range env.FunctionNames() {
		_, f := stackOf(t, chosen).function(t, name)
		require.Equal(t, "https://agents.example.com", at(f.Properties, "Environment", "Variables", env.PublicURL), name)
	}
}

// TestBrowsersHearTheSameAtEveryDoor, and nothing where no page was named.
func TestBrowsersHearTheSameAtEveryDoor(t *testing.T) {
	t.Parallel()
	want := map[string]any{
		"AllowOrigins": []string{"https://console.example.com"}, "AllowMethods": corsMethods[string](),
		"AllowHeaders": corsHeaders(), "ExposeHeaders": corsExposed(), "MaxAge": corsSeconds,
	}
	said := []any{stackOf(t, pages).only(t, "AWS::ApiGatewayV2::Api").Properties["CorsConfiguration"]}
	for _, stack := range []func() (synthesized, error){pages, chosen} {
		for _, url := range stackOf(t, stack).of(t, "AWS::Lambda::Url") {
			said = append(said, url.Properties["Cors"])
		}
	}
	require.Len(t, said, 5)
	for _, cors := range said {
		require.JSONEq(t, jsonOf(t, want), jsonOf(t, cors))
	}
	// AWS refuses more of a URL.
	require.LessOrEqual(t, len(*corsMethods[string]()), 6)
	for _, method := range *corsMethods[string]() {
		require.LessOrEqual(t, len(method), 6, method)
	}
	for _, stack := range []func() (synthesized, error){defaults, atURLs} {
		for id, url := range stackOf(t, stack).of(t, "AWS::Lambda::Url") {
			require.NotContains(t, url.Properties, "Cors", id)
		}
	}
	require.NotContains(t, stackOf(t, defaults).only(t, "AWS::ApiGatewayV2::Api").Properties, "CorsConfiguration")
}

// TestEachDoorIsWatched: an alarm on what fails there, and all that comes in on the
// dashboard.
func TestEachDoorIsWatched(t *testing.T) {
	t.Parallel()
	s := stackOf(t, atURLs)
	dashboard := jsonOf(t, s.only(t, "AWS::CloudWatch::Dashboard").Properties)
	for _, name := range []string{env.FunctionAPI, env.FunctionRead} {
		id, _ := s.function(t, name)
		require.True(t, s.hasAlarm(t, "Url5xxCount", id), name)
		require.True(t, s.hasAlarm(t, "Throttles", id), name)
	}
	for _, metric := range []string{"UrlRequestCount", "Url4xxCount", "Url5xxCount"} {
		require.Equal(t, 2, strings.Count(dashboard, metric), metric)
	}
	s = stackOf(t, defaults)
	require.True(t, s.hasAlarm(t, "5xx", "Api"))
	require.NotContains(t, s.Text, "Url5xxCount")
}

// TestURLsChangeWhatWasReviewed: how the stack with URLs in front differs from the
// one without, of which TestTemplateIsTheOneReviewed has the whole. The dashboard is
// one long text, and TestEachDoorIsWatched reads it.
func TestURLsChangeWhatWasReviewed(t *testing.T) {
	t.Parallel()
	read := func(stack func() (synthesized, error)) (whole map[string]any) {
		require.NoError(t, json.Unmarshal(normalised(t, stackOf(t, stack)), &whole))
		maps.DeleteFunc(whole["Resources"].(map[string]any), func(_ string, r any) bool {
			return at(r, "Type") == "AWS::CloudWatch::Dashboard"
		})
		return whole
	}
	without, with := read(defaults), read(atURLs)
	golden(t, "url.diff", strings.Join(differences(t, "", without, with), "\n")+"\n")
}

// differences are what to take from one template, and what to put in for it.
func differences(t *testing.T, path string, from, to any) []string {
	t.Helper()
	if jsonOf(t, from) == jsonOf(t, to) {
		return nil
	}
	old, wasObject := from.(map[string]any)
	now, isObject := to.(map[string]any)
	if wasObject && isObject {
		all := maps.Clone(old)
		maps.Copy(all, now)
		var lines []string
		for _, key := range sortedKeys(all) {
			lines = append(lines, differences(t, path+"/"+key, old[key], now[key])...)
		}
		return lines
	}
	var lines []string
	if from != nil {
		lines = append(lines, "- "+path+" "+jsonOf(t, from))
	}
	if to != nil {
		lines = append(lines, "+ "+path+" "+jsonOf(t, to))
	}
	return lines
}
