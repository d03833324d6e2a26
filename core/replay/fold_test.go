package replay_test

import (
	"bytes"
	"errors"
	"flag"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/replay"
	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/core/wire"
	"github.com/perdure/perdure/events"
)

var update = flag.Bool("update", false, "record events/histories anew: not once a release has read them")

const howTo = "a history that was recorded does not fold as before. Once a release has written its like that\n" +
	"is a bug; until then: go test ./core/replay -run TestRecord -update"

// TestRecord writes the histories that this package knows how to play.
func TestRecord(t *testing.T) {
	t.Parallel()
	if !*update {
		t.Skip("histories are recorded once: pass -update")
	}
	log := string(diary(t))
	edit := func(old, with string) string {
		require.Contains(t, log, old)
		return strings.Replace(log, old, with, 1)
	}
	lines := strings.SplitAfter(log, "\n")
	for name, text := range map[string]string{
		"diary":                             log,
		"bad-malformed_event-unknown-field": edit(`"run.started","v":1,"data":{"run":1}`, `"run.started","v":1,"data":{"run":1,"mood":"good"}`),
		"bad-malformed_event-empty-line":    lines[0] + "\n" + lines[1],
		"bad-newer-kind":                    edit(`"run.started"`, `"run.sung"`),
		"bad-newer-version":                 edit(`"run.started","v":1`, `"run.started","v":2`),
		"bad-seq-gap":                       strings.Join(append(lines[:9:9], lines[10:]...), ""),
		"bad-seq-twice":                     lines[0] + lines[1] + lines[1],
		"bad-time-goes-back":                edit(`"at":1790000000500`, `"at":1789999999999`),
		"bad-lifecycle-not-opened":          strings.Replace(lines[1], `"seq":2`, `"seq":1`, 1),
		"bad-run-unknown":                   edit(`"run.completed","v":1,"data":{"run":1`, `"run.completed","v":1,"data":{"run":9`),
	} {
		require.NoError(t, os.WriteFile(filepath.Join("../../events/histories", name+".jsonl"), []byte(text), 0o600))
	}
}

// A good history folds, to the end and to every cut, and a checkpoint at the
// cut followed by the tail comes to the same state (I2). A bad one stops with
// the code in its name.
func TestHistories(t *testing.T) {
	t.Parallel()
	if *update {
		t.Skip("the files are being written")
	}
	names, err := fs.Glob(events.Files(), "histories/*.jsonl")
	require.NoError(t, err)
	good := 0
	for _, name := range names {
		log, err := fs.ReadFile(events.Files(), name)
		require.NoError(t, err)
		base := strings.TrimSuffix(path.Base(name), ".jsonl")
		if rest, bad := strings.CutPrefix(base, "bad-"); bad {
			t.Run(base, func(t *testing.T) {
				t.Parallel()
				code, _, _ := strings.Cut(rest, "-")
				_, err := replay.Fold(log, 0)
				require.Error(t, err)
				require.Equal(t, code, replay.Code(err), "%v\n%s", err, howTo)
			})
			continue
		}
		good++
		t.Run(base, func(t *testing.T) {
			t.Parallel()
			foldsAtEveryCut(t, log)
		})
	}
	require.Positive(t, good)
	require.Greater(t, len(names), good)
}

func foldsAtEveryCut(t *testing.T, log []byte) {
	t.Helper()
	whole, err := replay.Fold(log, 0)
	require.NoError(t, err, howTo)
	sum := wire.StateSum(whole)
	lines := bytes.SplitAfter(bytes.TrimSuffix(log, []byte("\n")), []byte("\n"))
	require.Equal(t, whole.Seq, ident.Seq(len(lines)))
	for cut := range lines {
		if cut == 0 {
			continue
		}
		prefix, err := replay.Fold(log, ident.Seq(cut))
		require.NoError(t, err)
		data, err := wire.EncodeCheckpoint(prefix)
		require.NoError(t, err)
		s, err := wire.DecodeCheckpoint(data, whole.Inc, ident.Seq(cut))
		require.NoError(t, err)
		require.Empty(t, replay.ExplainStates(prefix, s), "at %d", cut)
		for _, line := range lines[cut:] {
			entry, err := wire.Decode(bytes.TrimSuffix(line, []byte("\n")))
			require.NoError(t, err)
			require.NoError(t, session.Apply(&s, entry))
		}
		require.Empty(t, replay.ExplainStates(whole, s), "from %d", cut)
		require.Equal(t, sum, wire.StateSum(s), "from %d", cut)
	}
}

func TestFoldStopsWhereItIsTold(t *testing.T) {
	t.Parallel()
	log := diary(t)
	s, err := replay.Fold(log, 3)
	require.NoError(t, err)
	require.Equal(t, ident.Seq(3), s.Seq)

	// What comes after does not matter.
	s, err = replay.Fold(append(bytes.Clone(log[:bytes.IndexByte(log, '\n')+1]), "rubbish"...), 1)
	require.NoError(t, err)
	require.Equal(t, ident.Seq(1), s.Seq)

	_, err = replay.Fold(log, 4000)
	require.ErrorIs(t, err, replay.ErrShort)
	require.Equal(t, replay.CodeShort, replay.Code(err))

	s, err = replay.Fold(nil, 0)
	require.NoError(t, err)
	require.Equal(t, session.New, s.Status)
}

func TestFoldNamesTheLine(t *testing.T) {
	t.Parallel()
	log := bytes.Replace(diary(t), []byte(`"run.started","v":1,"data":{"run":1}`), []byte(`"run.started","v":1,"data":{"run":0}`), 1)
	_, err := replay.Fold(log, 0)
	require.ErrorContains(t, err, "line 3: divergence ")
	require.Empty(t, replay.Code(nil))
	require.Empty(t, replay.Code(errors.New("other")))
}
