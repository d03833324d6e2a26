package outside_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/internal/tool"
	"github.com/perdure/perdure/internal/tool/outside"
)

func definition(change func(*outside.Definition)) *outside.Definition {
	d := &outside.Definition{Name: "t.one", Description: "does", Parameters: `{"type":"object"}`, Kind: tool.KindRead, Completion: outside.Promise}
	change(d)
	return d
}

func TestFunctionsAreNamedAsLambdaNamesThem(t *testing.T) {
	t.Parallel()
	set := func(function string) error {
		return definition(func(d *outside.Definition) { d.Target, d.Function = outside.Lambda, function }).Validate()
	}
	for _, good := range []string{
		"f", "crm-find_2", "crm:live", "crm:$LATEST", "crm:7", "123456789012:function:crm", "123456789012:function:crm:live",
		"arn:aws:lambda:us-east-1:123456789012:function:crm", "arn:aws-us-gov:lambda:us-gov-west-1:123456789012:function:crm:live",
		"arn:aws-cn:lambda:cn-north-1:123456789012:function:crm", strings.Repeat("f", 64),
	} {
		require.NoError(t, set(good), good)
	}
	for _, bad := range []string{
		"", "crm find", "crm/find", "../crm", "crm:", ":live", "crm:$OTHER", "arn:aws:lambda:us-east-1:123456789012:layer:crm:1",
		"arn:aws:sqs:us-east-1:123456789012:crm", "arn:aws:lambda:us-east-1:1234:function:crm", "function:crm:live:x", "https://example.com",
		"arn:aws:lambda:us-east-1:123456789012:function:crm\n", strings.Repeat("f", 65), "crm:" + strings.Repeat("f", 200),
	} {
		require.ErrorContains(t, set(bad), "function is neither", bad)
	}
}

func TestQueuesAreNamedByTheirURL(t *testing.T) {
	t.Parallel()
	set := func(queue string) error {
		return definition(func(d *outside.Definition) { d.Target, d.Queue = outside.Queue, queue }).Validate()
	}
	for _, good := range []string{"", "https://sqs.us-east-1.amazonaws.com/123456789012/work", "http://localhost:4566/000000000000/work_2"} {
		require.NoError(t, set(good), good)
	}
	for _, bad := range []string{
		"work", "arn:aws:sqs:us-east-1:123456789012:work", "https://sqs.us-east-1.amazonaws.com/work", "https://a:b@example.com/123456789012/work",
		"ftp://example.com/123456789012/work", "https://example.com/123456789012/work?x=1", "https://example.com/123456789012/a/b", "%zz",
	} {
		require.ErrorContains(t, set(bad), "queue is not the URL of an SQS queue", bad)
	}
	require.ErrorContains(t, set("https://sqs.us-east-1.amazonaws.com/123456789012/work.fifo"), "FIFO")
}

func TestWhatBelongsToAnotherTargetIsRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		change func(*outside.Definition)
		says   string
	}{
		{func(d *outside.Definition) { d.Target = "grpc" }, "target is none of http, lambda, queue"},
		{func(d *outside.Definition) { d.Function = "f" }, "function does not belong to target http"},
		{func(d *outside.Definition) { d.Target, d.URL = outside.Lambda, "https://example.com" }, "url does not belong to target lambda"},
		{func(d *outside.Definition) { d.Target, d.Function, d.Secret = outside.Lambda, "f", "S" }, "secret does not belong to target lambda"},
		{func(d *outside.Definition) { d.Target, d.Lookup = outside.Queue, true }, "lookup does not belong to target queue"},
		{func(d *outside.Definition) { d.Target, d.Function = outside.Queue, "f" }, "function does not belong to target queue"},
		{func(d *outside.Definition) { d.Target, d.Completion = outside.Queue, outside.Joined }, "completion of target queue is promise"},
		{func(d *outside.Definition) {
			d.Target, d.Function, d.Completion, d.TimeoutSeconds = outside.Lambda, "f", outside.Joined, 841
		}, "at most 840"},
	} {
		require.ErrorContains(t, definition(c.change).Validate(), c.says)
	}
	require.NoError(t, definition(func(d *outside.Definition) { d.Target, d.Function, d.TimeoutSeconds = outside.Lambda, "f", 86400 }).Validate(),
		"a promise may take its time")
}

// TestWhatWasStoredBeforeThereWereTargets: definitions stay readable.
func TestWhatWasStoredBeforeThereWereTargets(t *testing.T) {
	t.Parallel()
	var d outside.Definition
	require.NoError(t, json.Unmarshal([]byte(`{"name":"crm.update","url":"https://example.com","secret":"S","description":"does",`+
		`"parameters":"{\"type\":\"object\"}","kind":"action","retrySafe":true,"completion":"joined","timeoutSeconds":30,"lookup":true}`), &d))
	require.NoError(t, d.Validate())
	require.Equal(t, outside.HTTP, d.By())
	require.Equal(t, "https://example.com", d.URL)
}

func TestATargetThatIsNotServed(t *testing.T) {
	t.Parallel()
	d := definition(func(d *outside.Definition) { d.Target, d.Function = outside.Lambda, "f" })
	require.ErrorContains(t, d.Unserved([]string{"queue", "http"}).Invalid, "target lambda is not served by this server, which serves http, queue")
}
