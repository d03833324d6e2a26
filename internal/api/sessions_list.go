package api

import (
	"context"
	"maps"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/host"
)

// Bounds of metadata.
const (
	metadataMax      = 32
	metadataKeyMax   = 64  // bytes
	metadataValueMax = 256 // bytes
	nameMax          = 200 // characters
	metadataPrefix   = "metadata."
	// scanMost is how many sessions one request for a list looks at: a page of
	// a rare filter ends before it is full.
	scanMost = 1000
	scanPage = 200
)

type listInput struct {
	Listing
	Status   string `query:"status" enum:"open,closed,all" default:"open"`
	Kind     string `query:"kind" enum:"root,all" default:"root"`
	Activity string `query:"activity" enum:"quarantined,cancelling,running,waiting,compacting,idle"`
	Parent   string `query:"parent" doc:"Children of this session."`
	Root     string `query:"root" doc:"The tree of this session."`
	Profile  string `query:"profile"`
	Q        string `query:"q" doc:"Part of the id, name or title, in any case."`
}

// listAt is where a list of sessions goes on.
type listAt struct {
	Updated ident.Instant   `json:"u"`
	Session ident.SessionID `json:"s"`
}

func (s *server) listSessions(ctx context.Context, in *listInput) (*reply[Page[SessionSummary]], error) {
	r := requestOf(ctx)
	p := newPager[SessionSummary](s, r)
	var at listAt
	if err := s.open(r, &at); err != nil {
		return nil, err
	}
	f := filterOf(r, in)
	q := host.ListQuery{Tenant: r.who.Tenant, Status: in.Status, Limit: scanPage}
	if q.Status == "all" {
		q.Status = ""
	}
	for scanned := 0; scanned < scanMost; scanned += scanPage {
		q.BeforeUpdated, q.BeforeSession = at.Updated, at.Session
		found, err := s.Engine.Sessions(ctx, q)
		if err != nil {
			return nil, err
		}
		for _, l := range found {
			if f.takes(l) {
				if p.full() {
					return p.after(at)
				}
				v := s.view(ctx, host.Key{Tenant: r.who.Tenant, Session: l.Session})
				fits, err := p.add(v.summary(l))
				if err = firstOf(err, v.err); err != nil {
					return nil, err
				}
				if !fits {
					return p.after(at)
				}
			}
			at = listAt{l.Meta.UpdatedAt, l.Session}
		}
		if len(found) < q.Limit {
			return p.end(), nil
		}
	}
	return p.after(at)
}

// filter is what of a list its client wants.
type filter struct {
	activity, q string
	root        ident.SessionID
	none        bool
	metadata    map[string]string
}

func filterOf(r *request, in *listInput) *filter {
	// No session has a parent or a profile yet, and each is its own tree.
	f := &filter{activity: in.Activity, q: strings.ToLower(in.Q), root: ident.SessionID(in.Root), none: in.Parent != "" || in.Profile != "", metadata: map[string]string{}}
	for name, value := range r.query {
		if key, ok := strings.CutPrefix(name, metadataPrefix); ok {
			f.metadata[key] = value
		}
	}
	return f
}

func (f *filter) takes(l host.Listed) bool {
	if f.none || f.root != "" && l.Session != f.root {
		return false
	}
	if f.activity != "" {
		a := l.Meta.Activity
		if l.Head.Quarantine != nil {
			a = "quarantined"
		}
		if a != f.activity {
			return false
		}
	}
	for k, want := range f.metadata {
		if have, there := l.Meta.Metadata[k]; !there || want != "" && have != want {
			return false
		}
	}
	if f.q == "" {
		return true
	}
	for _, text := range []string{string(l.Session), l.Meta.Name, l.Meta.Title} {
		if strings.Contains(strings.ToLower(text), f.q) {
			return true
		}
	}
	return false
}

// describe is what a new session is called, if anything.
func describe(b *CreateSession) func(*host.Meta) {
	if b.Name == "" && len(b.Metadata) == 0 && b.DeleteAfterCloseDays == nil {
		return nil
	}
	return func(m *host.Meta) { m.Name, m.Metadata, m.DeleteAfterDays = b.Name, b.Metadata, b.DeleteAfterCloseDays }
}

func checkDescription(b *CreateSession) error {
	if err := checkName(b.Name); err != nil {
		return err
	}
	return checkMetadata(b.Metadata)
}

// apply is what a patch makes of a description.
func (p *PatchSession) apply(m host.Meta) (host.Meta, error) {
	if p.Name.Set {
		m.Name = p.Name.Value
		if err := checkName(m.Name); err != nil {
			return m, err
		}
	}
	if d := p.DeleteAfterCloseDays; d.Set {
		m.DeleteAfterDays = nil
		if !d.Null {
			if d.Value < 0 || d.Value > daysMost {
				return m, unfit("body.deleteAfterCloseDays", "0 to "+strconv.Itoa(daysMost)+", or null")
			}
			m.DeleteAfterDays = &d.Value
		}
	}
	if len(p.Metadata) == 0 {
		return m, nil
	}
	merged := make(map[string]string, len(m.Metadata)+len(p.Metadata))
	maps.Copy(merged, m.Metadata)
	for k, v := range p.Metadata {
		if v == nil {
			delete(merged, k)
		} else {
			merged[k] = *v
		}
	}
	m.Metadata = merged
	return m, checkMetadata(merged)
}

const daysMost = 36500

func checkName(name string) error {
	if utf8.RuneCountInString(name) > nameMax || hasControl(name) {
		return unfit("body.name", "at most 200 characters, no control characters")
	}
	return nil
}

func checkMetadata(m map[string]string) error {
	if len(m) > metadataMax {
		p := problem(host.CodeLimitReached, "a session has at most 32 entries of metadata")
		p.Limit, p.Actual, p.Max = "metadata", number(int64(len(m))), number(metadataMax)
		return p
	}
	for k, v := range m {
		if k == "" || len(k) > metadataKeyMax || hasControl(k) {
			return unfit("body.metadata", "a key has 1 to 64 bytes and no control characters")
		}
		if len(v) > metadataValueMax || hasControl(v) {
			return unfit("body.metadata.*", "a value has at most 256 bytes and no control characters")
		}
	}
	return nil
}

func hasControl(s string) bool { return strings.ContainsFunc(s, unicode.IsControl) }

// ifMatch reads a revision: -1 for whatever is there.
func ifMatch(header string) (int64, error) {
	header = strings.TrimSpace(header)
	if header == "" || header == "*" {
		return -1, nil
	}
	text := header
	if len(header) >= 2 && header[0] == '"' && header[len(header)-1] == '"' {
		text = header[1 : len(header)-1]
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || text[0] == '+' {
		return 0, invalidAt("header.If-Match", "a revision in quotes, or *")
	}
	return n, nil
}
