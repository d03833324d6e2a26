package api

import (
	"context"
	"net/http"
	"strconv"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/host"
)

func (s *server) addRuns() {
	request := command(on(http.MethodPost, "/v1/sessions/{id}/runs", "requestRun", "Ask for a run", http.StatusAccepted, ScopeWrite))
	add(s, request, s.requestRun)
	add(s, on(http.MethodGet, "/v1/sessions/{id}/runs", "listRuns", "List runs, newest first", http.StatusOK, ScopeRead), s.listRuns)
	add(s, on(http.MethodGet, "/v1/sessions/{id}/runs/{run}", "getRun", "Read a run", http.StatusOK, ScopeRead), s.getRun)
	add(s, on(http.MethodGet, "/v1/sessions/{id}/runs/{run}/calls", "listCalls", "List a run's tool calls, in order", http.StatusOK, ScopeRead), s.listCalls)
	add(s, command(on(http.MethodPost, "/v1/sessions/{id}/runs/{run}/cancel", "cancelRun", "Stop a run", http.StatusAccepted, ScopeWrite)), s.cancelRun)
	add(s, command(on(http.MethodPost, "/v1/sessions/{id}/runs/{run}/steer", "steerRun", "Add an instruction to a run in progress", http.StatusAccepted, ScopeWrite)), s.steerRun)
}

// command is a route whose idempotency key is its command's submissionId.
func command(r route) route {
	r.submission = true
	if r.op.DefaultStatus == http.StatusAccepted {
		r.also = []int{http.StatusOK}
	}
	return r
}

// RunPath names a run in a path.
type RunPath struct {
	SessionPath
	Run string `path:"run" pattern:"^run_[1-9][0-9]*$" patternDescription:"run_<n>" doc:"Id of the run."`
}

func (p RunPath) ids(ctx context.Context) (host.Key, ident.RunID, error) {
	key, err := p.key(ctx)
	if err != nil {
		return key, 0, err
	}
	run, err := ident.ParseRunID(p.Run)
	if err != nil {
		return key, 0, invalidAt("path.run", "a run id, run_<n>")
	}
	return key, run, nil
}

// Waiting is what a long poll takes.
type Waiting struct {
	Wait int `query:"wait" minimum:"0" doc:"Seconds to wait for something to tell; above 20 is 20."`
}

// ms is how long to wait, in milliseconds.
func (w Waiting) ms() int64 {
	const most = 20
	return int64(min(w.Wait, most)) * ident.Second
}

type runInput struct {
	SessionPath
	Waiting
	Body RequestRun
}

func (s *server) requestRun(ctx context.Context, in *runInput) (*reply[Run], error) {
	key, err := in.key(ctx)
	if err != nil {
		return nil, err
	}
	cmd, err := s.runCommand(ctx, requestOf(ctx), key, &in.Body)
	if err != nil {
		return nil, err
	}
	d, err := s.Engine.Do(ctx, key, cmd)
	if err != nil {
		return nil, err
	}
	r := d.Replies[0]
	out, err := s.awaitRun(ctx, key, &d, r.Run, in.ms())
	if err != nil {
		return nil, err
	}
	if r.Steering != 0 {
		out.SteeringID = r.Steering.String()
	}
	return answer(acceptedOr(r.Same), out), nil
}

// acceptedOr is 200 where it was so already.
func acceptedOr(same bool) int {
	if same {
		return http.StatusOK
	}
	return http.StatusAccepted
}

// runCommand reads a request for a run.
func (s *server) runCommand(ctx context.Context, r *request, key host.Key, b *RequestRun) (host.Prepared, error) {
	asked, err := s.asked(r, b.SubmissionID)
	if err != nil {
		return host.Prepared{}, err
	}
	cfg, err := b.Config.toHost()
	if err != nil {
		return host.Prepared{}, err
	}
	if cfg.Provider != "" {
		if err := s.Engine.CheckModel(ctx, key.Tenant, host.Model{Provider: cfg.Provider, Model: cfg.Model}); err != nil {
			return host.Prepared{}, err
		}
	}
	sp := &host.Spill{}
	parts, err := s.input(ctx, key, b.Input, sp, "body.input")
	if err != nil {
		return host.Prepared{}, err
	}
	return sp.Prepare(&host.RequestRun{Input: parts, Mode: b.Mode, Config: cfg, Asked: asked}), nil
}

// input reads the parts of an input. A blob must be the session's own.
func (s *server) input(ctx context.Context, key host.Key, in Input, sp *host.Spill, at string) ([]host.Part, error) {
	if len(in) > host.PartsMax {
		p := problem(host.CodeLimitReached, "an input has at most "+strconv.Itoa(host.PartsMax)+" parts")
		p.Limit, p.Actual, p.Max = "input parts", number(int64(len(in))), number(host.PartsMax)
		return nil, p
	}
	out := make([]host.Part, len(in)) // made whole: the spill keeps pointers into it
	for i, p := range in {
		if p.Type == "text" {
			sp.Text(&out[i].Text, p.Text.Text)
			continue
		}
		here := at + "[" + strconv.Itoa(i) + "].ref"
		ref, err := blob.ParseRef(p.Ref)
		if err != nil {
			return nil, unfit(here, "a reference, sha256:<64 hex digits>")
		}
		size, found, err := s.Engine.HasBlob(ctx, key, ref)
		if err != nil {
			return nil, err
		}
		if !found {
			return nil, unfit(here, "the session has no such blob")
		}
		out[i] = host.Part{Blob: ref, Size: size, MediaType: p.MediaType, Name: p.Name}
	}
	return out, nil
}

type getRunInput struct {
	RunPath
	Waiting
}

func (s *server) getRun(ctx context.Context, in *getRunInput) (*reply[Run], error) {
	key, id, err := in.ids(ctx)
	if err != nil {
		return nil, err
	}
	d, err := s.Engine.View(ctx, key)
	if err != nil {
		return nil, err
	}
	out, err := s.awaitRun(ctx, key, &d, id, in.ms())
	if err != nil {
		return nil, err
	}
	return answer(http.StatusOK, out), nil
}

type listRunsInput struct {
	SessionPath
	Listing
	Status string `query:"status" enum:"queued,running,waiting,cancelling,completed,failed,cancelled"`
}

// runsAt is where a list of runs goes on: below a run.
type runsAt struct {
	Before ident.RunID `json:"b"`
}

func (s *server) listRuns(ctx context.Context, in *listRunsInput) (*reply[Page[Run]], error) {
	key, err := in.key(ctx)
	if err != nil {
		return nil, err
	}
	r := requestOf(ctx)
	var at runsAt
	if err := s.open(r, &at); err != nil {
		return nil, err
	}
	d, err := s.Engine.View(ctx, key)
	if err != nil {
		return nil, err
	}
	p := newPager[Run](s, r)
	v := s.view(ctx, key)
	for scanned := 0; scanned < scanMost; scanned += scanPage {
		found, err := s.Engine.Runs(ctx, key, at.Before, scanPage)
		if err != nil {
			return nil, err
		}
		for _, rec := range found {
			if in.Status == "" || rec.Status == in.Status {
				if p.full() {
					return p.after(at)
				}
				rv, err := s.Engine.RunOf(ctx, key, d, rec.ID)
				if err != nil {
					return nil, err
				}
				fits, err := p.add(v.run(rv))
				if err = firstOf(err, v.err); err != nil {
					return nil, err
				}
				if !fits {
					return p.after(at)
				}
			}
			at.Before = rec.ID
		}
		if len(found) < scanPage {
			return p.end(), nil
		}
	}
	return p.after(at)
}

func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

type callsInput struct {
	RunPath
	Listing
}

// callsAt is where a list of calls goes on: after a call.
type callsAt struct {
	Turn  ident.TurnID `json:"t"`
	Index int          `json:"i"`
}

func (s *server) listCalls(ctx context.Context, in *callsInput) (*reply[Page[ToolCall]], error) {
	key, id, err := in.ids(ctx)
	if err != nil {
		return nil, err
	}
	r := requestOf(ctx)
	var at callsAt
	if err := s.open(r, &at); err != nil {
		return nil, err
	}
	d, err := s.Engine.View(ctx, key)
	if err != nil {
		return nil, err
	}
	calls, err := s.Engine.Calls(ctx, key, id)
	if err != nil {
		return nil, err
	}
	p := newPager[ToolCall](s, r)
	v := s.view(ctx, key)
	for _, c := range calls {
		if c.ID.Turn < at.Turn || c.ID.Turn == at.Turn && c.ID.Index <= at.Index {
			continue
		}
		if p.full() {
			return p.after(at)
		}
		fits, err := p.add(v.call(&d.State, c))
		if err = firstOf(err, v.err); err != nil {
			return nil, err
		}
		if !fits {
			return p.after(at)
		}
		at = callsAt{c.ID.Turn, c.ID.Index}
	}
	return p.end(), nil
}

type cancelInput struct {
	RunPath
	Body *CancelRun
}

func (s *server) cancelRun(ctx context.Context, in *cancelInput) (*reply[Run], error) {
	key, id, err := in.ids(ctx)
	if err != nil {
		return nil, err
	}
	var b CancelRun
	if in.Body != nil {
		b = *in.Body
	}
	asked, err := s.asked(requestOf(ctx), b.SubmissionID)
	if err != nil {
		return nil, err
	}
	d, err := s.Engine.Do(ctx, key, host.Prepared{Command: &host.CancelRun{Run: id, Force: b.Force, Asked: asked}})
	if err != nil {
		return nil, err
	}
	out, err := s.awaitRun(ctx, key, &d, id, 0)
	if err != nil {
		return nil, err
	}
	return answer(acceptedOr(d.Replies[0].Same && terminal(out.Status)), out), nil
}

type steerInput struct {
	RunPath
	Body SteerRun
}

func (s *server) steerRun(ctx context.Context, in *steerInput) (*reply[Steered], error) {
	key, id, err := in.ids(ctx)
	if err != nil {
		return nil, err
	}
	asked, err := s.asked(requestOf(ctx), in.Body.SubmissionID)
	if err != nil {
		return nil, err
	}
	sp := &host.Spill{}
	parts, err := s.input(ctx, key, in.Body.Input, sp, "body.input")
	if err != nil {
		return nil, err
	}
	d, err := s.Engine.Do(ctx, key, sp.Prepare(&host.SteerRun{Run: id, Text: parts, Asked: asked}))
	if err != nil {
		return nil, err
	}
	r := d.Replies[0]
	run, err := s.awaitRun(ctx, key, &d, r.Run, 0)
	if err != nil {
		return nil, err
	}
	return answer(acceptedOr(r.Same), Steered{SteeringID: r.Steering.String(), Run: run}), nil
}
