package api

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/host"
)

// Bounds of a page of events. What a page may weigh leaves room for the names
// of its fields.
const (
	eventsDefault = 128
	eventsMost    = 512
	eventBytes    = 1<<20 - 64<<10
)

func (s *server) addEvents() {
	add(s, on(http.MethodGet, "/v1/sessions/{id}/events", "listEvents", "Read the feed, forwards or backwards", http.StatusOK, ScopeRead), s.listEvents)
	raw := on(http.MethodGet, "/v1/sessions/{id}/log", "readLog", "Read the stored envelopes, a line each", http.StatusOK, ScopeAdmin)
	raw.op.Responses = map[string]*huma.Response{"200": {
		Description: "The stored envelopes, a line each.", Content: map[string]*huma.MediaType{"application/x-ndjson": {Schema: &huma.Schema{Type: huma.TypeString}}},
	}}
	add(s, raw, s.readLog)
}

type eventsInput struct {
	SessionPath
	Waiting
	After  string `query:"after" doc:"Events after this seq; 0 if neither is there."`
	Before string `query:"before" doc:"The window just below this seq, or head."`
	Limit  int    `query:"limit" minimum:"1" maximum:"512" default:"128"`
}

func (s *server) listEvents(ctx context.Context, in *eventsInput) (*reply[Events], error) {
	key, err := in.key(ctx)
	if err != nil {
		return nil, err
	}
	q := requestOf(ctx).query
	_, back := q["before"]
	if _, both := q["after"]; back && both {
		return nil, invalidAt("query", "after and before exclude each other")
	}
	if _, wait := q["wait"]; back && wait {
		return nil, invalidAt("query", "wait and before exclude each other")
	}
	d, err := s.Engine.View(ctx, key)
	if err != nil {
		return nil, err
	}
	if back {
		return s.eventsBefore(ctx, key, &d, in)
	}
	return s.eventsAfter(ctx, key, &d, in)
}

func (s *server) eventsAfter(ctx context.Context, key host.Key, d *host.Done, in *eventsInput) (*reply[Events], error) {
	after, err := seqParam("after", in.After, d.Head.Seq)
	if err != nil {
		return nil, err
	}
	until := s.Engine.Now().Add(in.ms())
	for d.Head.Seq == after {
		left := int64(until - s.Engine.Now())
		if left <= 0 {
			break
		}
		if err := s.awaitHead(ctx, key, d, left); err != nil {
			return nil, err
		}
	}
	out := Events{Events: []Event{}, Next: uint64(after), Head: uint64(d.Head.Seq)}
	if d.Head.Seq > after {
		page, err := s.Engine.Feed(ctx, key, after, d.Head.Seq, limitOf(in.Limit), eventBytes)
		if err != nil {
			return nil, err
		}
		for _, e := range page {
			out.Events = append(out.Events, event(e))
			out.Next = uint64(e.Seq)
		}
	}
	out.Complete = out.Next == out.Head
	return answer(http.StatusOK, out), nil
}

func (s *server) eventsBefore(ctx context.Context, key host.Key, d *host.Done, in *eventsInput) (*reply[Events], error) {
	before := d.Head.Seq + 1
	if in.Before != "head" {
		var err error
		if before, err = seqParam("before", in.Before, d.Head.Seq+1); err != nil {
			return nil, err
		}
		if before == 0 {
			return nil, invalidAt("query.before", "there is nothing below 0")
		}
	}
	page, err := s.Engine.FeedBefore(ctx, key, before, limitOf(in.Limit), eventBytes)
	if err != nil {
		return nil, err
	}
	out := Events{Events: []Event{}, Next: uint64(before), Head: uint64(d.Head.Seq)}
	for _, e := range page {
		out.Events = append(out.Events, event(e))
	}
	if len(page) > 0 {
		out.Next = uint64(page[0].Seq)
	}
	out.Complete = out.Next <= 1
	return answer(http.StatusOK, out), nil
}

func limitOf(n int) int {
	if n == 0 {
		return eventsDefault
	}
	return min(n, eventsMost)
}

// seqParam reads a position, at most the given one.
func seqParam(name, text string, most ident.Seq) (ident.Seq, error) {
	if text == "" {
		return 0, nil
	}
	return parseSeq("query."+name, text, most)
}

// event names what an event belongs to, beside its data.
func event(e host.FeedEvent) Event {
	out := Event{Seq: uint64(e.Seq), At: Time(e.At), Kind: e.Kind, Data: Value(e.Data)}
	var of struct {
		Run  ident.RunID  `json:"run"`
		Turn ident.TurnID `json:"turn"`
		Call int          `json:"call"`
	}
	if json.Unmarshal(e.Data, &of) != nil {
		return out
	}
	if of.Run != 0 {
		out.Run = of.Run.String()
	}
	if of.Turn != 0 {
		out.Turn = of.Turn.String()
	}
	if of.Turn != 0 && of.Call != 0 {
		out.Call = ident.CallID{Turn: of.Turn, Index: of.Call}.String()
	}
	return out
}

type logInput struct {
	SessionPath
	After string `query:"after"`
}

// rawLog is a log that is written while it is read.
type rawLog struct {
	Body func(huma.Context)
}

func (s *server) readLog(ctx context.Context, in *logInput) (*rawLog, error) {
	key, err := in.key(ctx)
	if err != nil {
		return nil, err
	}
	d, err := s.Engine.View(ctx, key)
	if err != nil {
		return nil, err
	}
	head := d.Head.Seq
	after, err := seqParam("after", in.After, head)
	if err != nil {
		return nil, err
	}
	page, err := s.Engine.RawLog(ctx, key, after, head)
	if err != nil {
		return nil, err
	}
	return &rawLog{Body: func(hctx huma.Context) {
		hctx.SetHeader("Content-Type", "application/x-ndjson")
		hctx.SetStatus(http.StatusOK)
		s.writeLog(ctx, hctx, key, page, head)
	}}, nil
}

// writeLog writes page after page. A fault in the middle breaks the connection
// off: half a log must not look like a whole one.
func (s *server) writeLog(ctx context.Context, hctx huma.Context, key host.Key, page []host.StoredEntry, head ident.Seq) {
	for len(page) > 0 {
		var last ident.Seq
		for _, e := range page {
			line := e.Data
			if n := len(line); n == 0 || line[n-1] != '\n' {
				line = append(line[:n:n], '\n')
			}
			if _, err := hctx.BodyWriter().Write(line); err != nil {
				panic(http.ErrAbortHandler)
			}
			last = e.Seq
		}
		if last >= head {
			return
		}
		var err error
		if page, err = s.Engine.RawLog(ctx, key, last, head); err != nil {
			s.Log.WarnContext(ctx, "the log broke off", "error", err)
			panic(http.ErrAbortHandler)
		}
	}
}
