package scenario

import (
	"bytes"
	"errors"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/replay"
	"github.com/perdure/perdure/core/session"
)

// verbForeign says what a fold makes of the log with a line more that this
// world did not write. The line is taken back, unless it can be folded and no
// run is touched by it.
//
//	foreign
//	{"seq":6,"at":1000,"kind":"run.teleported","v":1,"data":{}}
func verbForeign(w *world, a *args) string {
	line := []byte(strings.Join(a.input(), ""))
	log := append(append([][]byte(nil), w.log...), line)
	_, err := replay.Fold(bytes.Join(log, []byte("\n")), 0)
	switch {
	case errors.Is(err, session.ErrNewer):
		return "left to a newer build: " + err.Error() + "\n"
	case err != nil:
		require.NotEmpty(w.t, replay.Code(err))
		return "quarantine " + replay.Code(err) + ": " + err.Error() + "\n"
	}
	w.log, w.m = log, nil
	return replay.StoredLine(line) + "\n"
}
