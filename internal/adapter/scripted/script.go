package scripted

import (
	"context"
	"strings"
	"sync"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/internal/host"
)

// Step is one answer of a Script.
type Step struct {
	Text      string
	Reasoning string
	Calls     []Call
	// Fault, if set, is returned instead of an answer, after the gate.
	Fault  *host.Fault
	Finish string
	Usage  *session.Usage
	// Begun is called when the first half of the text is out, and Gate then
	// waited for.
	Begun func()
	Gate  <-chan struct{}
}

// Script is a model for tests in one process: each session gets the steps in
// order, one for each call. It records every request and is safe for
// concurrent use. It is a host.ModelPort, and a host.Models that has itself
// under every name.
type Script struct {
	// What Info returns besides the family.
	ModelInfo host.ModelInfo

	mu         sync.Mutex
	steps      []Step
	own        map[ident.SessionID][]Step
	next       map[scriptKey]int
	requests   []host.ModelRequest
	violations []string
}

type scriptKey struct {
	tenant  ident.TenantID
	session ident.SessionID
}

var (
	_ host.ModelPort = (*Script)(nil)
	_ host.Models    = (*Script)(nil)
)

// NewScript makes a Script of steps that every session gets.
func NewScript(steps ...Step) *Script {
	return &Script{steps: steps, own: map[ident.SessionID][]Step{}, next: map[scriptKey]int{}}
}

// Add appends steps for every session without steps of its own.
func (s *Script) Add(steps ...Step) {
	s.mu.Lock()
	defer s.mu.Unlock()

	s.steps = append(s.steps, steps...)
}

// For appends steps for one session, which then gets no others.
func (s *Script) For(id ident.SessionID, steps ...Step) {
	s.mu.Lock()
	defer s.mu.Unlock()

	s.own[id] = append(s.own[id], steps...)
}

// Requests are the requests so far, in the order in which they came.
func (s *Script) Requests() []host.ModelRequest {
	s.mu.Lock()
	defer s.mu.Unlock()

	return append([]host.ModelRequest(nil), s.requests...)
}

// Violations are what was wrong with requests, and calls that no step was left
// for. A test asks for it at its end and expects nothing.
func (s *Script) Violations() []string {
	s.mu.Lock()
	defer s.mu.Unlock()

	return append([]string(nil), s.violations...)
}

// Model implements host.Models.
func (s *Script) Model(context.Context, ident.TenantID, session.Model) (host.ModelPort, error) {
	return s, nil
}

// Info implements host.ModelPort.
func (s *Script) Info(session.Model) host.ModelInfo {
	info := s.ModelInfo
	if info.Family == "" {
		info.Family = Family
	}

	return info
}

// Generate implements host.ModelPort.
func (s *Script) Generate(ctx context.Context, req host.ModelRequest, sink func(host.Delta)) (host.ModelResult, error) {
	if err := ctx.Err(); err != nil {
		return host.ModelResult{}, stopped(err)
	}

	step, err := s.take(req)
	if err != nil {
		return host.ModelResult{}, err
	}

	say := reply{reasoning: step.Reasoning, text: step.Text, calls: step.Calls, finish: step.Finish, usage: step.Usage}

	if step.Gate != nil || step.Begun != nil {
		say.pause = step.wait
	}

	if step.Fault == nil {
		return say.play(ctx, req, 0, sink)
	}

	if say.pause != nil {
		if err := say.pause(ctx); err != nil {
			return host.ModelResult{}, stopped(err)
		}
	}

	fault := *step.Fault // the caller may keep it

	return host.ModelResult{}, &fault
}

func (s *Script) take(req host.ModelRequest) (Step, error) {
	s.mu.Lock()
	defer s.mu.Unlock()

	s.requests = append(s.requests, req)

	if found := Violations(req); len(found) > 0 {
		s.violations = append(s.violations, found...)

		return Step{}, refuse("%s", strings.Join(found, "; "))
	}

	steps, ok := s.own[req.Session]
	if !ok {
		steps = s.steps
	}

	key := scriptKey{req.Tenant, req.Session}
	n := s.next[key]

	if n >= len(steps) {
		err := refuse("the script of session %s has %d steps, and another was asked for", req.Session, len(steps))
		s.violations = append(s.violations, err.Message)

		return Step{}, err
	}

	s.next[key] = n + 1

	return steps[n], nil
}

func (s *Step) wait(ctx context.Context) error {
	if s.Begun != nil {
		s.Begun()
	}

	if s.Gate == nil {
		return ctx.Err() //nolint:wrapcheck // the port asks for this very error
	}

	select {
	case <-ctx.Done():
		return ctx.Err() //nolint:wrapcheck // the port asks for this very error
	case <-s.Gate:
		return nil
	}
}
