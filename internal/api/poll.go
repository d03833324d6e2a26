package api

import (
	"context"

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
	for {
		rv, err := s.Engine.RunOf(ctx, key, *d, id)
		if err != nil {
			return Run{}, err
		}
		left := int64(until - s.Engine.Now())
		if ms == 0 || left <= 0 || terminal(rv.Status) || rv.Status == host.RunWaits {
			v := s.view(ctx, key)
			return v.run(rv), v.err
		}
		if err := s.awaitHead(ctx, key, d, left); err != nil {
			return Run{}, err
		}
	}
}

// awaitHead waits until a session has moved past what is known of it, at most
// ms, and looks again. It ends with the request.
func (s *server) awaitHead(ctx context.Context, key host.Key, d *host.Done, ms int64) error {
	if _, err := s.Engine.WaitAny(ctx, ms, s.Engine.Watch(key, d.Head.Seq)); err != nil {
		return err
	}
	next, err := s.Engine.View(ctx, key)
	if err != nil {
		return err
	}
	*d = next
	return nil
}
