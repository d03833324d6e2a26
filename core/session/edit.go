package session

import (
	"slices"
	"strings"

	"github.com/perdure/perdure/core/ident"
)

func (e *ContextEdited) apply(s *State, _ *Entry) error {
	c := &s.Context
	if e.Compact {
		// A wish changes nothing that the model sees.
		if e.Revision != c.Revision {
			return diverge("revision", "a compaction is wanted at revision %d of %d", e.Revision, c.Revision)
		}
		c.Compaction.Phase, c.Compaction.Reason = CompactionPending, CutManual
		return nil
	}
	if e.Revision != c.Revision+1 {
		return diverge("revision", "context revision %d follows %d", e.Revision, c.Revision)
	}
	for _, put := range e.Put {
		if err := next("entry", &s.Cursors.Entry, put.Entry); err != nil {
			return err
		}
		c.removeKey(put.Key)
		en := ContextEntry{ID: put.Entry, Key: put.Key, Role: put.Role, Source: FromEdit, Parts: put.Parts}
		if put.Role != RoleInstructions {
			c.add(en)
			continue
		}
		en.Tokens = estimateEntry(&en)
		i, _ := slices.BinarySearchFunc(c.Instructions, put.Key, func(x ContextEntry, k string) int { return strings.Compare(x.Key, k) })
		ins := make([]ContextEntry, 0, len(c.Instructions)+1)
		ins = append(ins, c.Instructions[:i]...)
		ins = append(ins, en)
		c.Instructions = append(ins, c.Instructions[i:]...)
	}
	for _, k := range e.Remove {
		c.removeKey(k)
	}
	for _, rep := range e.Replace {
		if !c.replace(rep) {
			return diverge("context", "%s is not in the window", rep.Entry)
		}
	}
	c.recount()
	c.Observed = Observed{At: c.Observed.At}
	c.Revision = e.Revision
	return nil
}

// removeKey takes the entry under a key out; the window is copied, because
// older states share it.
func (c *Context) removeKey(key string) {
	out := func(es []ContextEntry) []ContextEntry {
		if !slices.ContainsFunc(es, func(e ContextEntry) bool { return e.Key == key }) {
			return es
		}
		return slices.DeleteFunc(slices.Clone(es), func(e ContextEntry) bool { return e.Key == key })
	}
	c.Instructions, c.Entries = out(c.Instructions), out(c.Entries)
}

func (c *Context) find(id ident.EntryID) *ContextEntry {
	for _, es := range [...][]ContextEntry{c.Lead, c.Entries, c.Instructions} {
		for i := range es {
			if es[i].ID == id {
				return &es[i]
			}
		}
	}
	return nil
}

// byKey returns the entry under a key, or nil.
func (c *Context) byKey(key string) *ContextEntry {
	for _, es := range [...][]ContextEntry{c.Instructions, c.Entries} {
		for i := range es {
			if es[i].Key == key {
				return &es[i]
			}
		}
	}
	return nil
}

func (c *Context) replace(rep EntryReplaced) bool {
	found := false
	out := func(es []ContextEntry) []ContextEntry {
		i := slices.IndexFunc(es, func(e ContextEntry) bool { return e.ID == rep.Entry })
		if i < 0 {
			return es
		}
		found = true
		es = slices.Clone(es)
		es[i] = replaced(es[i], rep)
		return es
	}
	c.Lead, c.Entries = out(c.Lead), out(c.Entries)
	return found
}

// replaced is the entry with other text: its provider form is gone, because it
// still has the old one.
func replaced(e ContextEntry, rep EntryReplaced) ContextEntry {
	switch e.Role {
	case RoleResults:
		e.Results = slices.Clone(e.Results)
		for i := range e.Results {
			if rep.Call == 0 || e.Results[i].Index == rep.Call {
				e.Results[i].Text = rep.Text
			}
		}
	case RoleAssistant:
		e.Text, e.Item = rep.Text, nil
	default:
		e.Parts = []Part{{Text: rep.Text}}
	}
	e.Redacted = e.Redacted || rep.Redacted
	e.Tokens = estimateEntry(&e)
	return e
}

func (c *Context) recount() {
	c.Tokens = 0
	for i := range c.Lead {
		c.Tokens += c.Lead[i].Tokens
	}
	for i := range c.Entries {
		c.Tokens += c.Entries[i].Tokens
	}
}

// betweenTurns says that no turn or call is open, so an edit cannot change
// what a request in flight was built from.
func (s *State) betweenTurns() bool {
	r := s.Active
	return s.Context.Compaction.Phase != CompactionRuns &&
		(r == nil || r.Turn.Status != TurnInFlight && r.Turn.Status != TurnRetrying && !r.openBatch())
}

// admitEdit applies what can be applied, edit by edit; only a stale revision
// or a wrong moment refuse the whole.
func (s *State) admitEdit(c *EditContext) ([]Event, Reply, error) {
	switch {
	case s.Status == Closed:
		return nil, Reply{}, closed()
	case c.IfRevision >= 0 && c.IfRevision != s.Context.Revision:
		return nil, Reply{}, stale("context", c.IfRevision, s.Context.Revision)
	case !s.betweenTurns():
		return nil, Reply{}, reject(CodeSessionBusy, "the context changes only between turns: try again when the model or the tools have answered")
	case len(c.Replace) > 0 && s.Active != nil:
		return nil, Reply{}, reject(CodeSessionBusy, "entries are replaced only while no run is active")
	}
	n := len(c.Remove) + len(c.Replace)
	for _, p := range c.Put {
		n += max(len(p.Parts), 1)
	}
	if n > KeyedMax {
		// One event holds them all.
		return nil, Reply{}, bound("context edits and their parts", int64(n), KeyedMax)
	}
	e := &ContextEdited{Who: c.who()}
	var reply Reply
	var keys []string
	for _, p := range c.Put {
		out := s.editPut(p, keys, e)
		keys = append(keys, p.Key)
		reply.Edits = append(reply.Edits, out)
	}
	for _, k := range c.Remove {
		out := EditReply{Key: k, Status: "absent"}
		if slices.Contains(keys, k) {
			out.Status, out.Refused = "failed", reject(CodeInvalid, "the key is there twice in this request")
		} else if s.Context.byKey(k) != nil {
			out.Status = "removed"
			e.Remove = append(e.Remove, k)
		}
		keys = append(keys, k)
		reply.Edits = append(reply.Edits, out)
	}
	for _, rep := range c.Replace {
		reply.Edits = append(reply.Edits, s.editReplace(rep, e))
	}
	reply.Revision = s.Context.Revision
	if len(e.Put)+len(e.Remove)+len(e.Replace) == 0 {
		reply.Same = true
		return nil, reply, nil
	}
	e.Revision = s.Context.Revision + 1
	reply.Revision = e.Revision
	return []Event{e}, reply, nil
}

func (s *State) editPut(p EditPut, keys []string, e *ContextEdited) EditReply {
	out := EditReply{Key: p.Key, Status: "failed"}
	fail := func(r *Rejection) EditReply {
		out.Refused = r
		return out
	}
	if _, err := ident.ParseName("key", p.Key); err != nil {
		return fail(reject(CodeValidation, err.Error()))
	}
	instr := p.Role == RoleInstructions
	switch {
	case slices.Contains(keys, p.Key):
		return fail(reject(CodeInvalid, "the key is there twice in this request"))
	case p.Key == "run" || strings.HasPrefix(p.Key, "run.") || strings.HasPrefix(p.Key, "runtime"):
		return fail(reject(CodeForbidden, "keys run, run.* and runtime* are reserved"))
	case p.Role != RoleUser && !instr:
		return fail(reject(CodeValidation, "role is user or instructions"))
	case instr != strings.HasPrefix(p.Key, "instructions."):
		return fail(reject(CodeValidation, "instructions, and nothing else, stand under instructions.*"))
	}
	if err := checkInput(p.Parts); err != nil {
		r, _ := err.(*Rejection) //nolint:errorlint // checkInput makes nothing else
		return fail(r)
	}
	if old := s.Context.byKey(p.Key); old != nil {
		if old.Role == p.Role && slices.EqualFunc(old.Parts, p.Parts, samePart) {
			out.Status = "unchanged"
			return out
		}
	} else if n := s.Context.keyed() + len(e.Put); n >= KeyedMax {
		return fail(bound("keyed entries", int64(n), KeyedMax))
	}
	out.Status = "applied"
	out.Entry = s.Cursors.Entry + ident.EntryID(len(e.Put)) + 1
	e.Put = append(e.Put, KeyedPut{Entry: out.Entry, Key: p.Key, Role: p.Role, Parts: p.Parts})
	return out
}

func samePart(a, b Part) bool {
	return a.Blob == b.Blob && a.MediaType == b.MediaType && a.Name == b.Name && a.Text.Content() == b.Text.Content()
}

func (c *Context) keyed() int {
	n := len(c.Instructions)
	for i := range c.Entries {
		if c.Entries[i].Key != "" {
			n++
		}
	}
	return n
}

func (s *State) editReplace(rep EditReplace, e *ContextEdited) EditReply {
	out := EditReply{Entry: rep.Entry, Status: "absent"}
	old := s.Context.find(rep.Entry)
	if old == nil {
		return out
	}
	out.Status = "applied"
	er := EntryReplaced{Entry: rep.Entry, Call: rep.Call}
	switch {
	case old.Role == RoleInstructions:
		out.Status, out.Refused = "failed", reject(CodeValidation, "instructions are changed by their key")
		return out
	case rep.Text == nil:
		er.Redacted = true
		er.Text.Text = "[redacted]"
	case rep.Text.IsZero():
		out.Status, out.Refused = "failed", reject(CodeValidation, "text is empty; null redacts")
		return out
	default:
		er.Text = *rep.Text
	}
	e.Replace = append(e.Replace, er)
	return out
}
