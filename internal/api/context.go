package api

import (
	"context"
	"net/http"
	"strconv"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/host"
)

func (s *server) addContext() {
	add(s, on(http.MethodGet, "/v1/sessions/{id}/context", "getContext", "Read what the model sees", http.StatusOK, ScopeRead), s.getContext)
	add(s, on(http.MethodPatch, "/v1/sessions/{id}/context", "patchContext", "Edit what the model sees", http.StatusOK, ScopeWrite), s.patchContext)
	add(s, on(http.MethodPost, "/v1/sessions/{id}/compact", "compactContext", "Ask for a summary of the oldest messages", http.StatusAccepted, ScopeWrite), s.compactContext)
}

func (s *server) getContext(ctx context.Context, in *SessionPath) (*reply[Context], error) {
	key, err := in.key(ctx)
	if err != nil {
		return nil, err
	}
	d, err := s.Engine.View(ctx, key)
	if err != nil {
		return nil, err
	}
	v := s.view(ctx, key)
	st := &d.State
	out := Context{Revision: st.Context.Revision, Tokens: st.Context.Tokens, Compaction: compactionOf(st), Entries: v.entries(st)}
	return answer(http.StatusOK, out), v.err
}

type patchContextInput struct {
	SessionPath
	IfMatch string `header:"If-Match" doc:"The context revision, in quotes."`
	Body    PatchContext
}

func (s *server) patchContext(ctx context.Context, in *patchContextInput) (*reply[ContextPatched], error) {
	key, err := in.key(ctx)
	if err != nil {
		return nil, err
	}
	cmd := &host.EditContext{}
	if cmd.IfRevision, err = ifMatch(in.IfMatch); err != nil {
		return nil, err
	}
	if cmd.Asked, err = s.asked(requestOf(ctx), ""); err != nil {
		return nil, err
	}
	sp := &host.Spill{}
	if err := s.edits(ctx, key, &in.Body, sp, cmd); err != nil {
		return nil, err
	}
	d, err := s.Engine.Do(ctx, key, sp.Prepare(cmd))
	if err != nil {
		return nil, err
	}
	r := d.Replies[0]
	out := ContextPatched{Revision: r.Revision, Results: []EditResult{}}
	for _, e := range r.Edits {
		res := EditResult{Key: e.Key, Status: e.Status}
		if e.Key == "" {
			res.Entry = e.Entry.String()
		}
		if e.Refused != nil {
			res.Code, res.Detail = string(e.Refused.Code), e.Refused.Message
		}
		out.Results = append(out.Results, res)
	}
	return answer(http.StatusOK, out), nil
}

// edits reads the edits of a request into a command.
func (s *server) edits(ctx context.Context, key host.Key, b *PatchContext, sp *host.Spill, cmd *host.EditContext) error {
	// The spill keeps pointers to the texts: nothing that holds one may move.
	cmd.Put = make([]host.EditPut, len(b.Put))
	for i, p := range b.Put {
		at := "body.put[" + strconv.Itoa(i) + "].input"
		parts, err := s.input(ctx, key, p.Input, sp, at)
		if err != nil {
			return err
		}
		cmd.Put[i] = host.EditPut{Key: p.Key, Role: p.Role, Parts: parts}
	}
	cmd.Remove = b.Remove
	for i, rep := range b.Replace {
		id, err := ident.ParseEntryID(rep.Entry)
		if err != nil {
			return unfit("body.replace["+strconv.Itoa(i)+"].entry", "an entry id, entry_<n>")
		}
		e := host.EditReplace{Entry: id}
		if !rep.Text.Null {
			e.Text = new(blob.Payload)
			sp.Text(e.Text, rep.Text.Value)
		}
		cmd.Replace = append(cmd.Replace, e)
	}
	return nil
}

type compactInput struct {
	SessionPath
	Body *Empty
}

func (s *server) compactContext(ctx context.Context, in *compactInput) (*reply[ContextSummary], error) {
	key, err := in.key(ctx)
	if err != nil {
		return nil, err
	}
	asked, err := s.asked(requestOf(ctx), "")
	if err != nil {
		return nil, err
	}
	d, err := s.Engine.Do(ctx, key, host.Prepared{Command: &host.CompactContext{Asked: asked}})
	if err != nil {
		return nil, err
	}
	st := &d.State
	return answer(http.StatusAccepted, ContextSummary{
		Revision: st.Context.Revision, Tokens: st.Context.Tokens, Entries: entryCount(st), Compaction: compactionOf(st),
	}), nil
}
