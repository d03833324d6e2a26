package api

import (
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/host"
)

// ownWorkspace is how the session's private workspace is named; stored, it has
// no name.
const ownWorkspace = "~"

// config projects a config so that writing it back changes nothing.
func (v *view) config(c host.Config) Config {
	out := Config{
		Model:        ModelConfig{Provider: c.Model.Provider, Model: c.Model.Model, BaseURL: c.Model.BaseURL, Params: Object(c.Model.Params)},
		Instructions: v.read(c.Instructions, BodyMax*3),
		Tools:        []ToolGrant{},
		Limits:       limitsOf(c.Limits),
		Context:      ContextConfig{Compaction: &Compaction{Mode: c.Context.Compaction.Mode, AtTokens: c.Context.Compaction.AtTokens}},
		Approvals:    ApprovalPolicy{Default: c.Approvals.Default},
	}
	for _, g := range c.Tools {
		out.Tools = append(out.Tools, ToolGrant{Name: g.Name, Options: Object(g.Options)})
	}
	if len(c.Workspaces) > 0 {
		out.Workspaces = workspacesOf(c.Workspaces)
	}
	if w := c.Context.Window; w != (host.Window{}) {
		out.Context.Window = &Window{MaxMessages: w.MaxMessages, MaxTokens: w.MaxTokens, Keep: w.Keep}
	}
	for _, r := range c.Approvals.Tools {
		if out.Approvals.Tools == nil {
			out.Approvals.Tools = map[string]ApprovalRule{}
		}
		rule := ApprovalRule{Role: r.Role, TTLSeconds: r.TTLMs / ident.Second, Remember: r.Remember}
		if r.Require != "" {
			yes := r.Require == requireYes
			rule.Require = &yes
		}
		out.Approvals.Tools[r.Tool] = rule
	}
	if !c.Intake.IsZero() {
		out.Intake = &Intake{When: c.Intake.When, Items: itemsOfQuestion(c.Intake.Items), TTLSeconds: c.Intake.TTLMs / ident.Second}
	}
	return out
}

const (
	requireYes = "yes"
	requireNo  = "no"
)

func limitsOf(l host.Limits) Limits {
	repeats := max(l.MaxRepeats, 0)
	out := Limits{MaxTurns: l.MaxTurns, MaxToolRounds: l.MaxToolRounds, MaxTokens: l.MaxTokens, MaxSeconds: l.MaxSeconds, MaxRepeats: &repeats}
	if l.MaxCostMicros > 0 {
		c := USD(l.MaxCostMicros)
		out.MaxCostUSD = &c
	}
	return out
}

// workspacesOf shows the private workspace where none is named.
func workspacesOf(ws []host.Workspace) []Workspace {
	if len(ws) == 0 {
		return []Workspace{{Name: ownWorkspace, Access: "write"}}
	}
	out := make([]Workspace, 0, len(ws))
	for _, w := range ws {
		name := w.Name
		if name == "" {
			name = ownWorkspace
		}
		out = append(out, Workspace{Name: name, Access: w.Access})
	}
	return out
}

// toHost reads a config that a client wrote. Long instructions go to the spill.
func (c *Config) toHost(sp *host.Spill, to *host.Config) error {
	if err := checkBaseURL(c.Model.BaseURL); err != nil {
		return err
	}
	limits, err := c.Limits.toHost("body.config.limits")
	if err != nil {
		return err
	}
	approvals, err := c.Approvals.toHost()
	if err != nil {
		return err
	}
	*to = host.Config{
		Model: host.Model{
			Provider: c.Model.Provider, Model: c.Model.Model, BaseURL: c.Model.BaseURL, Params: paramsText(c.Model.Params), MaxOutput: maxOutput(c.Model.Params),
		},
		Limits: limits, Approvals: approvals,
	}
	sp.Text(&to.Instructions, c.Instructions)
	if to.Tools, err = grants(c.Tools); err != nil {
		return err
	}
	if to.Workspaces, err = workspaces(c.Workspaces, "body.config.workspaces"); err != nil {
		return err
	}
	if w := c.Context.Window; w != nil {
		to.Context.Window = host.Window{MaxMessages: w.MaxMessages, MaxTokens: w.MaxTokens, Keep: w.Keep}
	}
	if k := c.Context.Compaction; k != nil {
		to.Context.Compaction = host.Compaction{Mode: k.Mode, AtTokens: k.AtTokens}
	}
	if c.Intake != nil {
		to.Intake = host.Intake{When: c.Intake.When, TTLMs: c.Intake.TTLSeconds * ident.Second, Items: questionItems(c.Intake.Items)}
	}
	return nil
}

func questionItems(items []QuestionItem) []host.QuestionItem {
	out := make([]host.QuestionItem, 0, len(items))
	for _, it := range items {
		q := host.QuestionItem{ID: it.ID, Prompt: it.Prompt, Multiple: it.Multiple, FreeText: it.FreeText, Defaults: it.Defaults}
		for _, o := range it.Options {
			q.Options = append(q.Options, host.Option{Value: o.Value, Label: o.Label})
		}
		out = append(out, q)
	}
	return out
}

func paramsText(p Object) string {
	if len(p) <= len("{}") {
		return ""
	}
	return string(p)
}

// maxOutput is the longest answer that params ask for, by the names that
// providers have for it.
func maxOutput(params Object) int64 {
	var fields map[string]json.RawMessage
	if len(params) == 0 || json.Unmarshal(params, &fields) != nil {
		return 0
	}
	for _, name := range []string{"max_tokens", "max_completion_tokens", "max_output_tokens", "maxTokens", "maxCompletionTokens", "maxOutputTokens"} {
		n, err := strconv.ParseInt(string(fields[name]), 10, 64)
		if err == nil && n > 0 {
			return n
		}
	}
	return 0
}

// toHost reads limits. What is left out stays 0, which the core reads as none
// or as its default.
func (l *Limits) toHost(at string) (host.Limits, error) {
	out := host.Limits{MaxTurns: l.MaxTurns, MaxToolRounds: l.MaxToolRounds, MaxTokens: l.MaxTokens, MaxSeconds: l.MaxSeconds}
	if l.MaxCostUSD != nil {
		if *l.MaxCostUSD == 0 {
			return out, unfit(at+".maxCostUsd", "it must be more than nothing")
		}
		out.MaxCostMicros = int64(*l.MaxCostUSD)
	}
	if l.MaxRepeats != nil {
		if out.MaxRepeats = *l.MaxRepeats; out.MaxRepeats == 0 {
			out.MaxRepeats = -1
		}
	}
	return out, nil
}

func (a *ApprovalPolicy) toHost() (host.ApprovalPolicy, error) {
	out := host.ApprovalPolicy{Default: a.Default}
	for tool, r := range a.Tools {
		if _, err := ident.ParseName("tool", strings.TrimSuffix(tool, ".*")); err != nil {
			return out, unfit("body.config.approvals.tools.*", "the key is a tool's name, or prefix.*")
		}
		rule := host.ApprovalRule{Tool: tool, Role: r.Role, TTLMs: r.TTLSeconds * ident.Second, Remember: r.Remember}
		if r.Require != nil {
			rule.Require = requireNo
			if *r.Require {
				rule.Require = requireYes
			}
		}
		out.Tools = append(out.Tools, rule)
	}
	slices.SortFunc(out.Tools, func(a, b host.ApprovalRule) int { return strings.Compare(a.Tool, b.Tool) })
	return out, nil
}

func grants(in []ToolGrant) ([]host.ToolGrant, error) {
	var out []host.ToolGrant
	for i, g := range in {
		if slices.ContainsFunc(out, func(o host.ToolGrant) bool { return o.Name == g.Name }) {
			return nil, unfit("body.config.tools["+strconv.Itoa(i)+"]", "the name is there twice")
		}
		out = append(out, host.ToolGrant{Name: g.Name, Options: string(g.Options)})
	}
	return out, nil
}

func workspaces(in []Workspace, at string) ([]host.Workspace, error) {
	var out []host.Workspace
	for i, w := range in {
		name := w.Name
		if name == ownWorkspace {
			name = ""
		}
		here := at + "[" + strconv.Itoa(i) + "].name"
		if name != "" {
			if _, err := ident.ParseName("workspace name", name); err != nil {
				return nil, unfit(here, "letters, digits and, after the first, _ . : -; ~ is the session's own")
			}
		}
		if slices.ContainsFunc(out, func(o host.Workspace) bool { return o.Name == name }) {
			return nil, unfit(here, "the name is there twice")
		}
		out = append(out, host.Workspace{Name: name, Access: w.Access})
	}
	return out, nil
}

func checkBaseURL(text string) error {
	if text == "" {
		return nil
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return unfit("body.config.model.baseUrl", "an http or https URL without credentials, query or fragment")
	}
	return nil
}

// toHost reads what one run changes.
func (c *RunConfig) toHost() (host.RunConfig, error) {
	var out host.RunConfig
	if c == nil {
		return out, nil
	}
	if c.Model != nil {
		out.Provider, out.Model = c.Model.Provider, c.Model.Model
	}
	out.Params, out.MaxOutput = paramsText(c.Params), maxOutput(c.Params)
	if c.Limits != nil {
		var err error
		if out.Limits, err = c.Limits.toHost("body.config.limits"); err != nil {
			return out, err
		}
	}
	return out, nil
}
