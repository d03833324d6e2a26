package wiring

import (
	"errors"
	"log/slog"
	"sync"

	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/internal/host"
)

// Reporter logs what the engine tells nobody else. What goes wrong each second
// is logged once, until something else goes wrong there.
type Reporter struct {
	log *slog.Logger

	mu   sync.Mutex
	last map[host.Key]string
}

// lastMost bounds the sessions that are remembered; past it all are forgotten,
// and a few lines come twice.
const lastMost = 4096

// NewReporter makes one.
func NewReporter(log *slog.Logger) *Reporter { return &Reporter{log: log} }

// Report is host.Deps.Report.
func (r *Reporter) Report(key host.Key, what string, err error) {
	text := what
	attrs := []any{"what", what}
	if key.Session != "" {
		attrs = append(attrs, "session", string(key.Session))
	}
	// A divergence may quote the log. Its code and place do not.
	if d, ok := errors.AsType[*session.Divergence](err); ok {
		attrs = append(attrs, "code", d.Code, "seq", uint64(d.Seq))
		text += " " + d.Code
	} else if err != nil {
		attrs = append(attrs, "error", err)
		text += " " + err.Error()
	}
	if r.again(key, text) {
		return
	}
	r.log.Error("trouble with a session", attrs...)
}

func (r *Reporter) again(key host.Key, text string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last[key] == text {
		return true
	}
	if r.last == nil || len(r.last) >= lastMost {
		r.last = map[host.Key]string{}
	}
	r.last[key] = text
	return false
}
