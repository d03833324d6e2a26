package scenario

import (
	"fmt"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/session"
)

// verbAdvance moves the clock, and wakes the session; with quiet nobody does.
//
//	advance 60s
//	advance 1h quiet
func verbAdvance(w *world, a *args) string {
	quiet := a.flag("quiet")
	by := a.taker()
	b := a.bare()
	require.Len(a.t, b, 1, a.at)
	w.at = w.at.Add(a.millis(b[0]))
	if quiet {
		return "it is later\n"
	}
	return w.step(by, &session.Wake{})
}

// verbDrive lets a driver look at the session: it is the one that a step asked
// for by "work for a driver".
func verbDrive(w *world, _ *args) string { return w.step(driver) }

// verbCrash ends the process that performed the effects. Nothing is said of
// them any more, and the state is folded from the log.
func verbCrash(w *world, _ *args) string {
	var b strings.Builder
	for _, p := range w.pending {
		fmt.Fprintf(&b, "lost %s\n", p.claim)
	}
	w.pending = nil
	w.m = nil
	if b.Len() == 0 {
		return "lost nothing\n"
	}
	return b.String()
}

// verbResume is the next driver, which finds the effects in flight orphaned.
func verbResume(w *world, _ *args) string { return w.step(driver, &session.Resume{}) }
