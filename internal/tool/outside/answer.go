package outside

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/internal/host"
	"github.com/perdure/perdure/internal/tool"
)

// Answers turns what a tool has answered into results. Whatever is wrong with an
// answer, the other side has done what it was going to do: so it is a result,
// which says so, and no fault.
type Answers struct {
	// Who answers, for messages: "the tool's server".
	Who string
	// Result is what a result must fit, if it must.
	Result *tool.Schema
}

// Bad is the result of an answer that cannot be used.
func (a Answers) Bad(why string) host.ToolResult {
	return tool.Failed(a.Who + " answered, but " + why + "; the work may have been done")
}

// Value is the result that a JSON value stands for: a text as it is, anything
// else as its JSON. effects is the member of that name, nil if it has none.
func (a Answers) Value(value, effects any) host.ToolResult {
	list, err := effectsOf(effects)
	if err != nil {
		return a.badEffects()
	}
	if a.Result != nil {
		if wrong := a.Result.Check(value); wrong != nil {
			return a.Bad("its result does not fit the tool's resultSchema: " + wrong.Text())
		}
	}
	text, ok := value.(string)
	if !ok {
		text = tool.Canonical(value)
	}
	return host.ToolResult{Text: text, Effects: list}
}

// Problem is the result of a tool that says it failed.
func (a Answers) Problem(problem, effects any) host.ToolResult {
	list, err := effectsOf(effects)
	if err != nil {
		return a.badEffects()
	}
	text, ok := problem.(string)
	if !ok || text == "" {
		return a.Bad(`its "error" is no text`)
	}
	return host.ToolResult{Text: blob.Cut(text, session.ErrorTextMax), Error: true, Effects: list}
}

func (a Answers) badEffects() host.ToolResult {
	return a.Bad("its effects are no list of {kind, subject, detail}")
}

func effectsOf(v any) ([]session.ToolEffect, error) {
	if v == nil {
		return nil, nil
	}
	var effects []session.ToolEffect
	if err := json.Unmarshal([]byte(tool.Canonical(v)), &effects); err != nil {
		return nil, fmt.Errorf("effects: %w", err)
	}
	for _, e := range effects {
		if e.Kind == "" || e.Subject == "" {
			return nil, errors.New("effects: one has no kind or subject")
		}
	}
	return effects, nil
}
