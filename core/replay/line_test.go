package replay_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/replay"
	"github.com/perdure/perdure/core/session"
)

func TestLineReadsLikeAScript(t *testing.T) {
	t.Parallel()
	digest := blob.Sum([]byte("x"))
	for want, e := range map[string]session.Event{
		`12 run.started run=1`: &session.RunStarted{Run: 1},
		`12 run.accepted run=1 front=true input=[{text=hello} {text="hello, you"} {blob=sha256:2d711642b726… size=9 mediaType=image/png}] actor={id=ada roles=[admin]} via=key`: &session.RunAccepted{
			Run: 1, Front: true, Actor: session.Actor{ID: "ada", Roles: []string{"admin"}}, Via: "key",
			Input: []session.Part{{Text: blob.Inline("hello")}, {Text: blob.Inline("hello, you")}, {Blob: digest, Size: 9, MediaType: "image/png"}},
		},
		`12 run.completed run=1 output=blob:2d711642b726(5000)`:                          &session.RunCompleted{Run: 1, Output: blob.ByRef(digest, 5000)},
		`12 run.completed run=1 output="` + strings.Repeat("ü", 30) + `"…`:               &session.RunCompleted{Run: 1, Output: blob.Inline(strings.Repeat("ü", 31))},
		`12 run.completed run=1 output="a` + strings.Repeat("ü", 29) + `"…`:              &session.RunCompleted{Run: 1, Output: blob.Inline("a" + strings.Repeat("ü", 30))},
		`12 run.completed run=1 output="two\nlines <b>\u2028"`:                           &session.RunCompleted{Run: 1, Output: blob.Inline("two\nlines <b>\u2028")},
		`12 run.waiting run=1 person=true on=[approval promise]`:                         &session.RunWaiting{Run: 1, Person: true, On: []string{"approval", "promise"}},
		`12 run.cancel_requested run=1 failure={kind=internal message="no room"} by=ada`: &session.RunCancelRequested{Run: 1, Failure: &session.Failure{Kind: "internal", Message: "no room"}, Who: session.Who{By: "ada"}},
		`12 turn.cancelled run=1 turn=2 attempt=1 usage={input=5 output=1}`:              &session.TurnCancelled{Run: 1, Turn: 2, Attempt: 1, Usage: session.Usage{Input: 5, Output: 1}},
		`12 question.answered question=1 run=1 status=answered answers=[{item=a values=[x ""]}]`: &session.QuestionAnswered{
			Question: 1, Run: 1, Status: "answered", Answers: []session.Answer{{Item: "a", Values: []string{"x", ""}}},
		},
		`12 session.released`: &session.SessionReleased{},
		`12 tool.called run=1 turn=1 call=1 tool=await verdict=ok control={promises=[1 2]}`: &session.ToolCalled{
			Run: 1, Turn: 1, Call: 1, Tool: "await", Verdict: "ok", Control: &session.Control{Promises: []ident.PromiseID{1, 2}},
		},
	} {
		require.Equal(t, want, replay.Line(session.Entry{Seq: 12, At: 5, Event: e}))
	}
}

func TestLineShowsWhatCannotBeStored(t *testing.T) {
	t.Parallel()
	require.Equal(t, `3 ! "event cannot be stored: entry 3 has no event"`, replay.Line(session.Entry{Seq: 3}))
}

func TestStoredLineShowsWhatOtherBuildsWrote(t *testing.T) {
	t.Parallel()
	for stored, want := range map[string]string{
		`{"seq":3,"at":1,"kind":"run.sung","v":2,"data":{"song":{"verses":[1,{}],"key":"c \"minor\""},"none":null,"far":{"off":{}}}}`: `3 run.sung v=2 song={verses=[1 {}] key="c \"minor\""}`,
		`{"seq":3,"at":1,"kind":"run.sung","v":1,"data":{]}}`:                                                                         `3 run.sung ! "parse: invalid character ']'"`,
		`{"seq":3,"at":1,"kind":"run.sung","v":1,"data":{}1}}`:                                                                        `3 run.sung ! "parse: bytes after the value"`,
		`{}`: `? "malformed envelope: byte 0: want {\"seq\":"`,
	} {
		require.Equal(t, want, replay.StoredLine([]byte(stored)))
	}
}
