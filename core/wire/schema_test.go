package wire_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/core/wire"
)

// TestSchemas derives a JSON Schema of each kind's envelope from its Go type
// and compares it with the file. Test code reflects; the core does not.
func TestSchemas(t *testing.T) {
	t.Parallel()
	forEachKind(t, func(t *testing.T, zero session.Event) {
		t.Helper()
		base := string(zero.Kind()) + versionOf(t, sampleLine(t, zero))
		text := schemaOf(t, zero)
		if *update {
			write(t, schemaDir, base+".schema.json", text)
		}
		require.Equal(t, read(t, schemaDir, base+".schema.json"), text, howTo)
	})
}

// The schema has the fields that the walk writes: a sample has all of them.
func TestSchemasHaveTheFieldsThatAreWritten(t *testing.T) {
	t.Parallel()
	forEachKind(t, func(t *testing.T, zero session.Event) {
		t.Helper()
		line := sampleLine(t, zero)
		var envelope struct {
			Data map[string]json.RawMessage `json:"data"`
		}
		require.NoError(t, json.Unmarshal(line, &envelope))
		var schema struct {
			Properties struct {
				Data struct {
					Properties map[string]json.RawMessage `json:"properties"`
				} `json:"data"`
			} `json:"properties"`
		}
		require.NoError(t, json.Unmarshal([]byte(schemaOf(t, zero)), &schema))
		require.Equal(t, keys(envelope.Data), keys(schema.Properties.Data.Properties))
	})
}

func keys(m map[string]json.RawMessage) map[string]bool {
	out := map[string]bool{}
	for k := range m {
		out[k] = true
	}
	return out
}

// object is a JSON object whose fields keep their order.
type object []field

type field struct {
	key   string
	value any
}

func (o object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, f := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(f.key); err != nil {
			return nil, err
		}
		b.WriteByte(':')
		if err := enc.Encode(f.value); err != nil {
			return nil, err
		}
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

type schemas struct {
	defs object
	seen map[reflect.Type]bool
}

func schemaOf(t *testing.T, zero session.Event) string {
	t.Helper()
	line := sampleLine(t, zero)
	h, err := wire.DecodeHeader(line)
	require.NoError(t, err)
	s := schemas{seen: map[reflect.Type]bool{}}
	data := s.fields(reflect.TypeOf(zero).Elem())
	root := object{
		{"$schema", "https://json-schema.org/draft/2020-12/schema"},
		{"$id", "urn:perdure:event:" + string(h.Kind) + versionOf(t, line)},
		{"title", string(h.Kind)},
		{"type", "object"},
		{"properties", object{
			{"seq", object{{"type", "integer"}, {"minimum", 1}}},
			{"at", object{{"type", "integer"}, {"minimum", 0}, {"description", "milliseconds since 1970-01-01T00:00:00Z"}}},
			{"kind", object{{"const", string(h.Kind)}}},
			{"v", object{{"const", h.Version}}},
			{"data", data},
		}},
		{"required", []string{"seq", "at", "kind", "v", "data"}},
		{"additionalProperties", false},
	}
	if len(s.defs) > 0 {
		root = append(root, field{"$defs", s.defs})
	}
	compact, err := json.Marshal(root)
	require.NoError(t, err)
	var out bytes.Buffer
	require.NoError(t, json.Indent(&out, compact, "", "  "))
	return out.String() + "\n"
}

// fields is the schema of a struct, with those of what it embeds.
func (s *schemas) fields(t reflect.Type) object {
	properties, required := object{}, []string{}
	var add func(t reflect.Type)
	add = func(t reflect.Type) {
		for f := range t.Fields() {
			if f.Anonymous {
				add(f.Type)
				continue
			}
			name, flags, _ := strings.Cut(f.Tag.Get("json"), ",")
			optional := flags != ""
			properties = append(properties, field{name, s.value(t.Name()+"."+f.Name, f.Type, optional)})
			if !optional {
				required = append(required, name)
			}
		}
	}
	add(t)
	return object{{"type", "object"}, {"properties", properties}, {"required", required}, {"additionalProperties", false}}
}

// value is the schema of a field. One that is optional is not there when it is
// empty, so an empty value is not valid.
func (s *schemas) value(name string, t reflect.Type, optional bool) object {
	switch t {
	case reflect.TypeFor[blob.Payload]():
		return s.ref(t, s.payload)
	case reflect.TypeFor[blob.Ref]():
		return object{{"type", "string"}, {"pattern", refPattern}}
	case reflect.TypeFor[ident.Instant]():
		return object{{"type", "integer"}, {"minimum", 0}, {"description", "milliseconds since 1970-01-01T00:00:00Z"}}
	}
	out := object{}
	switch t.Kind() {
	case reflect.Struct:
		return s.ref(t, func() object { return s.fields(t) })
	case reflect.Pointer:
		return s.ref(t.Elem(), func() object { return s.fields(t.Elem()) })
	case reflect.Slice:
		out = append(out, field{"type", "array"}, field{"items", s.value(name, t.Elem(), false)})
		if optional {
			out = append(out, field{"minItems", 1})
		}
	case reflect.Bool:
		if optional {
			return object{{"const", true}}
		}
		out = append(out, field{"type", "boolean"})
	case reflect.String:
		if words := sets[name]; words != nil {
			return object{{"enum", words}}
		}
		out = append(out, field{"type", "string"})
		if optional {
			out = append(out, field{"minLength", 1})
		}
	case reflect.Uint64:
		least := 0
		if optional {
			least = 1
		}
		out = append(out, field{"type", "integer"}, field{"minimum", least})
	default:
		out = append(out, field{"type", "integer"})
	}
	return out
}

// ref is a reference to the schema of a type, once per file.
func (s *schemas) ref(t reflect.Type, schema func() object) object {
	if !s.seen[t] {
		s.seen[t] = true
		at := len(s.defs)
		s.defs = append(s.defs, field{t.Name(), nil})
		s.defs[at].value = schema()
	}
	return object{{"$ref", "#/$defs/" + t.Name()}}
}

func (s *schemas) payload() object {
	return object{
		{"description", "text, or where a longer text is stored"},
		{"oneOf", []object{
			{{"type", "string"}},
			{
				{"type", "object"},
				{"properties", object{
					{"ref", object{{"type", "string"}, {"pattern", refPattern}}},
					{"size", object{{"type", "integer"}, {"minimum", 1}}},
				}},
				{"required", []string{"ref", "size"}},
				{"additionalProperties", false},
			},
		}},
	}
}

const refPattern = "^sha256:[0-9a-f]{64}$"

// sets are the fields that hold one of a few words, by Go type and field.
var sets = map[string][]string{
	"ApprovalRequested.Why":    {"tool", "repeat_of_unknown"},
	"ApprovalDecided.Decision": {session.Approved, session.Rejected, session.Expired, session.Cancelled},
	"ApprovalDecided.Decided":  {"person", "remembered", "deadline", "policy"},
	"ApprovalPolicy.Default":   {"action", "always", "never"},
	"ApprovalRule.Require":     {"yes", "no"},
	"Compaction.Mode":          {session.CompactAuto, session.CompactManual, session.CompactOff},
	"CompactionStarted.Reason": {session.CutWindow, session.CutHighWater, session.CutContext, session.CutManual, session.CutFailedRun},
	"ContextCut.Mode":          {session.CutDrop, session.CutSummary},
	"ContextCut.Reason":        {session.CutWindow, session.CutHighWater, session.CutContext, session.CutManual, session.CutFailedRun},
	"Failure.Kind":             {session.FailModel, session.FailRejected, session.FailTool, session.FailContext, session.FailLimit, session.FailQuota, session.FailInternal},
	"Intake.When":              {"session", "run"},
	"KeyedPut.Role":            {session.RoleUser, session.RoleInstructions},
	"MessageAdded.Role":        {session.RoleUser, session.RoleAssistant},
	"MessageAdded.Source":      {session.FromInput, session.FromSteer, session.FromModel, session.FromRuntime, session.FromIntake},
	"PromiseCreated.Source":    {session.SourceTimer, session.SourceOutside, session.SourceSession},
	"PromiseSettled.Status":    {session.Resolved, session.Failed, session.Cancelled, session.Expired},
	"QuestionAnswered.Status":  {session.Answered, session.Skipped, session.Expired, session.Cancelled},
	"QuestionAsked.Source":     {"ask", "intake"},
	"RunAccepted.Mode":         {session.ModeQueue, session.ModeSteer, session.ModeInterrupt, session.ModeReject},
	"RunWaiting.On":            {"approval", "question", "promise", "timer", "child", "tool", "retry"},
	"ToolCalled.Verdict":       {session.VerdictOK, session.VerdictInvalid, session.VerdictForbidden, session.VerdictUnavailable},
	"ToolDef.Class":            {session.ClassInline, session.ClassJoined, session.ClassPromise, session.ClassSleep, session.ClassAwait, session.ClassDetach, session.ClassCancel, session.ClassAsk},
	"ToolDef.Kind":             {"read", "action", "agent"},
	"ToolStarted.Reason":       {"first", "interrupted", "retry", "lookup", "accepted"},
	"TurnCompleted.Outcome":    {session.OutcomeFinal, session.OutcomeTools},
	"TurnRequested.Reason":     {"first", "interrupted", "retry"},
	"Workspace.Access":         {"read", "write"},
	"ToolCompleted.Status":     {session.CallCompleted, session.CallFailed, session.CallRejected, session.CallExpired, session.CallInvalid, session.CallForbidden, session.CallUnavailable, session.CallNotRun, session.CallCancelled, session.CallUnknown},
}

// A set for a field that is no more would go unnoticed.
func TestSetsAreOfFieldsThatExist(t *testing.T) {
	t.Parallel()
	fields := map[string]bool{}
	var look func(t reflect.Type)
	look = func(t reflect.Type) {
		switch t.Kind() {
		case reflect.Pointer, reflect.Slice:
			look(t.Elem())
		case reflect.Struct:
			for f := range t.Fields() {
				if f.IsExported() {
					fields[t.Name()+"."+f.Name] = true
					look(f.Type)
				}
			}
		default:
		}
	}
	for _, zero := range session.Kinds() {
		look(reflect.TypeOf(zero))
	}
	for name := range sets {
		require.True(t, fields[name], name)
	}
}
