package localstack_test

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/localstack/target"
)

// question asks one thing of a target that the design rests on, or that is in its
// way.
type question struct {
	name string
	// gap names the one in localstack/gaps that closes this for MiniStack, if one
	// does.
	gap string
	// needs is what there must be for the question to be put at all.
	needs target.Capability
	// aws is what AWS answers, and source the page on which AWS says so.
	aws, source string
	// differs has, by their names, the targets that answer otherwise, and what.
	differs map[string]string
	// ask is true where the answer is AWS's.
	ask func(t *testing.T, w *world) bool
}

// questions are all of them. docs/TARGETS.md is made from them.
func questions() []question {
	return slices.Concat(machineQuestions, mapQuestions, startQuestions, tokenQuestions, functionQuestions, queueQuestions, tableQuestions, objectQuestions, httpQuestions)
}

// TestQuestionsSayWhatAWSDocuments holds the list to its form.
func TestQuestionsSayWhatAWSDocuments(t *testing.T) {
	t.Parallel()
	targets := map[string]bool{}
	for _, known := range target.Known() {
		targets[known.Name] = known.Name != target.NameAWS
	}
	names := map[string]bool{}
	for _, q := range questions() {
		require.False(t, names[q.name], "two questions are called %s", q.name)
		names[q.name] = true
		require.Regexp(t, `^[A-Z$].*\.$`, q.aws, q.name)
		require.Regexp(t, `^https://docs\.aws\.amazon\.com/\S+\.html(#\S+)?$`, q.source, q.name)
		for name, how := range q.differs {
			require.True(t, targets[name], "%s: there is no target %s that may differ from AWS", q.name, name)
			require.NotEmpty(t, how, q.name)
		}
		if q.gap != "" {
			require.NotContains(t, q.differs, target.NameEmulator, "%s: what is closed is no difference", q.name)
		}
	}
}

// A gap that nobody asks about might be closed wrongly, or long be gone.
func TestEveryGapIsAskedAbout(t *testing.T) {
	t.Parallel()
	target.Get(t)
	root, err := target.Root()
	require.NoError(t, err)
	said, err := exec.CommandContext(t.Context(), "python3", filepath.Join(root, "localstack", "emulator.py"), "gaps").Output()
	require.NoError(t, err)
	var known, asked []string
	for line := range strings.Lines(string(said)) {
		if !strings.HasPrefix(line, " ") {
			known = append(known, strings.TrimSpace(line))
		}
	}
	for _, q := range gaps() {
		if !slices.Contains(asked, q.gap) {
			asked = append(asked, q.gap)
		}
	}
	require.ElementsMatch(t, known, asked)
}

// gaps are the questions that MiniStack as it comes answers otherwise than AWS.
func gaps() []question {
	return slices.DeleteFunc(questions(), func(q question) bool { return q.gap == "" })
}

// TestGapsAreStillOpenUpstream puts the questions to MiniStack as it comes. One
// that it answers as AWS does is no gap any more: take it out of localstack/gaps,
// and its name off the question.
func TestGapsAreStillOpenUpstream(t *testing.T) {
	t.Parallel()
	w := newWorld(t, target.Emulator(t, "all"))
	atOnce(t, gaps(), func(t *testing.T, q question) {
		require.False(t, q.ask(t, w), "MiniStack answers this as AWS does: the gap is closed without us")
	})
}

// TestT80TargetsAnswerAsAWS puts the same questions to the target, whichever it
// is: with PERDURE_AWS_ENDPOINT=aws to AWS itself, which is what the answers are
// held against. A difference that is known is held against the target, too.
func TestT80TargetsAnswerAsAWS(t *testing.T) {
	t.Parallel()
	w := newWorld(t, target.Get(t))
	atOnce(t, questions(), func(t *testing.T, q question) {
		if q.needs != "" {
			w.Need(t, q.needs)
		}
		if how, known := q.differs[w.Can.Name]; known {
			require.False(t, q.ask(t, w), "%s answers this as AWS does, which it was not known to: %s", w.Can.Name, how)
			return
		}
		require.True(t, q.ask(t, w), "AWS: %s", q.aws)
	})
}

// atOnce puts all questions at the same time, however few processors there are:
// what they do is wait.
func atOnce(t *testing.T, questions []question, put func(*testing.T, question)) {
	t.Helper()
	var all sync.WaitGroup
	for _, q := range questions {
		all.Go(func() {
			t.Run(q.name, func(t *testing.T) { put(t, q) })
		})
	}
	all.Wait()
}
