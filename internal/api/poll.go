package api

import (
	"context"
	"slices"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/host"
)

// terminal says that a run's status is final.
func terminal(status string) bool {
	return status == host.RunDone || status == host.RunFails || status == host.RunStopped
}

// awaitRun shows a run: at once, or within ms when it is terminal or waits.
func (s *server) awaitRun(ctx context.Context, key host.Key, d *host.Done, id ident.RunID, ms int64) (Run, error) {
	until := s.Engine.Now().Add(ms)
	for inProgress(d, id) {
		left := int64(until - s.Engine.Now())
		if left <= 0 {
			break
		}
		if err := s.awaitHead(ctx, key, d, left); err != nil {
			return Run{}, err
		}
	}
	rv, err := s.Engine.RunOf(ctx, key, *d, id)
	if err != nil {
		return Run{}, err
	}
	v := s.view(ctx, key)
	return v.run(rv), v.err
}

// inProgress says, from state alone, that a run is neither over nor waiting.
func inProgress(d *host.Done, id ident.RunID) bool {
	active, queued := host.LiveRuns(d)
	if active != nil && active.ID == id {
		return active.Status != host.RunWaits
	}
	return slices.ContainsFunc(queued, func(r host.RunRecord) bool { return r.ID == id })
}

// awaitHead waits until a session has moved past what is known of it, at most
// ms, and looks again. It ends with the request.
func (s *server) awaitHead(ctx context.Context, key host.Key, d *host.Done, ms int64) error {
	moved := s.Engine.Watch(key, d.Head.Seq)
	defer moved.Fire() // nobody waits for it any more
	if _, err := s.Engine.WaitAny(ctx, ms, moved); err != nil {
		return err
	}
	next, err := s.Engine.View(ctx, key)
	if err != nil {
		return err
	}
	*d = next
	return nil
}
