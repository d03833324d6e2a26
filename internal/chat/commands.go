package chat

import (
	"context"
	"crypto/rand"
	"regexp"
	"strings"

	"github.com/perdure/perdure/internal/api"
)

const helpText = `A line is a message: it begins a run, or is queued behind the one in progress.
It answers the question that is open, if there is one and it takes free text.
  /steer TEXT            tell the run in progress something, at its next turn
  /interrupt TEXT        stop the run in progress and do this next
  /stop                  stop the run in progress
  /queue                 list what is queued
  /drop RUN              take a run out of the queue
  /approve [ID] [NOTE]   let the call that waits run
  /reject [ID] [WHY]     refuse it; the model reads why
  /answer [ID] ITEM=VALUE …
                         answer a question; --skip leaves the rest to the defaults
  /wait                  take no more lines until nothing moves (for scripts)
  /quit                  leave; the session goes on`

// line takes what was typed.
func (t *talk) line(ctx context.Context, line string) error {
	line = strings.TrimSpace(line)
	if line == "" {
		return nil
	}
	if line[0] != '/' {
		return t.message(ctx, line)
	}
	name, rest, _ := strings.Cut(line, " ")
	rest = strings.TrimSpace(rest)
	switch name {
	case "/help":
		t.sayf("%s", helpText)
	case "/quit":
		t.leave()
	case "/wait":
		t.held = t.untilSettled(false)
	case "/queue":
		return t.queue(ctx)
	case "/stop":
		return t.stop(ctx)
	case "/drop":
		return t.drop(ctx, rest)
	case "/steer":
		return t.steer(ctx, rest)
	case "/interrupt":
		return t.submit(ctx, rest, "interrupt")
	case "/approve":
		return t.decide(ctx, "approve", rest)
	case "/reject":
		return t.decide(ctx, "reject", rest)
	case "/answer":
		return t.answer(ctx, rest)
	default:
		return typedf("there is no %s; /help lists what there is", OneLine(name, labelColumns))
	}
	return nil
}

// message is a line without a slash.
func (t *talk) message(ctx context.Context, line string) error {
	if err := t.look(ctx); err != nil {
		return err
	}
	if q := FindQuestion(&t.now, ""); q != nil && len(q.Items) == 1 && q.Items[0].FreeText {
		return t.send(ctx, q, api.AnswerQuestion{Answers: map[string][]string{q.Items[0].ID: {line}}})
	}
	return t.submit(ctx, line, "queue")
}

// submit asks for a run, and says so when it has to wait.
func (t *talk) submit(ctx context.Context, text, mode string) error {
	if text == "" {
		return typedf("say what to do, as in /%s TEXT", mode)
	}
	input := api.Input{{Type: "text", Text: api.Text{Text: text}}}
	r, err := t.Client.StartRun(ctx, t.Session, api.RequestRun{Input: input, Mode: mode, SubmissionID: rand.Text()}, 0)
	if err != nil {
		return err
	}
	if r.Status == "queued" && mode == "queue" {
		t.sayf("- queued as %s; /steer tells the run in progress instead, /drop %s takes it back", r.ID, r.ID)
	}
	return t.look(ctx)
}

// active is the run in progress.
func (t *talk) active(ctx context.Context) (*api.Run, error) {
	if err := t.look(ctx); err != nil {
		return nil, err
	}
	if t.now.ActiveRun == nil {
		return nil, typedf("no run is in progress")
	}
	return t.now.ActiveRun, nil
}

func (t *talk) steer(ctx context.Context, text string) error {
	if text == "" {
		return typedf("say what to tell the run, as in /steer TEXT")
	}
	r, err := t.active(ctx)
	if err != nil {
		return err
	}
	input := api.Input{{Type: "text", Text: api.Text{Text: text}}}
	if _, err := t.Client.SteerRun(ctx, t.Session, r.ID, api.SteerRun{Input: input, SubmissionID: rand.Text()}); err != nil {
		return err
	}
	return t.look(ctx)
}

func (t *talk) stop(ctx context.Context) error {
	r, err := t.active(ctx)
	if err != nil {
		return err
	}
	if _, err := t.Client.CancelRun(ctx, t.Session, r.ID, api.CancelRun{SubmissionID: rand.Text()}); err != nil {
		return err
	}
	return t.look(ctx)
}

func (t *talk) queue(ctx context.Context) error {
	if err := t.look(ctx); err != nil {
		return err
	}
	if r := t.now.ActiveRun; r != nil {
		t.sayf("  %s  %s  %s", r.ID, r.Status, OneLine(InputText(r.Input), titleColumns))
	}
	for i := range t.now.QueuedRuns {
		r := &t.now.QueuedRuns[i]
		t.sayf("  %s  %s  %s", r.ID, r.Status, OneLine(InputText(r.Input), titleColumns))
	}
	if t.now.ActiveRun == nil && len(t.now.QueuedRuns) == 0 {
		t.sayf("- nothing is in progress, and nothing is queued")
	}
	return nil
}

const titleColumns = 72

func (t *talk) drop(ctx context.Context, id string) error {
	if err := t.look(ctx); err != nil {
		return err
	}
	for i := range t.now.QueuedRuns {
		if t.now.QueuedRuns[i].ID != id {
			continue
		}
		if _, err := t.Client.CancelRun(ctx, t.Session, id, api.CancelRun{SubmissionID: rand.Text()}); err != nil {
			return err
		}
		return t.look(ctx)
	}
	return typedf("%s is not queued; /queue lists what is, /stop stops the run in progress", OneLine(id, labelColumns))
}

var (
	approvalID = regexp.MustCompile(`^approval_[0-9]+$`)
	questionID = regexp.MustCompile(`^question_[0-9]+$`)
)

// first takes an id off the beginning of a line, if there is one.
func first(form *regexp.Regexp, line string) (id, rest string) {
	word, rest, _ := strings.Cut(line, " ")
	if form.MatchString(word) {
		return word, strings.TrimSpace(rest)
	}
	return "", line
}

// decide decides the approval that is named, or the only one. While a run is in
// progress and nothing waits yet, the decision does.
func (t *talk) decide(ctx context.Context, decision, line string) error {
	id, note := first(approvalID, line)
	d := api.DecideApproval{Verdict: api.Verdict{Decision: decision, Note: note}, SubmissionID: rand.Text()}
	if id != "" {
		_, err := t.Client.Decide(ctx, t.Session, id, d)
		return err
	}
	if err := t.look(ctx); err != nil {
		return err
	}
	t.held = func(ctx context.Context) (bool, error) {
		pending := t.pending()
		switch {
		case len(pending) == 1:
			if _, err := t.Client.Decide(ctx, t.Session, pending[0], d); err != nil {
				return true, err
			}
			return true, t.look(ctx)
		case len(pending) > 1:
			return true, typedf("say which: %s", strings.Join(pending, ", "))
		case t.settled():
			return true, typedf("nothing waits for a decision")
		}
		return false, nil
	}
	return nil
}

// pending are the approvals that wait.
func (t *talk) pending() []string {
	var ids []string
	if r := t.now.ActiveRun; r != nil {
		for i := range r.Approvals {
			if r.Approvals[i].Status == "pending" {
				ids = append(ids, r.Approvals[i].ID)
			}
		}
	}
	return ids
}

// answer answers the question that is named, or the only one. It waits for one
// as decide does.
func (t *talk) answer(ctx context.Context, line string) error {
	id, rest := first(questionID, line)
	if err := t.look(ctx); err != nil {
		return err
	}
	t.held = func(ctx context.Context) (bool, error) {
		q := FindQuestion(&t.now, id)
		if q == nil {
			if t.settled() || id != "" {
				return true, typedf("no such question waits, or more than one does: say which")
			}
			return false, nil
		}
		a, err := parseAnswer(q, rest)
		if err != nil {
			return true, err
		}
		return true, t.send(ctx, q, a)
	}
	return nil
}

// parseAnswer reads item=value words; with one item the whole line is its
// answer.
func parseAnswer(q *api.Question, line string) (api.AnswerQuestion, error) {
	var a api.AnswerQuestion
	line, a.Skip = cutSkip(line)
	words := strings.Fields(line)
	if len(q.Items) == 1 && line != "" && !strings.HasPrefix(line, q.Items[0].ID+"=") && q.Items[0].FreeText {
		words = []string{line}
	}
	if len(words) == 0 && !a.Skip {
		return a, typedf("say what, as in /answer %s=…, or /answer --skip", q.Items[0].ID)
	}
	answers, err := ParseAnswers(q.Items, words)
	if err != nil {
		return a, typedError(err.Error())
	}
	a.Answers = answers
	return a, nil
}

func cutSkip(line string) (string, bool) {
	if line == "--skip" {
		return "", true
	}
	rest, found := strings.CutSuffix(line, " --skip")
	return rest, found
}

func (t *talk) send(ctx context.Context, q *api.Question, a api.AnswerQuestion) error {
	a.QuestionID, a.SubmissionID = q.ID, rand.Text()
	if _, err := t.Client.Answer(ctx, t.Session, q.RunID, a); err != nil {
		return err
	}
	return t.look(ctx)
}
