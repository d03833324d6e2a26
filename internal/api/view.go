package api

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/rivo/uniseg"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/host"
)

// textMax is how much of a text an answer carries; beyond it there is a
// reference and a preview.
const textMax = 64 << 10

// view projects one session's records to what clients see. The first error of
// reading a text is kept; whoever shows the view asks for it at the end.
type view struct {
	s   *server
	ctx context.Context //nolint:containedctx // a view lives for one request
	key host.Key
	err error
}

func (s *server) view(ctx context.Context, key host.Key) *view {
	return &view{s: s, ctx: ctx, key: key}
}

// read is a payload's text, at most limit bytes of it.
func (v *view) read(p blob.Payload, limit int) string {
	if p.Ref == "" {
		return blob.Cut(p.Text, limit)
	}
	text, err := v.s.Engine.Resolve(v.ctx, v.key, p, limit)
	if err != nil && v.err == nil {
		v.err = err
	}
	return text
}

// text is a payload as a text or a reference.
func (v *view) text(p blob.Payload) Text {
	if p.Bytes() <= textMax {
		return Text{Text: v.read(p, textMax)}
	}
	return Text{Ref: string(p.Content()), Size: p.Bytes(), Preview: v.read(p, blob.PreviewBytes)}
}

// json is a payload that should be JSON: the value, or a string where it is
// none, or a reference.
func (v *view) json(p blob.Payload) Value {
	if p.IsZero() {
		return nil
	}
	t := v.text(p)
	var out []byte
	var err error
	if t.Ref == "" && json.Valid([]byte(t.Text)) {
		out = []byte(t.Text)
	} else {
		out, err = encode(t)
	}
	if err != nil && v.err == nil {
		v.err = err
	}
	return out
}

func (v *view) parts(in []host.Part) []Part {
	out := make([]Part, 0, len(in))
	for _, p := range in {
		if p.Blob != "" {
			out = append(out, Part{Type: "blob", Ref: string(p.Blob), MediaType: p.MediaType, Name: p.Name})
			continue
		}
		out = append(out, Part{Type: "text", Text: v.text(p.Text)})
	}
	return out
}

// plain is the text of parts, for where only text is shown.
func (v *view) plain(in []host.Part) string {
	var b strings.Builder
	for _, p := range in {
		if p.Blob != "" {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(v.read(p.Text, textMax))
	}
	return blob.Cut(b.String(), textMax)
}

// titleMax is how long a title is, in characters.
const titleMax = 60

// title makes one line of a text, at most titleMax characters, cut where a
// reader sees one character end.
func title(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	n, rest, state := 0, text, -1
	for rest != "" {
		var cluster string
		cluster, rest, _, state = uniseg.FirstGraphemeClusterInString(rest, state)
		n += len([]rune(cluster))
		if n > titleMax {
			return strings.TrimRight(text[:len(text)-len(rest)-len(cluster)], " ")
		}
	}
	return text
}

func quarantineOf(h host.Head) *Quarantine {
	if h.Quarantine == nil {
		return nil
	}
	return &Quarantine{Seq: uint64(h.Quarantine.Seq), Code: h.Quarantine.Code, Detail: h.Quarantine.Detail}
}

func metadataOf(m host.Meta) map[string]string {
	if m.Metadata == nil {
		return map[string]string{}
	}
	return m.Metadata
}

// title is what a session is called in lists: its name, else the beginning of
// its first run's text. A text that did not ride in its event is looked up.
func (v *view) title(m host.Meta, head ident.Seq) string {
	switch {
	case m.Name != "":
		return m.Name
	case m.Title != "" || head <= 1:
		return title(m.Title)
	}
	rec, err := v.s.Engine.RunRow(v.ctx, v.key, 1)
	if err != nil {
		if !notFound(err) && v.err == nil {
			v.err = err
		}
		return ""
	}
	const enough = 1024 // bytes; sixty characters have fewer
	for _, p := range rec.Input {
		if p.Blob == "" {
			return title(v.read(p.Text, enough))
		}
	}
	return ""
}

func deleteAt(m host.Meta) Time {
	if m.DeleteAfterDays == nil || m.ClosedAt == 0 {
		return 0
	}
	return Time(m.ClosedAt.Add(*m.DeleteAfterDays * ident.Day))
}

func (v *view) summary(l host.Listed) SessionSummary {
	m := l.Meta
	out := SessionSummary{
		ID: string(l.Session), Name: m.Name, Title: v.title(m, l.Head.Seq), Status: m.Status, Activity: m.Activity,
		CreatedAt: Time(m.CreatedAt), UpdatedAt: Time(m.UpdatedAt), ClosedAt: Time(m.ClosedAt), Metadata: metadataOf(m),
		Model: m.Model, Head: uint64(l.Head.Seq), DeleteAfterCloseDays: m.DeleteAfterDays, DeleteAt: deleteAt(m),
		Quarantine: quarantineOf(l.Head),
	}
	if out.Quarantine != nil {
		out.Activity = "quarantined"
	}
	return out
}

// session projects a session whole.
func (v *view) session(d *host.Done) (Session, error) {
	st, m := &d.State, d.Meta
	out := Session{
		ID: string(v.key.Session), Name: m.Name, Title: v.title(m, d.Head.Seq), Status: d.Head.Status, Activity: d.Activity(),
		CreatedAt: Time(m.CreatedAt), UpdatedAt: Time(m.UpdatedAt), ClosedAt: Time(m.ClosedAt), Metadata: metadataOf(m),
		Config: v.config(st.Config), ConfigRevision: st.ConfigRevision, Head: uint64(d.Head.Seq),
		QueuedRuns: []Run{}, Remembered: []Remembered{}, Workspaces: workspacesOf(st.Config.Workspaces),
		Context:              ContextSummary{Revision: st.Context.Revision, Tokens: st.Context.Tokens, Entries: entryCount(st), Compaction: compactionOf(st)},
		DeleteAfterCloseDays: m.DeleteAfterDays, DeleteAt: deleteAt(m), Quarantine: quarantineOf(d.Head), Usage: sessionUsage(st),
	}
	if r := requestOf(v.ctx); r != nil {
		out.StreamURL = v.s.streamURL(r.Request, v.key.Session)
	}
	if out.Quarantine != nil {
		out.Activity = "quarantined"
	}
	active, queued := host.LiveRuns(d)
	if active != nil {
		rv, err := v.s.Engine.RunOf(v.ctx, v.key, *d, active.ID)
		if err != nil {
			return out, err
		}
		run := v.run(rv)
		out.ActiveRun = &run
	}
	for _, q := range queued {
		out.QueuedRuns = append(out.QueuedRuns, v.run(host.RunView{RunRecord: q}))
	}
	for _, r := range st.Remembered {
		out.Remembered = append(out.Remembered, Remembered{Tool: r.Tool, Definition: r.Definition, By: r.By, At: Time(r.At)})
	}
	return out, v.err
}

func entryCount(st *host.State) int {
	return len(st.Context.Instructions) + len(st.Context.Lead) + len(st.Context.Entries)
}

func compactionOf(st *host.State) string {
	if st.Context.Compaction.Phase == "" {
		return "idle"
	}
	return st.Context.Compaction.Phase
}

func sessionUsage(st *host.State) SessionUsage {
	t := st.Totals
	return SessionUsage{
		InputTokens: t.Usage.Input, OutputTokens: t.Usage.Output, CostUSD: cost(t.Usage),
		Runs: t.Runs, ModelCalls: t.ModelCalls, ToolCalls: t.ToolCalls,
	}
}

// cost is nothing where a price was not known.
func cost(u host.Usage) *USD {
	if !u.Priced {
		return nil
	}
	c := USD(u.CostMicros)
	return &c
}
