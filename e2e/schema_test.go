package e2e

import (
	"encoding/json"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/stretchr/testify/require"
)

// document is what a server says of itself at /v1/openapi.json, as far as the
// suite holds answers against it.
type document struct {
	Paths      map[string]map[string]operation
	Components struct{ Schemas map[string]any }

	mu       sync.Mutex
	resolved map[string]*jsonschema.Resolved
}

type operation struct {
	Responses map[string]struct {
		Content map[string]struct{ Schema any }
	}
}

var documents sync.Map // by URL of the server

func documentOf(tb testing.TB, at *target) *document {
	tb.Helper()
	if d, ok := documents.Load(at.url); ok {
		return d.(*document)
	}
	d := read[*document](at.send(tb, "GET", "/v1/openapi.json", nil).is(200))
	d.resolved = map[string]*jsonschema.Resolved{}
	actual, _ := documents.LoadOrStore(at.url, d)
	return actual.(*document)
}

// documented holds an answer against the document: the path, the method, the
// status and the shape are there, and no field is sent that is not.
func documented(tb testing.TB, at *target, method, path string, a answer) {
	tb.Helper()
	at200 := a.status >= 200 && a.status < 300
	d := documentOf(tb, at)
	template, op, known := d.find(method, path)
	if !known {
		require.False(tb, at200, "%s succeeds and is not documented", a.asked)
		return
	}
	said, known := op.Responses[strconv.Itoa(a.status)]
	if !known {
		said, known = op.Responses["default"]
		require.True(tb, known && !at200, "%s: the status %d is not documented", a.asked, a.status)
	}
	if len(a.body) == 0 || method == "HEAD" {
		return
	}
	media, _, _ := strings.Cut(a.header.Get("Content-Type"), ";")
	content, known := said.Content[media]
	require.True(tb, known, "%s: %d of type %s is not documented", a.asked, a.status, media)
	if !strings.HasSuffix(media, "json") || media == "application/x-ndjson" {
		return
	}
	var value any
	require.NoError(tb, json.Unmarshal(a.body, &value), "%s", a.asked)
	schema := d.schema(tb, method+" "+template+" "+strconv.Itoa(a.status), content.Schema)
	require.NoError(tb, schema.Validate(value), "%s: %.4000s", a.asked, a.body)
	times(tb, a.asked, "", value)
}

// find is the operation of a request.
func (d *document) find(method, path string) (template string, op operation, known bool) {
	u, err := url.Parse(path)
	if err != nil {
		return "", op, false
	}
	if method == "HEAD" {
		method = "GET"
	}
	got := strings.Split(u.EscapedPath(), "/")
	for t, ops := range d.Paths {
		want := strings.Split(t, "/")
		if len(want) != len(got) {
			continue
		}
		fits := true
		for i := range want {
			fits = fits && (want[i] == got[i] || strings.HasPrefix(want[i], "{") && got[i] != "")
		}
		if fits {
			op, known = ops[strings.ToLower(method)]
			return t, op, known
		}
	}
	return "", op, false
}

// schema makes one schema of a response, closed where the document leaves it
// open to grow: what is sent now has to be documented now.
func (d *document) schema(tb testing.TB, name string, root any) *jsonschema.Resolved {
	tb.Helper()
	d.mu.Lock()
	defer d.mu.Unlock()
	if s := d.resolved[name]; s != nil {
		return s
	}
	data, err := json.Marshal(object{"$defs": closed(d.Components.Schemas), "allOf": []any{closed(root)}})
	require.NoError(tb, err)
	var schema jsonschema.Schema
	require.NoError(tb, json.Unmarshal([]byte(strings.ReplaceAll(string(data), "#/components/schemas/", "#/$defs/")), &schema), "%s", name)
	resolved, err := schema.Resolve(nil)
	require.NoError(tb, err, "%s", name)
	d.resolved[name] = resolved
	return resolved
}

func closed(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v)+1)
		for name, value := range v {
			out[name] = closed(value)
		}
		_, has := v["properties"].(map[string]any)
		if _, said := v["additionalProperties"]; has && !said {
			out["additionalProperties"] = false
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = closed(v[i])
		}
		return out
	}
	return v
}

var instant = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`)

// times holds every time to RFC 3339 with milliseconds, in UTC.
func times(tb testing.TB, asked, at string, v any) {
	tb.Helper()
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			text, isText := value.(string)
			if isText && (strings.HasSuffix(name, "At") || name == "at" || name == "since" || name == "until" || name == "deadline") {
				require.Regexp(tb, instant, text, "%s: %s.%s", asked, at, name)
			}
			// What an event holds is as it is stored, and arguments are the
			// model's own.
			if name != "data" && !strings.Contains(strings.ToLower(name), "arguments") && name != "metadata" {
				times(tb, asked, at+"."+name, value)
			}
		}
	case []any:
		for _, value := range v {
			times(tb, asked, at+"[]", value)
		}
	}
}

// The check of answers can fail: an answer that lacks a field, has one too many
// or one of another kind is no answer of the document.
func TestAnAnswerThatIsNotDocumented(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.open(w.played(nil))
	d := documentOf(t, w.target)
	_, op, known := d.find("GET", w.path(""))
	require.True(t, known)
	schema := d.schema(t, "session", op.Responses["200"].Content["application/json"].Schema)
	whole := func() map[string]any { return read[map[string]any](w.get("").is(200)) }
	require.NoError(t, schema.Validate(whole()))
	for name, change := range map[string]func(map[string]any){
		"lacks a field":        func(s map[string]any) { delete(s, "head") },
		"has one too many":     func(s map[string]any) { s["colour"] = "red" },
		"too many deeper":      func(s map[string]any) { s["usage"].(map[string]any)["colour"] = "red" },
		"another kind":         func(s map[string]any) { s["head"] = "1" },
		"a value of its own":   func(s map[string]any) { s["activity"] = "dancing" },
		"no list where one is": func(s map[string]any) { s["queuedRuns"] = nil },
	} {
		s := whole()
		change(s)
		require.Error(t, schema.Validate(s), name)
	}
	_, _, known = d.find("GET", "/v1/nothing")
	require.False(t, known)
}
