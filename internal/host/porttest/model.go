package porttest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/internal/host"
)

// ModelReply is what the other side of a model port answers with, in the terms
// of the port.
type ModelReply struct {
	Text  string
	Calls []host.ModelCall
	// Class, if set, has the call fail instead.
	Class string
	// Hold has the answer stop after its first piece until the call is
	// aborted.
	Hold bool
}

// ModelSetup is a model port with an other side that gives the replies in
// order, one for each request.
type ModelSetup struct {
	Port  host.ModelPort
	Model session.Model
	// Requests is how many have reached the other side.
	Requests func() int
	// Aborted, where the other side can tell, is closed when it has seen that
	// the held answer was given up.
	Aborted <-chan struct{}
}

// ModelFactory makes a setup for these replies.
type ModelFactory func(t *testing.T, replies ...ModelReply) ModelSetup

// Model checks a host.ModelPort.
func Model(t *testing.T, factory ModelFactory) {
	t.Helper()

	cases := []struct {
		name string
		run  func(t *testing.T, factory ModelFactory)
	}{
		{"what streams is what is returned", modelStreams},
		{"calls stream and are returned", modelCalls},
		{"an answer goes back and the conversation goes on", modelContinues},
		{"a cancel ends a call at once", modelCancel},
		{"a call that is cancelled before it begins sends nothing", modelCancelled},
		{"a deadline is a timeout", modelDeadline},
		{"a failure has its class and is not tried again", modelFaults},
		{"the request is left as it was", modelKeepsRequest},
		{"calls do not meet", modelConcurrent},
		{"what is known of a model is always the same", modelInfo},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.run(t, factory)
		})
	}
}

// modelRequest asks for an answer to a text, with a tool on offer.
func modelRequest(m session.Model, text string) host.ModelRequest {
	return host.ModelRequest{
		Tenant: tenant, Session: "s1", Attempt: "run_1/turn_1/1", Model: m,
		Instructions: []string{"Be brief."},
		Messages:     []host.ModelMessage{{Role: host.RoleUser, Parts: []host.ModelPart{{Text: text}}}},
		Tools: []host.ModelTool{
			{WireName: "look", Description: "Looks.", Parameters: `{"type":"object","properties":{"at":{"type":"string"}}}`},
		},
	}
}

// modelHeard is what a sink got.
type modelHeard struct {
	text, arguments map[int]*strings.Builder
	inside          atomic.Int32
	problem         string
}

func newModelHeard() *modelHeard {
	return &modelHeard{text: map[int]*strings.Builder{}, arguments: map[int]*strings.Builder{}}
}

func (h *modelHeard) sink(d host.Delta) {
	if h.inside.Add(1) != 1 {
		h.problem = "two deltas at once"
	}
	defer h.inside.Add(-1)
	if d.Text == "" || !utf8.ValidString(d.Text) {
		h.problem = fmt.Sprintf("a delta with the text %q", d.Text)
	}
	switch {
	case d.Part == "text" && d.Call == 0:
		modelPart(h.text, 0).WriteString(d.Text)
	case d.Part == "arguments" && d.Call > 0:
		modelPart(h.arguments, d.Call).WriteString(d.Text)
	case d.Part == "reasoning" && d.Call == 0:
	default:
		h.problem = fmt.Sprintf("a delta of part %q of call %d", d.Part, d.Call)
	}
}

func modelPart(parts map[int]*strings.Builder, n int) *strings.Builder {
	if parts[n] == nil {
		parts[n] = &strings.Builder{}
	}
	return parts[n]
}

// matches says that the deltas were the result.
func (h *modelHeard) matches(t *testing.T, res host.ModelResult) {
	t.Helper()
	require.Empty(t, h.problem)
	require.Equal(t, res.Text, modelPart(h.text, 0).String())
	require.LessOrEqual(t, len(h.arguments), len(res.Calls))
	for i, c := range res.Calls {
		require.Equal(t, c.Arguments, modelPart(h.arguments, i+1).String())
	}
}

func modelStreams(t *testing.T, factory ModelFactory) {
	s := factory(t, ModelReply{Text: "First one thing, then 🌊 another\nand an end"})
	h := newModelHeard()
	res, err := s.Port.Generate(t.Context(), modelRequest(s.Model, "hello"), h.sink)
	require.NoError(t, err)
	require.Equal(t, "First one thing, then 🌊 another\nand an end", res.Text)
	require.Equal(t, host.FinishStop, res.Finish)
	require.Empty(t, res.Calls)
	require.Positive(t, res.Usage.Input)
	require.Positive(t, res.Usage.Output)
	require.LessOrEqual(t, res.Usage.CacheRead+res.Usage.CacheWrite, res.Usage.Input)
	h.matches(t, res)
	require.Equal(t, 1, s.Requests())
}

func modelTwoCalls() []host.ModelCall {
	return []host.ModelCall{
		{ID: "a", Name: "look", Arguments: `{"at":"the sea"}`},
		{ID: "b", Name: "look", Arguments: `{"at":"\ud83c\udf0a \"there\""}`},
	}
}

func modelCalls(t *testing.T, factory ModelFactory) {
	s := factory(t, ModelReply{Text: "I look.", Calls: modelTwoCalls()})
	h := newModelHeard()
	res, err := s.Port.Generate(t.Context(), modelRequest(s.Model, "hello"), h.sink)
	require.NoError(t, err)
	require.Equal(t, host.FinishTools, res.Finish)
	require.Equal(t, modelTwoCalls(), res.Calls)
	h.matches(t, res)
}

func modelContinues(t *testing.T, factory ModelFactory) {
	const rounds = 3
	replies := make([]ModelReply, 0, rounds+1)
	for range rounds {
		replies = append(replies, ModelReply{Calls: modelTwoCalls()})
	}
	s := factory(t, append(replies, ModelReply{Text: "Done."})...)
	req := modelRequest(s.Model, "hello")
	for round := range rounds {
		req.Attempt = fmt.Sprintf("run_1/turn_%d/1", round+1)
		res, err := s.Port.Generate(t.Context(), req, func(host.Delta) {})
		require.NoError(t, err)
		results := host.ModelMessage{Role: host.RoleTool}
		for i := range res.Calls {
			// As the host does with ids that come again.
			res.Calls[i].ID = fmt.Sprintf("call_%d_%d", round+1, i+1)
			results.Results = append(results.Results, host.ModelToolResult{ID: res.Calls[i].ID, Name: "look", Text: "water", Error: i == 1})
		}
		req.Messages = append(req.Messages,
			host.ModelMessage{Role: host.RoleAssistant, Text: res.Text, Calls: res.Calls, Item: res.Item}, results)
	}
	req.Attempt, req.NoTools = "run_1/turn_9/1", true
	res, err := s.Port.Generate(t.Context(), req, func(host.Delta) {})
	require.NoError(t, err)
	require.Equal(t, "Done.", res.Text)
	require.Equal(t, rounds+1, s.Requests())
}

// modelWait waits for a signal; the ceiling is a hang guard.
func modelWait(t *testing.T, signal <-chan struct{}) {
	t.Helper()
	if signal == nil {
		return
	}
	select {
	case <-signal:
	case <-time.After(hang):
		require.FailNow(t, "the signal did not come")
	}
}

func modelCancel(t *testing.T, factory ModelFactory) {
	whole := "begun but never ended"
	s := factory(t, ModelReply{Text: whole, Hold: true})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	h := newModelHeard()
	// It holds for ever: that the call returns at all is the claim.
	res, err := s.Port.Generate(ctx, modelRequest(s.Model, "hello"), func(d host.Delta) {
		h.sink(d)
		cancel()
	})
	require.ErrorIs(t, err, context.Canceled)
	_, isFault := errors.AsType[*host.Fault](err)
	require.False(t, isFault, "a cancel is nobody's fault")
	require.Empty(t, h.problem)
	require.True(t, strings.HasPrefix(whole, modelPart(h.text, 0).String()))
	require.Empty(t, res.Calls)
	require.Equal(t, 1, s.Requests())
	modelWait(t, s.Aborted)
}

func modelCancelled(t *testing.T, factory ModelFactory) {
	s := factory(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.Port.Generate(ctx, modelRequest(s.Model, "hello"), func(host.Delta) {})
	require.ErrorIs(t, err, context.Canceled)
	require.Zero(t, s.Requests())
}

func modelDeadline(t *testing.T, factory ModelFactory) {
	s := factory(t, ModelReply{Text: "begun but never ended", Hold: true})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := s.Port.Generate(ctx, modelRequest(s.Model, "hello"), func(host.Delta) {})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	fault, ok := errors.AsType[*host.Fault](err)
	require.True(t, ok)
	require.Equal(t, host.ClassTimeout, fault.Class)
}

func modelFaults(t *testing.T, factory ModelFactory) {
	for _, class := range []string{
		host.ClassAuthentication, host.ClassAccess, host.ClassNotFound, host.ClassInvalid, host.ClassRateLimit, host.ClassServer,
		host.ClassContentFilter, host.ClassContextLength, host.ClassQuota, host.ClassTimeout,
	} {
		t.Run(class, func(t *testing.T) {
			t.Parallel()
			s := factory(t, ModelReply{Class: class})
			_, err := s.Port.Generate(t.Context(), modelRequest(s.Model, "hello"), func(host.Delta) {})
			fault, ok := errors.AsType[*host.Fault](err)
			require.True(t, ok, "%v", err)
			require.Equal(t, class, fault.Class)
			require.NotEmpty(t, fault.Message)
			require.True(t, utf8.ValidString(fault.Message))
			require.True(t, fault.Sent)
			require.GreaterOrEqual(t, fault.RetryAfterMs, int64(0))
			require.Equal(t, 1, s.Requests(), "every attempt is the engine's to make and to record")
		})
	}
}

func modelKeepsRequest(t *testing.T, factory ModelFactory) {
	s := factory(t, ModelReply{Text: "Done."})
	req := modelRequest(s.Model, "hello")
	req.Messages = append(req.Messages,
		host.ModelMessage{Role: host.RoleAssistant, Calls: modelTwoCalls()},
		host.ModelMessage{Role: host.RoleTool, Results: []host.ModelToolResult{{ID: "a", Text: "x"}, {ID: "b", Text: "y"}}},
		host.ModelMessage{Role: host.RoleUser, Parts: []host.ModelPart{{Text: "and this"}, {Data: []byte("text"), MediaType: "text/plain", Name: "a.txt"}}})
	before := fmt.Sprintf("%+v", req)
	_, err := s.Port.Generate(t.Context(), req, func(host.Delta) {})
	require.NoError(t, err)
	require.Equal(t, before, fmt.Sprintf("%+v", req))
}

func modelConcurrent(t *testing.T, factory ModelFactory) {
	const calls = 8
	replies := make([]ModelReply, calls)
	for i := range replies {
		replies[i] = ModelReply{Text: "the same for all of them"}
	}
	s := factory(t, replies...)
	var all sync.WaitGroup
	problems := make([]error, calls)
	for i := range calls {
		all.Go(func() {
			h := newModelHeard()
			res, err := s.Port.Generate(t.Context(), modelRequest(s.Model, "hello"), h.sink)
			switch {
			case err != nil:
				problems[i] = err
			case res.Text != "the same for all of them" || modelPart(h.text, 0).String() != res.Text:
				problems[i] = fmt.Errorf("got %q, heard %q", res.Text, modelPart(h.text, 0))
			}
		})
	}
	all.Wait()
	require.NoError(t, errors.Join(problems...))
	require.Equal(t, calls, s.Requests())
}

func modelInfo(t *testing.T, factory ModelFactory) {
	s := factory(t)
	info := s.Port.Info(s.Model)
	require.Equal(t, info, s.Port.Info(s.Model))
	require.NotEmpty(t, info.Family)
	require.GreaterOrEqual(t, info.InputLimit, int64(0))
	require.Zero(t, s.Requests())
}
