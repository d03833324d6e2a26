package session

import (
	"slices"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/ident"
)

// Config is a session's setup, stored whole and replaced whole. Defaults are
// written into it when it is admitted, so that a later build's defaults do not
// change what an old session does.
type Config struct {
	Model        Model          `json:"model"`
	Instructions blob.Payload   `json:"instructions,omitzero"`
	Tools        []ToolGrant    `json:"tools,omitempty"`
	Workspaces   []Workspace    `json:"workspaces,omitempty"`
	Limits       Limits         `json:"limits"`
	Context      ContextConfig  `json:"context"`
	Approvals    ApprovalPolicy `json:"approvals"`
	Intake       Intake         `json:"intake,omitzero"`
}

// Model says which model answers. Params is a JSON object in its own bytes,
// which this package never reads; MaxOutput repeats what it says of the
// longest answer, in tokens, for the limits.
type Model struct {
	Provider  string `json:"provider"`
	Model     string `json:"model"`
	BaseURL   string `json:"baseUrl,omitempty"`
	Params    string `json:"params,omitempty"`
	MaxOutput int64  `json:"maxOutput,omitempty"`
}

// ToolGrant names tools that the model may be offered: a name or a prefix.*
// pattern. Options is a JSON object in its own bytes.
type ToolGrant struct {
	Name    string `json:"name"`
	Options string `json:"options,omitempty"`
}

// Workspace is a folder tree that the file tools see. An empty Name is the
// session's private one.
type Workspace struct {
	Name   string `json:"name"`
	Access string `json:"access"` // read or write
}

// Limits bound one run. 0 is "no limit" but for MaxTurns, which then has its
// default; MaxRepeats is -1 for off.
type Limits struct {
	MaxTurns      int64 `json:"maxTurns"`
	MaxToolRounds int64 `json:"maxToolRounds,omitempty"`
	MaxTokens     int64 `json:"maxTokens,omitempty"`
	MaxCostMicros int64 `json:"maxCostMicros,omitempty"` // millionths of a US dollar
	MaxSeconds    int64 `json:"maxSeconds,omitempty"`
	MaxRepeats    int64 `json:"maxRepeats"`
}

// ContextConfig bounds the window of a model request.
type ContextConfig struct {
	Window     Window     `json:"window,omitzero"`
	Compaction Compaction `json:"compaction"`
}

// Window cuts the oldest entries off when one of the high marks is passed.
// Keep is the low mark: in messages when MaxMessages is set, else in tokens;
// with both set the low mark in tokens is the same share of MaxTokens.
type Window struct {
	MaxMessages int64 `json:"maxMessages,omitempty"`
	MaxTokens   int64 `json:"maxTokens,omitempty"`
	Keep        int64 `json:"keep,omitempty"`
}

// Compaction replaces the oldest entries by a summary. Mode is auto, manual or
// off; AtTokens is the high mark of auto (0: 80 % of the model's input limit,
// where that is known).
type Compaction struct {
	Mode     string `json:"mode"`
	AtTokens int64  `json:"atTokens,omitempty"`
}

// Compaction modes.
const (
	CompactAuto   = "auto"
	CompactManual = "manual"
	CompactOff    = "off"
)

// ApprovalPolicy decides which calls ask a person first. Default is action
// (tools of kind action ask), always or never; the longest matching rule wins.
type ApprovalPolicy struct {
	Default string         `json:"default"`
	Tools   []ApprovalRule `json:"tools,omitempty"`
}

// ApprovalRule is the policy for a tool name or a prefix.* pattern. Require is
// yes, no or empty (as the default says).
type ApprovalRule struct {
	Tool     string `json:"tool"`
	Require  string `json:"require,omitempty"`
	Role     string `json:"role,omitempty"`
	TTLMs    int64  `json:"ttlMs,omitempty"`
	Remember bool   `json:"remember,omitempty"`
}

// Intake is a set of questions that a run asks before its first model call:
// once a session (until it has answered), or every run.
type Intake struct {
	When  string         `json:"when"` // session or run
	Items []QuestionItem `json:"items,omitempty"`
	TTLMs int64          `json:"ttlMs,omitempty"`
}

// IsZero reports that there is no intake.
func (i Intake) IsZero() bool { return len(i.Items) == 0 }

// QuestionItem is one thing asked of a person. Defaults are what counts when
// nobody says otherwise.
type QuestionItem struct {
	ID       string   `json:"id"`
	Prompt   string   `json:"prompt"`
	Options  []Option `json:"options,omitempty"`
	Multiple bool     `json:"multiple,omitempty"`
	FreeText bool     `json:"freeText,omitempty"`
	Defaults []string `json:"defaults,omitempty"`
}

// Option is one answer to pick. The model reads the label, programs the value.
type Option struct {
	Value string `json:"value"`
	Label string `json:"label"`
}

// RunConfig is what one run may change. Zero fields leave the session's.
type RunConfig struct {
	Provider  string `json:"provider,omitempty"`
	Model     string `json:"model,omitempty"`
	Params    string `json:"params,omitempty"`
	MaxOutput int64  `json:"maxOutput,omitempty"`
	Limits    Limits `json:"limits,omitzero"`
}

// WithDefaults fills in what the document leaves open.
func (c Config) WithDefaults() Config {
	if c.Limits.MaxTurns == 0 {
		c.Limits.MaxTurns = DefaultTurns
	}
	if c.Limits.MaxRepeats == 0 {
		c.Limits.MaxRepeats = DefaultRepeats
	}
	if c.Context.Compaction.Mode == "" {
		c.Context.Compaction.Mode = CompactAuto
	}
	if w := &c.Context.Window; w.Keep == 0 {
		w.Keep = (w.MaxMessages + 1) / 2
		if w.MaxMessages == 0 {
			w.Keep = (w.MaxTokens + 1) / 2
		}
	}
	if c.Approvals.Default == "" {
		c.Approvals.Default = "action"
	}
	return c
}

// merge is the config of one run: the session's with what the run changes.
func (c Config) merge(r RunConfig) (Model, Limits) {
	m, l := c.Model, c.Limits
	if r.Provider != "" && r.Provider != m.Provider {
		m = Model{Provider: r.Provider, Model: r.Model, Params: r.Params, MaxOutput: r.MaxOutput}
	}
	if r.Model != "" {
		m.Model = r.Model
	}
	if r.Params != "" {
		m.Params, m.MaxOutput = r.Params, r.MaxOutput
	}
	set := func(to *int64, from int64) {
		if from != 0 {
			*to = from
		}
	}
	set(&l.MaxTurns, r.Limits.MaxTurns)
	set(&l.MaxToolRounds, r.Limits.MaxToolRounds)
	set(&l.MaxTokens, r.Limits.MaxTokens)
	set(&l.MaxCostMicros, r.Limits.MaxCostMicros)
	set(&l.MaxSeconds, r.Limits.MaxSeconds)
	set(&l.MaxRepeats, r.Limits.MaxRepeats)
	return m, l
}

// equal compares two documents field by field.
func (c Config) equal(o Config) bool {
	return c.Model == o.Model && c.Instructions.Content() == o.Instructions.Content() &&
		slices.Equal(c.Tools, o.Tools) && slices.Equal(c.Workspaces, o.Workspaces) &&
		c.Limits == o.Limits && c.Context == o.Context &&
		c.Approvals.Default == o.Approvals.Default && slices.Equal(c.Approvals.Tools, o.Approvals.Tools) &&
		c.Intake.When == o.Intake.When && c.Intake.TTLMs == o.Intake.TTLMs &&
		slices.EqualFunc(c.Intake.Items, o.Intake.Items, equalItem)
}

func equalItem(a, b QuestionItem) bool {
	return a.ID == b.ID && a.Prompt == b.Prompt && a.Multiple == b.Multiple && a.FreeText == b.FreeText &&
		slices.Equal(a.Options, b.Options) && slices.Equal(a.Defaults, b.Defaults)
}

// validate says why a document cannot be a session's config.
func (c Config) validate() error {
	oneOf := func(v string, allowed ...string) bool { return slices.Contains(allowed, v) }
	switch {
	case c.Model.Provider == "" || c.Model.Model == "":
		return reject(CodeValidation, "config.model needs a provider and a model")
	case c.Limits.MaxTurns < 1, c.Limits.MaxToolRounds < 0, c.Limits.MaxTokens < 0, c.Limits.MaxSeconds < 0,
		c.Limits.MaxCostMicros < 0, c.Limits.MaxRepeats < -1:
		return reject(CodeValidation, "config.limits has a negative limit")
	case !oneOf(c.Context.Compaction.Mode, CompactAuto, CompactManual, CompactOff):
		return reject(CodeValidation, "config.context.compaction.mode is auto, manual or off")
	case !oneOf(c.Approvals.Default, "action", "always", "never"):
		return reject(CodeValidation, "config.approvals.default is action, always or never")
	case !c.Intake.IsZero() && !oneOf(c.Intake.When, "session", "run"):
		return reject(CodeValidation, "config.intake.when is session or run")
	}
	if w := c.Context.Window; w.MaxMessages < 0 || w.MaxTokens < 0 || w.Keep < 0 ||
		w.MaxMessages > 0 && w.Keep >= w.MaxMessages || w.MaxMessages == 0 && w.MaxTokens > 0 && w.Keep >= w.MaxTokens {
		return reject(CodeValidation, "config.context.window.keep must be below the high mark")
	}
	if len(c.Intake.Items) > 0 {
		return ValidateItems(c.Intake.Items)
	}
	return nil
}

// ValidateItems checks a question: one to five items with unique ids, and each
// with at least one default that is among its options (or free text).
func ValidateItems(items []QuestionItem) error {
	if len(items) == 0 {
		return reject(CodeValidation, "there is no question item")
	}
	if len(items) > ItemsMax {
		return bound("question items", int64(len(items)), ItemsMax)
	}
	seen := make([]string, 0, len(items))
	text := 0
	for _, it := range items {
		text += it.bytes()
		if _, err := ident.ParseName("question item id", it.ID); err != nil {
			return reject(CodeValidation, err.Error())
		}
		if slices.Contains(seen, it.ID) {
			return reject(CodeValidation, "question item "+it.ID+" is there twice")
		}
		seen = append(seen, it.ID)
		if it.Prompt == "" {
			return reject(CodeValidation, "question item "+it.ID+" has no prompt")
		}
		if len(it.Options) == 0 && !it.FreeText {
			return reject(CodeValidation, "question item "+it.ID+" has neither options nor free text")
		}
		if len(it.Defaults) == 0 || !it.Multiple && len(it.Defaults) > 1 {
			return reject(CodeValidation, "question item "+it.ID+" needs a default (one, unless multiple)")
		}
		for _, d := range it.Defaults {
			if !it.FreeText && !it.has(d) {
				return reject(CodeValidation, "question item "+it.ID+" has a default that is no option")
			}
		}
	}
	if text > QuestionTextMax {
		return bound("question bytes", int64(text), QuestionTextMax)
	}
	return nil
}

func (it QuestionItem) bytes() int {
	n := len(it.Prompt)
	for _, o := range it.Options {
		n += len(o.Value) + len(o.Label)
	}
	for _, d := range it.Defaults {
		n += len(d)
	}
	return n
}

func (it QuestionItem) has(value string) bool {
	return slices.ContainsFunc(it.Options, func(o Option) bool { return o.Value == value })
}

// label is what the model reads for a value.
func (it QuestionItem) label(value string) string {
	for _, o := range it.Options {
		if o.Value == value {
			return o.Label
		}
	}
	return value
}
