package scenario

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/session"
)

// verbOpen begins the session. Intake items stand below, as JSON.
//
//	open instructions=(Be brief.) maxTurns=3 window=40/20
func verbOpen(w *world, a *args) string {
	return w.step(a.taker(), &session.OpenSession{Inc: "01INC", Config: a.config(), Asked: a.asked()})
}

// verbConfig replaces the config; if=2 says which revision is expected.
//
//	config if=1 maxTurns=5
func verbConfig(w *world, a *args) string {
	cfg := a.config()
	return w.step(a.taker(), &session.Configure{Config: cfg, IfRevision: a.num("if", -1), Asked: a.asked()})
}

func (a *args) config() session.Config {
	c := session.Config{
		Model:        session.Model{Provider: a.or("provider", "scripted"), Model: a.or("model", "m"), MaxOutput: a.num("maxOutput", 0)},
		Instructions: a.text("instructions"),
		Limits:       a.limits(),
		Approvals:    session.ApprovalPolicy{Default: a.str("approvals")},
	}
	c.Context.Window.MaxMessages, c.Context.Window.Keep = a.marks("window")
	c.Context.Window.MaxTokens = a.num("windowTokens", 0)
	if c.Context.Window.Keep == 0 {
		c.Context.Window.Keep = a.num("keep", 0)
	}
	mode, mark, _ := strings.Cut(a.str("compaction"), "@")
	c.Context.Compaction.Mode = mode
	if mark != "" {
		n, err := strconv.ParseInt(mark, 10, 64)
		require.NoError(a.t, err, a.at)
		c.Context.Compaction.AtTokens = n
	}
	if when := a.str("intake"); when != "" {
		c.Intake = session.Intake{When: when, TTLMs: a.dur("ttl", 0), Items: a.items()}
	}
	return c
}

func (a *args) limits() session.Limits {
	return session.Limits{
		MaxTurns: a.num("maxTurns", 0), MaxToolRounds: a.num("maxToolRounds", 0), MaxTokens: a.num("maxTokens", 0),
		MaxCostMicros: a.num("maxCost", 0), MaxSeconds: a.num("maxSeconds", 0), MaxRepeats: a.num("maxRepeats", 0),
	}
}

// marks reads high/low, as in 40/20.
func (a *args) marks(key string) (high, low int64) {
	h, l, _ := strings.Cut(a.str(key), "/")
	if h != "" {
		n, err := strconv.ParseInt(h, 10, 64)
		require.NoError(a.t, err, a.at)
		high = n
	}
	if l != "" {
		n, err := strconv.ParseInt(l, 10, 64)
		require.NoError(a.t, err, a.at)
		low = n
	}
	return high, low
}

// items reads the questions below.
func (a *args) items() []session.QuestionItem {
	var items []session.QuestionItem
	require.NoError(a.t, json.Unmarshal([]byte(strings.Join(a.input(), "\n")), &items), a.at)
	return items
}
