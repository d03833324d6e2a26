package api

import (
	"bytes"
	"encoding/json"
	"errors"

	"github.com/danielgtaylor/huma/v2"
)

// Config is a session's setup, as clients write and read it.
type Config struct {
	Model        ModelConfig    `json:"model" required:"false" doc:"Left out, a new session has the server's default."`
	Instructions string         `json:"instructions,omitempty" doc:"What the model is told before everything else."`
	Tools        []ToolGrant    `json:"tools" required:"false" maxItems:"256" doc:"Tools that the model may be offered; nothing is granted that is not named."`
	Workspaces   []Workspace    `json:"workspaces,omitempty" maxItems:"16" doc:"Folder trees that the file tools see. None: the session's private one."`
	Limits       Limits         `json:"limits" required:"false"`
	Context      ContextConfig  `json:"context" required:"false"`
	Approvals    ApprovalPolicy `json:"approvals" required:"false"`
	Intake       *Intake        `json:"intake,omitempty" doc:"Questions that are asked before the first model call."`
}

// ModelConfig says which model answers.
type ModelConfig struct {
	Provider string `json:"provider" minLength:"1" maxLength:"128" doc:"Name of one of the tenant's providers."`
	Model    string `json:"model" minLength:"1" maxLength:"256"`
	BaseURL  string `json:"baseUrl,omitempty" maxLength:"2048" doc:"For openai-compatible providers only; no credential is sent there."`
	Params   Object `json:"params,omitempty" doc:"Sent to the provider as they are."`
}

// ToolGrant names tools that the model may be offered: a name or a prefix.*
// pattern, with options of that tool. Its JSON is the bare name, or an object
// of the name and the options.
type ToolGrant struct {
	Name    string
	Options Object // nil: none
}

// MarshalJSON writes the name, or the object.
func (g ToolGrant) MarshalJSON() ([]byte, error) {
	name, err := encode(g.Name)
	if err != nil || len(g.Options) <= len("{}") {
		return name, err
	}
	return append(append(append([]byte(`{"name":`), name...), ','), g.Options[1:]...), nil
}

// UnmarshalJSON reads either form. The options keep their order and bytes.
func (g *ToolGrant) UnmarshalJSON(data []byte) error {
	*g = ToolGrant{}
	if len(data) == 0 || data[0] != '{' {
		return json.Unmarshal(data, &g.Name)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, data); err != nil {
		return err
	}
	dec := json.NewDecoder(&compact)
	if _, err := dec.Token(); err != nil {
		return err
	}
	rest := []byte{'{'}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return err
		}
		name, _ := key.(string)
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return err
		}
		if name == "name" {
			if err := json.Unmarshal(value, &g.Name); err != nil {
				return err
			}
			continue
		}
		quoted, err := encode(name)
		if err != nil {
			return err
		}
		if len(rest) > 1 {
			rest = append(rest, ',')
		}
		rest = append(append(append(rest, quoted...), ':'), value...)
	}
	if g.Name == "" {
		return errors.New("a tool grant needs a name")
	}
	if len(rest) > 1 {
		rest = append(rest, '}')
		g.Options = rest
	}
	return nil
}

// Schema implements huma.SchemaProvider.
func (ToolGrant) Schema(huma.Registry) *huma.Schema {
	withOptions := object(map[string]*huma.Schema{"name": grantName()}, "name")
	withOptions.AdditionalProperties = true
	return &huma.Schema{
		Description: "A name or a prefix.* pattern; with options, an object of the name and the options.",
		OneOf:       []*huma.Schema{grantName(), withOptions},
	}
}

func grantName() *huma.Schema {
	most := 128
	return &huma.Schema{Type: huma.TypeString, Pattern: `^[A-Za-z0-9][A-Za-z0-9_.:-]*(\.\*)?$`, MaxLength: &most}
}

// Workspace is a folder tree that the file tools see. The name ~, or none, is
// the session's private one.
type Workspace struct {
	Name   string `json:"name" required:"false" maxLength:"128"`
	Access string `json:"access" enum:"read,write"`
}

// Limits bound one run. One that is left out does not bound, but for turns (50)
// and repeats (3).
type Limits struct {
	MaxTurns      int64  `json:"maxTurns,omitempty" minimum:"1"`
	MaxToolRounds int64  `json:"maxToolRounds,omitempty" minimum:"1"`
	MaxTokens     int64  `json:"maxTokens,omitempty" minimum:"1"`
	MaxCostUSD    *USD   `json:"maxCostUsd,omitempty"`
	MaxSeconds    int64  `json:"maxSeconds,omitempty" minimum:"1"`
	MaxRepeats    *int64 `json:"maxRepeats,omitempty" minimum:"0" doc:"Failures of the same call in a row after which a run ends; 0 is off."`
}

// ContextConfig bounds what a model request holds.
type ContextConfig struct {
	Window     *Window     `json:"window,omitempty"`
	Compaction *Compaction `json:"compaction,omitempty"`
}

// Window cuts the oldest messages off when a high mark is passed.
type Window struct {
	MaxMessages int64 `json:"maxMessages,omitempty" minimum:"1"`
	MaxTokens   int64 `json:"maxTokens,omitempty" minimum:"1"`
	Keep        int64 `json:"keep,omitempty" minimum:"1" doc:"The low mark, in messages where they are bounded, else in tokens; half of the high mark if left out."`
}

// Compaction replaces the oldest messages by a summary.
type Compaction struct {
	Mode     string `json:"mode,omitempty" enum:"auto,manual,off"`
	AtTokens int64  `json:"atTokens,omitempty" minimum:"1"`
}

// ApprovalPolicy decides which calls ask a person first. The longest matching
// name or prefix.* wins.
type ApprovalPolicy struct {
	Default string                  `json:"default,omitempty" enum:"action,always,never"`
	Tools   map[string]ApprovalRule `json:"tools,omitempty"`
}

// ApprovalRule is the policy for a tool, or for those under a prefix.*.
type ApprovalRule struct {
	Require    *bool  `json:"require,omitempty"`
	Role       string `json:"role,omitempty" maxLength:"128"`
	TTLSeconds int64  `json:"ttlSeconds,omitempty" minimum:"1" maximum:"31536000"`
	Remember   bool   `json:"remember,omitempty"`
}

// Intake is questions that a run asks before its first model call: once a
// session, or every run.
type Intake struct {
	When       string         `json:"when" enum:"session,run"`
	Items      []QuestionItem `json:"items" minItems:"1" maxItems:"5"`
	TTLSeconds int64          `json:"ttlSeconds,omitempty" minimum:"1" maximum:"31536000"`
}

// QuestionItem is one thing asked of a person.
type QuestionItem struct {
	ID       string           `json:"id"`
	Prompt   string           `json:"prompt" minLength:"1" maxLength:"4000"`
	Options  []QuestionOption `json:"options,omitempty" maxItems:"64"`
	Multiple bool             `json:"multiple,omitempty"`
	FreeText bool             `json:"freeText,omitempty"`
	Defaults []string         `json:"defaults" doc:"What counts when nobody says otherwise."`
}

// QuestionOption is one answer to pick. The model reads the label.
type QuestionOption struct {
	Value string `json:"value"`
	Label string `json:"label"`
}

// RunModel is the model of one run: a name at the session's provider, or a
// provider and a name.
type RunModel struct {
	Provider string `json:"provider,omitempty"`
	Model    string `json:"model"`
}

// MarshalJSON writes the bare name where it says all.
func (m RunModel) MarshalJSON() ([]byte, error) {
	if m.Provider == "" {
		return encode(m.Model)
	}
	type plain RunModel
	return encode(plain(m))
}

// UnmarshalJSON reads either form.
func (m *RunModel) UnmarshalJSON(data []byte) error {
	*m = RunModel{}
	if len(data) > 0 && data[0] == '"' {
		return json.Unmarshal(data, &m.Model)
	}
	type plain RunModel
	return json.Unmarshal(data, (*plain)(m))
}

// Schema implements huma.SchemaProvider.
func (RunModel) Schema(huma.Registry) *huma.Schema {
	one, most := 1, 256
	name := &huma.Schema{Type: huma.TypeString, MinLength: &one, MaxLength: &most}
	return &huma.Schema{
		Description: "A model of the session's provider, or a provider and a model.",
		OneOf:       []*huma.Schema{name, object(map[string]*huma.Schema{"provider": name, "model": name}, "model")},
	}
}

// RunConfig is what one run may change of its session's setup.
type RunConfig struct {
	Model  *RunModel `json:"model,omitempty"`
	Params Object    `json:"params,omitempty"`
	Limits *Limits   `json:"limits,omitempty"`
}
