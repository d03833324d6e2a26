package host

import (
	"context"
	"slices"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/session"
)

// render builds a turn's request from the state that claimed it. It is a
// function of that state and the blobs that it names: between two recorded
// cuts a request extends the one before it byte for byte (I15).
func (p *performance) render(ctx context.Context, m session.Model, info ModelInfo, defs []definition) (ModelRequest, error) {
	req := ModelRequest{Tenant: p.key.Tenant, Session: p.key.Session, Model: m}
	r := renderer{p: p, ctx: ctx, family: info.Family}
	req.Instructions = r.instructions()
	req.Tools = make([]ModelTool, len(defs))
	for i, d := range defs {
		req.Tools[i] = ModelTool{WireName: d.WireName, Description: d.Description, Parameters: d.Parameters}
	}
	req.Messages = r.window()
	return req, r.err
}

// window renders the window through the turn's last entry. What an earlier
// turn has rendered is taken as it is: entries are never changed, and the
// window is the same slice until something is cut or edited, so only what has
// come since is rendered and read.
func (r *renderer) window() []ModelMessage {
	c := &r.p.s.Context
	w := r.p.rendered
	if w == nil || !w.fits(c, r.family) {
		w = &rendering{family: r.family, seen: map[string]bool{}}
		if len(c.Lead) > 0 {
			w.lead = &c.Lead[0]
		}
		if len(c.Entries) > 0 {
			w.first = &c.Entries[0]
		}
		r.w = w
		w.messages = r.messages(nil, c.Lead)
	}
	r.w = w
	n := w.entries
	for n < len(c.Entries) && c.Entries[n].ID <= r.p.s.Active.Turn.Through {
		n++
	}
	w.messages = r.messages(w.messages, c.Entries[w.entries:n])
	w.entries = n
	if r.err != nil {
		r.p.rendered = nil
		return nil
	}
	r.p.rendered = w
	return slices.Clip(w.messages)
}

// rendering is a window rendered so far. One model call of a session is under
// way at a time, and it alone has it.
type rendering struct {
	family   string
	lead     *session.ContextEntry
	first    *session.ContextEntry
	entries  int // of the window that are rendered
	messages []ModelMessage
	seen     map[string]bool // provider ids of calls so far
}

// fits says that the window has only grown: its slices begin where they did.
func (w *rendering) fits(c *session.Context, family string) bool {
	return w.family == family && len(c.Entries) >= w.entries && w.entries > 0 && w.first == &c.Entries[0] &&
		(w.lead == nil) == (len(c.Lead) == 0) && (w.lead == nil || w.lead == &c.Lead[0])
}

// renderer resolves entries to messages; the first error sticks.
type renderer struct {
	p      *performance
	ctx    context.Context //nolint:containedctx // lives for one rendering
	family string
	w      *rendering
	err    error
}

func (r *renderer) text(p blob.Payload, limit int) string {
	if r.err != nil {
		return ""
	}
	t, err := r.p.e.resolve(r.ctx, r.p.key, p)
	r.err = err
	if limit > 0 {
		t = blob.Cut(t, limit)
	}
	return t
}

func (r *renderer) instructions() []string {
	var out []string
	s := &r.p.s
	if !s.Config.Instructions.IsZero() {
		out = append(out, r.text(s.Config.Instructions, 0))
	}
	for i := range s.Context.Instructions {
		for _, part := range s.Context.Instructions[i].Parts {
			out = append(out, r.text(part.Text, 0))
		}
	}
	return out
}

// messages renders entries behind those that are there.
func (r *renderer) messages(out []ModelMessage, entries []session.ContextEntry) []ModelMessage {
	for i := range entries {
		e := &entries[i]
		switch e.Role {
		case session.RoleAssistant:
			out = append(out, r.assistant(e))
		case session.RoleResults:
			var asked *ModelMessage
			if len(out) > 0 {
				asked = &out[len(out)-1]
			}
			out = append(out, r.results(e, asked))
		default:
			out = append(out, r.user(e))
		}
	}
	return out
}

// summaryLead tells the model what a summary is.
const summaryLead = "[Earlier messages of this conversation are represented by this summary.]\n"

func (r *renderer) user(e *session.ContextEntry) ModelMessage {
	m := ModelMessage{Role: RoleUser}
	for _, part := range e.Parts {
		if part.Blob == "" {
			t := r.text(part.Text, 0)
			if e.Source == session.FromSummary {
				t = summaryLead + t
			}
			m.Parts = append(m.Parts, ModelPart{Text: t})
			continue
		}
		if r.err != nil {
			break
		}
		data, err := r.p.e.d.Blobs.GetBlob(r.ctx, r.p.key, part.Blob)
		r.err = err
		m.Parts = append(m.Parts, ModelPart{Data: data, MediaType: part.MediaType, Name: part.Name})
	}
	return m
}

func (r *renderer) assistant(e *session.ContextEntry) ModelMessage {
	m := ModelMessage{Role: RoleAssistant, Text: r.text(e.Text, 0)}
	for _, c := range e.Calls {
		id := ident.CallID{Turn: e.Turn, Index: c.Index}
		// The provider's id is data: one that is missing or comes twice is
		// replaced by ours, so that every result finds its call.
		name := c.ProviderID
		if name == "" || r.w.seen[name] {
			name = id.String()
		}
		r.w.seen[name] = true
		m.Calls = append(m.Calls, ModelCall{ID: name, Name: c.WireName, Arguments: r.text(c.Arguments, 0)})
	}
	if e.Item != nil && e.Item.Family == r.family && r.family != "" {
		m.Item = &ModelItem{Kind: e.Item.Kind, Family: e.Item.Family, Data: r.text(e.Item.Data, 0)}
	}
	return m
}

// results answers the calls of the message before it, which stand in the same
// order.
func (r *renderer) results(e *session.ContextEntry, asked *ModelMessage) ModelMessage {
	m := ModelMessage{Role: RoleTool, Results: make([]ModelToolResult, len(e.Results))}
	for i, res := range e.Results {
		out := ModelToolResult{Text: r.text(res.Text, session.ToolTextMax), Error: res.Error}
		if asked != nil && i < len(asked.Calls) {
			out.ID, out.Name = asked.Calls[i].ID, asked.Calls[i].Name
		}
		if !res.Edited.IsZero() {
			// The model's own words stay; the result says what a person made
			// of them, so that the model does not ask for the original again.
			out.Text = "[A person changed the arguments of this call before approving it. It ran with: " +
				r.text(res.Edited, blob.InlineMax) + "]\n" + out.Text
		}
		m.Results[i] = out
	}
	return m
}

// compactPrompt asks for a summary. It is part of no request of a turn.
const compactPrompt = "Summarise the conversation above for yourself: you will go on from the summary alone. " +
	"Keep what was asked and is not done yet, decisions and their reasons, facts, names, ids, file paths, numbers, constraints, " +
	"and what tools have done. Leave out what no longer matters. Answer with the summary only."

// compact makes a summary of the oldest entries: a model call like any other,
// without tools.
func (p *performance) compact(ctx context.Context, eff *session.Compact) *outcome {
	out := &session.CompactionOutcome{Through: eff.Through, Attempt: eff.Attempt}
	var sp Spill
	res, info, err := p.summarise(ctx)
	out.DurationMs = max(int64(p.e.Now()-p.began), 0)
	if err != nil {
		out.Fault, out.Aborted = p.fault(ctx, err)
		out.Usage = price(usageOf(err), info)
		return &outcome{Prepared: sp.Prepare(out)}
	}
	out.Usage = price(res.Usage, info)
	sp.Text(&out.Summary, res.Text)
	return &outcome{Prepared: sp.Prepare(out)}
}

func (p *performance) summarise(ctx context.Context) (ModelResult, ModelInfo, error) {
	m := p.s.Context.Compaction.Model
	port, err := p.e.d.Models.Model(ctx, p.key.Tenant, m)
	if err != nil {
		return ModelResult{}, ModelInfo{}, noProvider(m, err)
	}
	info := port.Info(m)
	r := renderer{p: p, ctx: ctx, family: info.Family, w: &rendering{seen: map[string]bool{}}}
	lead, entries := p.s.Covered()
	plan := p.s.Context.Compaction
	req := ModelRequest{
		Tenant: p.key.Tenant, Session: p.key.Session, Model: m, NoTools: true,
		Attempt: "compact/" + plan.Through.String() + "/" + uitoa(uint64(plan.Attempt)),
	}
	req.Instructions = r.instructions()
	req.Messages = r.messages(r.messages(nil, lead), entries)
	req.Messages = append(req.Messages, ModelMessage{Role: RoleUser, Parts: []ModelPart{{Text: compactPrompt}}})
	if r.err != nil {
		return ModelResult{}, info, local(r.err)
	}
	res, err := port.Generate(ctx, req, func(Delta) {})
	return res, info, err
}
