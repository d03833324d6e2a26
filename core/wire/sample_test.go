package wire_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/session"
)

// sampleTexts are what the fields of a sample hold: by kind and name where a
// name means different things, else by name. A field that is not here holds its
// own name, which is good enough for a test and not for a reader: give a new
// field a value that it might have.
var sampleTexts = map[string]string{
	"access": "write", "actor.id": "ada", "approvals.default": "action", "arguments": `{"path":"notes/today.md","content":"Buy <milk> & \"bread\".\n"}`,
	"approval.requested/arguments": string(blob.Sum([]byte(`{"path":"notes/today.md"}`))),
	"approval.requested/why":       "tool",
	"approval.decided/decided":     "person",
	"baseUrl":                      "http://127.0.0.1:8080/v1",
	"by":                           "ada", "class": "rate_limit", "code": "malformed_event", "compaction.mode": "auto", "content": "text",
	"command": "POST /runs", "command.dead/code": "unavailable", "command.dead/detail": "HTTP 503 at the third try", "command.dead/id": "0f1d6a1e-58c2-4a8e-9a75-3f3c0a8f7f10",
	"command.dead/source": "inbox", "command.dead/submission": "2f1c9c6e-5b0a-4d0e-9d55-0f2e5b6a7c81", "command.dead/via": "slack",
	"closing.kind": "limit_exceeded", "closing.limit": "maxTurns", "closing.message": "the run has used its 50 turns",
	"context.compaction_started/reason": "high_water",
	"context.cut/mode":                  "summary",
	"context.cut/reason":                "high_water",
	"decision":                          "approved",
	"definition":                        blob.Sum([]byte("definition")).Hex(),
	"detail":                            "byte 71: want }",
	"digest":                            blob.Sum([]byte("run")).Hex(),
	"edited":                            `{"path":"notes/tomorrow.md","content":"Buy milk."}`,
	"effects.detail":                    "24 bytes", "effects.kind": "file.written", "effects.subject": "notes/today.md",
	"error": "no such file: notes/today.md", "failure.kind": "limit_exceeded", "failure.limit": "maxSeconds", "failure.message": "the run took longer than 600 s",
	"refused.kind": "quota_exceeded", "refused.limit": "maxCostUsd", "refused.message": "the budget of the day is spent",
	"family": "claude", "fingerprint": blob.Sum([]byte("fingerprint")).Hex(), "finish": "tool_use", "inc": "01JQ3ZC5T8Q9V4M7R2X6W1Y0KD",
	"input.blob": string(blob.Sum([]byte("picture"))), "input.mediaType": "image/png", "input.name": "screen.png", "instructions": "You keep a diary.\nBe brief.",
	"intake.when": "session", "item.data": `{"role":"assistant","content":[{"type":"text","text":"I will write it down."}]}`, "item.kind": "anthropic",
	"items.defaults": "blue", "items.id": "colour", "items.prompt": "Which colour do you like?", "key": "house-rules",
	"kind": "action", "label": "Blue, like the sea", "message": "429: try again in 20 s", "mode": "interrupt",
	"model": "claude-sonnet", "model.provider": "anthropic", "model.params": `{"temperature":0.2}`, "name": "files.write", "note": "Write it to tomorrow's page.",
	"config.provider": "anthropic", "config.params": `{"temperature":0.2}`,
	"on": "approval", "options": `{"maxBytes":65536}`, "answers.item": "colour", "output": "It is in your diary.", "tools.options": `{"maxBytes":65536}`,
	"parts.blob": string(blob.Sum([]byte("picture"))), "parts.mediaType": "image/png", "parts.name": "screen.png", "problem": "content is missing",
	"providerId": "toolu_01ABCDEFGHIJKLMNOP", "question.answered/status": "answered", "question.asked/source": "ask", "promise.created/source": "outside",
	"promise.settled/status": "resolved", "reason": "first", "ref": string(blob.Sum([]byte("tools"))), "remove": "old-rules", "require": "yes",
	"responseId": "msg_01ABCDEFGHIJKLMNOP", "result": "Wrote 24 bytes.", "role": "editor", "roles": "editor", "message.added/role": "assistant", "put.role": "instructions",
	"replace.text": "[taken out]", "source": "model", "status": "completed", "submission.id": "2f1c9c6e-5b0a-4d0e-9d55-0f2e5b6a7c81",
	"summary": "The user keeps a diary; two entries so far.", "text": "I will write it down.", "text.blob": string(blob.Sum([]byte("picture"))), "text.mediaType": "image/png", "text.name": "screen.png",
	"input.text": "Write a diary entry: café ☕, then stop.", "parts.text": "Keep the file <notes/today.md>.", "text.text": "In English, please.",
	"tool": "files.write", "approvals.tools.tool": "files.*", "tools.class": "inline", "tools.kind": "action", "config.tools.name": "files.*", "config.workspaces.name": "notes",
	"tool.started/reason": "retry", "turn.completed/outcome": "tools", "turn.requested/reason": "retry", "value": "paid", "values": "blue", "options.value": "blue", "verdict": "ok", "via": "console",
	"wireName": "files_write",
}

var sampleNumbers = map[string]uint64{
	"approval": 4, "at": 1790000000000, "atTokens": 120000, "attempt": 2, "cacheRead": 17900, "cacheWrite": 330, "call": 1, "closing.used": 50, "closing.value": 50, "configRevision": 2, "contextRevision": 41,
	"costMicros": 9150, "deadline": 1790086400000, "deadlineMs": 10000, "durationMs": 3120, "entry": 41, "estimate": 18230, "expiresAt": 1790003600000, "failed": 118,
	"from": 38, "input": 18230, "keep": 60000, "maxCostMicros": 2500000, "maxMessages": 200, "maxOutput": 4096, "maxRepeats": 3, "maxSeconds": 600, "maxTokens": 120000,
	"maxToolRounds": 20, "maxTurns": 50, "next": 8, "notBefore": 1790000002000, "output": 412, "outputBytes": 15, "promise": 6, "promises": 6, "question": 2, "receives": 3,
	"retryAt": 1790000020000, "revision": 3, "run": 7, "size": 48123, "sleepMs": 60000, "steering": 5, "through": 40, "timeoutMs": 30000, "toolset": 1,
	"ttlMs": 3600000, "turn": 19, "used": 601, "value": 600,
}

// sample is an event of a kind with every field set.
func sample(zero session.Event) session.Event {
	v := reflect.New(reflect.TypeOf(zero).Elem())
	s := sampler{kind: string(zero.Kind())}
	s.set(nil, v.Elem())
	return v.Interface().(session.Event)
}

type sampler struct{ kind string }

// lookup finds the value for a path: the longest known end of it wins, one for
// the kind before one for all.
func lookup[T any](s sampler, table map[string]T, path []string) (T, bool) {
	for i := range path {
		end := strings.Join(path[i:], ".")
		for _, key := range []string{s.kind + "/" + end, end} {
			if v, ok := table[key]; ok {
				return v, true
			}
		}
	}
	var none T
	return none, false
}

func (s sampler) set(path []string, v reflect.Value) {
	switch p := v.Addr().Interface().(type) {
	case *blob.Payload:
		text, _ := lookup(s, sampleTexts, path)
		*p = blob.Inline(text)
		if name := path[len(path)-1]; name == "data" || name == "summary" {
			*p = blob.ByRef(blob.Sum([]byte(text)), 5120)
		}
		return
	case *[]session.Part:
		// One part is a text, the other a blob.
		*p = make([]session.Part, 2)
		s.set(path, v.Index(0))
		s.set(path, v.Index(1))
		(*p)[0] = session.Part{Text: (*p)[0].Text}
		(*p)[1].Text = blob.Payload{}
		return
	}
	switch v.Kind() {
	case reflect.String:
		text, ok := lookup(s, sampleTexts, path)
		if !ok {
			text = path[len(path)-1]
		}
		v.SetString(text)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Uint64:
		n, _ := lookup(s, sampleNumbers, path)
		v.SetUint(max(n, 1))
	case reflect.Int64, reflect.Int:
		n, _ := lookup(s, sampleNumbers, path)
		v.SetInt(int64(max(n, 1)))
	case reflect.Struct:
		for f, field := range v.Fields() {
			if f.Anonymous {
				s.set(path, field)
			} else if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); f.IsExported() {
				s.set(append(slices.Clip(path), name), field)
			}
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		s.set(path, v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		s.set(path, v.Index(0))
	default:
		panic(fmt.Sprintf("no sample of %s", v.Type()))
	}
}

// A sample that left a field out would prove nothing for it.
func TestSamplesLeaveNothingOut(t *testing.T) {
	t.Parallel()
	forEachKind(t, func(t *testing.T, zero session.Event) {
		t.Helper()
		var look func(path string, v reflect.Value)
		look = func(path string, v reflect.Value) {
			switch v.Kind() {
			case reflect.Struct:
				if p, ok := reflect.TypeAssert[blob.Payload](v); ok {
					require.NotZero(t, p, path)
					return
				}
				if _, ok := reflect.TypeAssert[session.Part](v); ok {
					return // text or blob, never both
				}
				for f, field := range v.Fields() {
					if f.IsExported() {
						look(path+"."+f.Name, field)
					}
				}
			case reflect.Pointer:
				require.False(t, v.IsNil(), path)
				look(path, v.Elem())
			case reflect.Slice:
				require.NotZero(t, v.Len(), path)
				for i := range v.Len() {
					look(path, v.Index(i))
				}
			default:
				require.False(t, v.IsZero(), path)
			}
		}
		look("", reflect.ValueOf(sample(zero)).Elem())
	})
}
