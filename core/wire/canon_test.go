package wire_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/core/wire"
)

// The vectors are the definition of the forms: never regenerated, only added
// to. testdata/canon.json was made once and checked with another program.
func TestCanonVectors(t *testing.T) {
	t.Parallel()
	text := "hello"
	spilled := blob.ByRef(blob.Sum([]byte(text)), int64(len(text)))
	parts := []session.Part{
		{Text: blob.Inline(text)},
		{Blob: blob.Sum([]byte("picture")), Size: 7, MediaType: "image/png", Name: "p.png"},
	}
	edited := blob.Inline(`{"path":"b"}`)
	config := session.RunConfig{Provider: "p", Model: "m", Params: "{}", MaxOutput: 9, Limits: session.Limits{
		MaxTurns: 1, MaxToolRounds: 2, MaxTokens: 3, MaxCostMicros: 4, MaxSeconds: 5, MaxRepeats: -1,
	}}
	got := map[string]string{
		"nothing":       wire.Begin("t").Sum(),
		"text":          wire.Begin("t").Str(text).Sum(),
		"texts":         wire.Begin("t").Strs([]string{"a", "", "bc"}).Sum(),
		"numbers":       wire.Begin("t").Uint(0).Uint(127).Uint(128).Uint(1<<64 - 1).Int(0).Int(-1).Int(1).Int(-1 << 63).Int(1<<63 - 1).Sum(),
		"truths":        wire.Begin("t").Bool(true).Bool(false).Sum(),
		"payload":       wire.Begin("t").Payload(blob.Inline(text)).Sum(),
		"payload empty": wire.Begin("t").Payload(blob.Payload{}).Sum(),
		"payload ref":   wire.Begin("t").Payload(spilled).Sum(),
		"parts":         wire.Begin("t").Parts(parts).Sum(),
		"run":           wire.SubmissionDigest(&session.RequestRun{Input: parts, Config: config, Mode: session.ModeInterrupt}),
		"run default":   wire.SubmissionDigest(&session.RequestRun{Input: parts}),
		"steer":         wire.SubmissionDigest(&session.SteerRun{Run: 300, Text: parts}),
		"cancel":        wire.SubmissionDigest(&session.CancelRun{Run: 300, Force: true}),
		"approvals": wire.SubmissionDigest(&session.DecideApprovals{Run: 300, Decisions: []session.Decision{
			{Approval: 1, Approve: true, Edited: &edited, Remember: true}, {Approval: 2, Note: "no"},
		}}),
		"answers": wire.SubmissionDigest(&session.AnswerQuestion{Run: 300, Question: 2, Answers: []session.Answer{
			{Item: "b", Values: []string{"x", "y"}}, {Item: "a", Values: []string{"z"}},
		}}),
	}
	stored, err := os.ReadFile(filepath.Join("testdata", "canon.json"))
	require.NoError(t, err)
	var want map[string]string
	require.NoError(t, json.Unmarshal(stored, &want))
	require.Equal(t, want, got)
	require.Equal(t, got["payload"], got["payload ref"])
}

func TestDigestIsOfWhatIsAsked(t *testing.T) {
	t.Parallel()
	inline := &session.RequestRun{Input: []session.Part{{Text: blob.Inline("hello")}}}
	digest := wire.SubmissionDigest(inline)

	other := *inline
	other.Actor, other.Via, other.Submission, other.Prior = session.Actor{ID: "bob"}, "cli", session.Submission{ID: "x"}, &session.Prior{}
	require.Equal(t, digest, wire.SubmissionDigest(&other), "not of who asked")

	other = *inline
	other.Mode = session.ModeQueue
	require.Equal(t, digest, wire.SubmissionDigest(&other), "not of whether the default is spelt out")

	other = *inline
	other.Input = []session.Part{{Text: blob.ByRef(blob.Sum([]byte("hello")), 5)}}
	require.Equal(t, digest, wire.SubmissionDigest(&other), "not of where a text is stored")

	require.NotEqual(t, digest, wire.SubmissionDigest(&session.SteerRun{Text: inline.Input}), "but of the operation")

	a := session.Answer{Item: "a", Values: []string{"1"}}
	b := session.Answer{Item: "b", Values: []string{"2"}}
	require.Equal(t,
		wire.SubmissionDigest(&session.AnswerQuestion{Answers: []session.Answer{a, b}}),
		wire.SubmissionDigest(&session.AnswerQuestion{Answers: []session.Answer{b, a}}))
	require.Empty(t, wire.SubmissionDigest(&session.Wake{}))
}

// A field that a command gains and the digest misses would let two different
// bodies pass for the same.
func TestDigestCoversEveryFieldThatACallerSets(t *testing.T) {
	t.Parallel()
	notAsked := []string{
		"Asked",             // who
		"Input.Size",        // follows from the reference
		"Text.Size",         // follows from the reference
		"Decisions.Settled", // the rest is what the host found out
		"Decisions.EditProblem", "Decisions.EditControl", "Settled", "Answers.Defaulted",
	}
	for _, c := range []session.Command{
		&session.RequestRun{}, &session.SteerRun{}, &session.CancelRun{}, &session.DecideApprovals{}, &session.AnswerQuestion{},
	} {
		t.Run(reflect.TypeOf(c).Elem().Name(), func(t *testing.T) {
			t.Parallel()
			full := reflect.New(reflect.TypeOf(c).Elem())
			fill(&counted{lists: 2}, "", full.Elem())
			before := wire.SubmissionDigest(full.Interface().(session.Command))
			leaves(full.Elem(), "", func(path string, v reflect.Value) {
				if slices.ContainsFunc(notAsked, func(p string) bool { return path == p || len(path) > len(p) && path[:len(p)+1] == p+"." }) {
					return
				}
				undo := change(v)
				require.NotEqual(t, before, wire.SubmissionDigest(full.Interface().(session.Command)), path)
				undo()
			})
			require.Equal(t, before, wire.SubmissionDigest(full.Interface().(session.Command)))
		})
	}
}

// counted fills with values that are all different.
type counted struct{ n, lists int }

func (c *counted) next() int                       { c.n++; return c.n }
func (c *counted) text(string) string              { return "t" + strconv.Itoa(c.next()) }
func (c *counted) number(string, int, bool) uint64 { return uint64(c.next()) }
func (c *counted) flag(string) bool                { return true }
func (c *counted) length(string) int               { return c.lists }
func (c *counted) byRef(string) bool               { return c.next()%2 == 0 }

// leaves calls f with every stored value that holds no other, and with every
// list and pointer.
func leaves(v reflect.Value, path string, f func(path string, v reflect.Value)) {
	if _, ok := reflect.TypeAssert[blob.Payload](v); ok {
		f(path, v)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for field, inner := range v.Fields() {
			if field.IsExported() {
				sub := field.Name
				if path != "" {
					sub = path + "." + field.Name
				}
				leaves(inner, sub, f)
			}
		}
	case reflect.Pointer:
		f(path, v)
		leaves(v.Elem(), path, f)
	case reflect.Slice:
		f(path, v)
		for i := range v.Len() {
			leaves(v.Index(i), path, f)
		}
	default:
		f(path, v)
	}
}

// change gives a value another one and returns how to take that back.
func change(v reflect.Value) func() {
	old := reflect.New(v.Type()).Elem()
	old.Set(v)
	if _, ok := reflect.TypeAssert[blob.Payload](v); ok {
		v.Set(reflect.ValueOf(blob.Inline("another")))
		return func() { v.Set(old) }
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(v.String() + "!")
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Uint64:
		v.SetUint(v.Uint() + 1)
	case reflect.Int64, reflect.Int:
		v.SetInt(v.Int() + 1)
	case reflect.Slice:
		v.Set(v.Slice(0, v.Len()-1))
	case reflect.Pointer:
		v.SetZero()
	default:
		panic("no other value for " + v.Type().String())
	}
	return func() { v.Set(old) }
}

func TestStateSumCoversEveryField(t *testing.T) {
	t.Parallel()
	s := fullState()
	before := wire.StateSum(*s)
	seen := map[string]string{before: "unchanged"}
	n := 0
	leaves(reflect.ValueOf(s).Elem(), "", func(path string, v reflect.Value) {
		undo := change(v)
		sum := wire.StateSum(*s)
		require.Empty(t, seen[sum], "a change of %s is not in the sum", path)
		seen[sum] = path
		undo()
		n++
	})
	require.Equal(t, before, wire.StateSum(*s))
	require.Greater(t, n, 500)
}

func fullState() *session.State { return stateWith(2) }

// stateWith is a state with every field set, and lists of that many values.
func stateWith(lists int) *session.State {
	s := &session.State{}
	fill(&counted{lists: lists}, "", reflect.ValueOf(s).Elem())
	return s
}

func TestStateSumIgnoresWhereATextIsStored(t *testing.T) {
	t.Parallel()
	a := session.State{Active: &session.Run{Output: blob.Inline("hello")}}
	b := session.State{Active: &session.Run{Output: blob.ByRef(blob.Sum([]byte("hello")), 5)}}
	require.Equal(t, wire.StateSum(a), wire.StateSum(b))
	b.Active.Output = blob.ByRef(blob.Sum([]byte("other")), 5)
	require.NotEqual(t, wire.StateSum(a), wire.StateSum(b))

	require.Equal(t, wire.StateSum(session.State{}), wire.StateSum(session.State{Promises: []session.Promise{}}))
}

// drawState is any state that a checkpoint may hold.
func drawState(t *rapid.T) session.State {
	var s session.State
	fill(drawn{t}, "", reflect.ValueOf(&s).Elem())
	return s
}
