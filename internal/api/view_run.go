package api

import (
	"strings"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/host"
)

// run projects a run with what belongs to it.
func (v *view) run(r host.RunView) Run {
	out := Run{
		ID: r.ID.String(), SessionID: string(v.key.Session), Status: r.Status, Mode: r.Mode, Input: v.parts(r.Input),
		SubmissionID: string(r.Submission), AcceptedAt: Time(r.AcceptedAt), StartedAt: Time(r.StartedAt), CompletedAt: Time(r.CompletedAt),
		WaitingOn: []WaitingOn{}, Approvals: []Approval{}, Questions: []Question{}, Steering: []Steering{},
		RequestedBy: r.Actor.ID, Via: r.Via, CancelledBy: r.CancelledBy, Usage: runUsage(&r.RunRecord),
	}
	if !r.Output.IsZero() {
		t := v.text(r.Output)
		out.Output = &Output{Text: t.Text, Ref: t.Ref}
		if t.Ref != "" {
			out.Output.Text = v.read(r.Output, textMax)
		}
	}
	if r.Failure != nil {
		out.Failure = failureOf(r.Failure)
	}
	for _, w := range r.WaitingOn {
		out.WaitingOn = append(out.WaitingOn, WaitingOn{Kind: w.Kind, ID: w.ID, Since: Time(w.Since), Until: Time(w.Until)})
	}
	for _, a := range r.Approvals {
		out.Approvals = append(out.Approvals, v.approval(a))
	}
	for _, q := range r.Questions {
		out.Questions = append(out.Questions, v.question(q))
	}
	for _, st := range r.Steering {
		out.Steering = append(out.Steering, v.steering(st))
	}
	return out
}

// failureOf shows amounts of money in dollars, whatever they are counted in.
func failureOf(f *host.Failure) *Failure {
	out := &Failure{Kind: f.Kind, Message: f.Message, Limit: f.Limit}
	if f.Limit == "" {
		return out
	}
	out.Value, out.Used = number(f.Value), number(f.Used)
	if strings.Contains(f.Limit, "Cost") || strings.Contains(f.Limit, "cost") {
		out.Limit = "maxCostUsd"
		out.Value, _ = USD(f.Value).MarshalJSON()
		out.Used, _ = USD(f.Used).MarshalJSON()
	}
	return out
}

func runUsage(r *host.RunRecord) RunUsage {
	u := r.Usage
	out := RunUsage{
		InputTokens: u.Input, OutputTokens: u.Output, CacheReadTokens: u.CacheRead, CacheWriteTokens: u.CacheWrite, CostUSD: cost(u.Usage),
		ModelCalls: u.ModelCalls, ToolCalls: u.ToolCalls, ContextTokens: u.Context, Complete: u.Unreported == 0 && !u.Estimated,
	}
	if r.CompletedAt != 0 && r.StartedAt != 0 {
		out.DurationMs = int64(r.CompletedAt - r.StartedAt)
	}
	return out
}

func (v *view) steering(r host.SteerRecord) Steering {
	out := Steering{ID: r.ID.String(), Text: v.plain(r.Text), Status: r.Status}
	if r.Turn != 0 {
		out.Turn = r.Turn.String()
	}
	if r.Next != 0 {
		out.Run = r.Next.String()
	}
	return out
}

func (v *view) approval(a host.ApprovalRecord) Approval {
	return Approval{
		ID: a.ID.String(), SessionID: string(v.key.Session), RunID: a.Run.String(), CallID: a.Call.String(), Tool: a.Tool, Kind: a.Why,
		Arguments: v.json(a.Arguments), Status: a.Status, RequestedAt: Time(a.RequestedAt), ExpiresAt: Time(a.ExpiresAt),
		Role: a.Role, Remember: a.Remember, DecidedAt: Time(a.DecidedAt), DecidedBy: a.By, DecidedVia: a.Decided, Via: a.Via, Note: a.Note,
		EditedArguments: v.json(a.Edited),
	}
}

func (v *view) question(q host.QuestionRecord) Question {
	out := Question{
		ID: q.ID.String(), SessionID: string(v.key.Session), RunID: q.Run.String(), Source: q.Source, Items: itemsOfQuestion(q.Items), Status: q.Status,
		RequestedAt: Time(q.RequestedAt), ExpiresAt: Time(q.ExpiresAt), AnsweredAt: Time(q.SettledAt), AnsweredBy: q.By, Via: q.Via,
	}
	if q.Call != (ident.CallID{}) && q.Call.Index != 0 {
		out.CallID = q.Call.String()
	}
	for _, a := range q.Answers {
		if out.Answers == nil {
			out.Answers = map[string][]string{}
		}
		out.Answers[a.Item] = append([]string{}, a.Values...)
		if a.Defaulted {
			out.Defaulted = append(out.Defaulted, a.Item)
		}
	}
	return out
}

func itemsOfQuestion(items []host.QuestionItem) []QuestionItem {
	out := make([]QuestionItem, 0, len(items))
	for _, it := range items {
		q := QuestionItem{ID: it.ID, Prompt: it.Prompt, Multiple: it.Multiple, FreeText: it.FreeText, Defaults: append([]string{}, it.Defaults...)}
		for _, o := range it.Options {
			q.Options = append(q.Options, QuestionOption{Value: o.Value, Label: o.Label})
		}
		out = append(out, q)
	}
	return out
}

// call projects a tool call. Its kind is that of the offer in force, which
// still has it unless the tool is gone.
func (v *view) call(st *host.State, c host.CallView) ToolCall {
	out := ToolCall{
		ID: c.ID.String(), RunID: c.Run.String(), Turn: c.ID.Turn.String(), Tool: c.Called.Tool, Arguments: v.json(c.Called.Arguments),
		Status: c.Status, Effects: []ToolEffect{}, Attempts: c.Attempts, StartedAt: Time(c.StartedAt), CompletedAt: Time(c.CompletedAt),
	}
	if def := st.Toolset.Find(c.Called.Tool); def != nil {
		out.Kind = def.Kind
	}
	if c.Edited != nil {
		out.EditedArguments = v.json(c.Edited.Edited)
	}
	if c.Approval != 0 {
		out.ApprovalID = c.Approval.String()
	}
	if c.Promise != 0 {
		out.PromiseID = c.Promise.String()
	}
	if c.Question != 0 {
		out.QuestionID = c.Question.String()
	}
	if e := c.Completed; e != nil {
		out.Result, out.Error = v.text(e.Result), v.text(e.Error)
		out.DurationMs, out.OutputBytes, out.Truncated = e.DurationMs, e.OutputBytes, e.Truncated
		for _, f := range e.Effects {
			out.Effects = append(out.Effects, ToolEffect{Kind: f.Kind, Subject: f.Subject, Detail: f.Detail})
		}
	}
	return out
}

func (v *view) promise(p host.PromiseRecord) Promise {
	out := Promise{
		ID: p.ID.String(), CallID: ident.CallID{Turn: p.Turn, Index: p.Call}.String(), Tool: p.Tool, Source: p.Source, Status: p.Status,
		CreatedAt: Time(p.At), Deadline: Time(p.Deadline), Value: v.text(p.Value), Error: v.text(p.Error),
	}
	if p.Run != 0 {
		out.RunID = p.Run.String()
	}
	return out
}

// entries projects the window as the model reads it.
func (v *view) entries(st *host.State) []ContextEntry {
	out := make([]ContextEntry, 0, entryCount(st))
	for _, group := range [...][]host.ContextEntry{st.Context.Instructions, st.Context.Lead, st.Context.Entries} {
		for i := range group {
			out = append(out, v.entry(&group[i]))
		}
	}
	return out
}

func (v *view) entry(e *host.ContextEntry) ContextEntry {
	out := ContextEntry{
		ID: e.ID.String(), Key: e.Key, Role: e.Role, Source: e.Source, Text: v.text(e.Text),
		Partial: e.Partial, Redacted: e.Redacted, Tokens: e.Tokens,
	}
	if len(e.Parts) > 0 {
		out.Parts = v.parts(e.Parts)
	}
	if e.Run != 0 {
		out.RunID = e.Run.String()
	}
	if e.Turn != 0 {
		out.TurnID = e.Turn.String()
	}
	for _, c := range e.Calls {
		out.Calls = append(out.Calls, ContextCall{ID: ident.CallID{Turn: e.Turn, Index: c.Index}.String(), Tool: c.Tool, Arguments: v.json(c.Arguments)})
	}
	for _, r := range e.Results {
		out.Results = append(out.Results, ContextResult{ID: ident.CallID{Turn: e.Turn, Index: r.Index}.String(), Status: r.Status, Text: v.text(r.Text), Error: r.Error})
	}
	return out
}
