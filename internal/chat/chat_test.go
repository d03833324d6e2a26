package chat_test

import (
	"bytes"
	"context"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/internal/api"
	"github.com/perdure/perdure/internal/chat"
	"github.com/perdure/perdure/internal/client"
	"github.com/perdure/perdure/internal/local"
)

const hang = time.Minute

func TestOneLineCountsColumnsAndCutsBetweenGraphemes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text    string
		columns int
		want    string
	}{
		{"short", 10, "short"},
		{"two\nlines\tand  more", 40, "two lines and more"},
		{"12345678901", 10, "123456789…"},
		{"全角文字です", 12, "全角文字です"},
		{"全角文字です", 11, "全角文字で…"},
		{"全角文字です", 10, "全角文字…"},
		{"👩‍👩‍👧👩‍👩‍👧👩‍👩‍👧", 5, "👩‍👩‍👧👩‍👩‍👧…"},
		{"e\u0301e\u0301e\u0301", 2, "e\u0301…"},
		{"", 3, ""},
	} {
		require.Equal(t, c.want, chat.OneLine(c.text, c.columns), "%q in %d", c.text, c.columns)
	}
}

func TestNothingMovesTheCursor(t *testing.T) {
	t.Parallel()
	require.Equal(t, "a�[2Jb\nc\td", chat.Safe("a\x1b[2Jb\nc\td"))
	require.Equal(t, "name.exe", chat.Safe("name\u202e.exe"))
	require.Equal(t, "�]0;title�", chat.Safe("\x1b]0;title\a"))
	require.Equal(t, "�31m", chat.Safe("\u009b31m"))
	require.Equal(t, "👩‍👩‍👧", chat.Safe("👩‍👩‍👧"))
}

func TestParseAnswers(t *testing.T) {
	t.Parallel()
	colour := api.QuestionItem{ID: "colour", Prompt: "Which?", Options: []api.QuestionOption{{Value: "blue"}, {Value: "a=b"}}}
	mood := api.QuestionItem{ID: "mood", Prompt: "And?", FreeText: true}
	for _, c := range []struct {
		items []api.QuestionItem
		words []string
		want  map[string][]string
		err   string
	}{
		{[]api.QuestionItem{colour}, []string{"blue"}, map[string][]string{"colour": {"blue"}}, ""},
		{[]api.QuestionItem{colour}, []string{"colour=blue"}, map[string][]string{"colour": {"blue"}}, ""},
		{[]api.QuestionItem{colour}, []string{"a=b"}, map[string][]string{"colour": {"a=b"}}, ""},
		{[]api.QuestionItem{colour}, []string{"green"}, nil, `"green" is no answer`},
		{[]api.QuestionItem{colour, mood}, []string{"mood=x=y", "colour=blue"}, map[string][]string{"colour": {"blue"}, "mood": {"x=y"}}, ""},
		{[]api.QuestionItem{colour, mood}, []string{"blue"}, nil, "the items are colour, mood"},
		{[]api.QuestionItem{mood}, nil, map[string][]string{}, ""},
	} {
		got, err := chat.ParseAnswers(c.items, c.words)
		if c.err != "" {
			require.ErrorContains(t, err, c.err)
			continue
		}
		require.NoError(t, err)
		require.Equal(t, c.want, got)
	}
}

// screen is what the chat has printed, to wait for.
type screen struct {
	mu   sync.Mutex
	text bytes.Buffer
	more chan struct{}
}

func (s *screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.more != nil {
		close(s.more)
		s.more = nil
	}
	return s.text.Write(b)
}

func (s *screen) shows(t *testing.T, text string) {
	t.Helper()
	give := time.After(hang)
	for {
		s.mu.Lock()
		said := s.text.String()
		if s.more == nil {
			s.more = make(chan struct{})
		}
		more := s.more
		s.mu.Unlock()
		if strings.Contains(said, text) {
			return
		}
		select {
		case <-more:
		case <-give:
			require.Fail(t, "it never shows "+text, said)
		}
	}
}

// serve runs a server until it is stopped.
func serve(t *testing.T, data, addr string) (s *local.Server, stop func()) {
	t.Helper()
	s, err := local.Open(t.Context(), local.Config{Addr: addr, Data: data, AllowPrivate: true, Instant: true})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	served := make(chan error, 1)
	go func() { served <- s.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-served; err != nil {
			t.Errorf("the server: %s", err)
		}
		if err := s.Close(); err != nil {
			t.Errorf("the server: %s", err)
		}
	})
	t.Cleanup(stop)
	<-s.Ready()
	return s, stop
}

func TestAChatOutlivesTheServer(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	s, stop := serve(t, data, "127.0.0.1:0")
	addr := s.Addr()
	in, typed := io.Pipe()
	out := &screen{}
	talk := &chat.Chat{Client: client.New(s.URL(), s.Key()), Session: local.DemoSession, In: in, Out: out}
	ended := make(chan error, 1)
	go func() { ended <- talk.Run(t.Context()) }()
	out.shows(t, "? approval_1")
	stop()
	out.shows(t, "the server does not answer")
	serve(t, data, addr)
	out.shows(t, "the server answers again")
	_, err := io.WriteString(typed, "/approve\n")
	require.NoError(t, err)
	out.shows(t, "- run_1 completed")
	require.NoError(t, typed.Close())
	select {
	case err := <-ended:
		require.NoError(t, err)
	case <-time.After(hang):
		require.Fail(t, "the end of the input does not end the chat")
	}
}

func TestAnInterruptEndsAWaitAndThenTheChat(t *testing.T) {
	t.Parallel()
	s, _ := serve(t, t.TempDir(), "127.0.0.1:0")
	c := client.New(s.URL(), s.Key())
	_, err := c.CreateSession(t.Context(), map[string]any{"id": "s", "config": map[string]any{
		"model": map[string]any{"provider": "scripted", "model": "script", "params": map[string]any{"steps": []any{map[string]any{"text": "later", "delayMs": 600_000}}}},
	}})
	require.NoError(t, err)
	in, typed := io.Pipe()
	out, interrupts := &screen{}, make(chan os.Signal)
	ended := make(chan error, 1)
	go func() {
		ended <- (&chat.Chat{Client: c, Session: "s", In: in, Out: out, Interrupts: interrupts}).Run(t.Context())
	}()
	_, err = io.WriteString(typed, "go\n/wait\n")
	require.NoError(t, err)
	out.shows(t, "> go")
	interrupts <- os.Interrupt
	out.shows(t, "- not waiting any more")
	interrupts <- os.Interrupt
	require.NoError(t, <-ended)
	out.shows(t, "run_1 is running and goes on without the chat")
	run, err := c.Run(t.Context(), "s", "run_1", 0)
	require.NoError(t, err)
	require.Equal(t, "running", run.Status)
}
