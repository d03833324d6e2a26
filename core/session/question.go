package session

import (
	"slices"
	"strings"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/ident"
)

// States of a run's intake.
const (
	intakeAsked = "asked"
	intakeDone  = "done"
)

// Sources of a question.
const (
	SourceAsk    = "ask"
	SourceIntake = "intake"
)

func (e *QuestionAsked) apply(s *State, en *Entry) error {
	r, err := s.active(e.Run)
	if err != nil {
		return err
	}
	if err := next("question", &s.Cursors.Question, e.Question); err != nil {
		return err
	}
	if e.Source == SourceIntake {
		r.Intake = intakeAsked
	} else {
		_, c, err := s.call(e.Run, e.Turn, e.Call)
		if err != nil {
			return err
		}
		c.Question = e.Question
	}
	r.Questions = append(slices.Clip(r.Questions), Question{ID: e.Question, Call: e.Call, Source: e.Source, Items: e.Items, At: en.At, ExpiresAt: e.ExpiresAt})
	return nil
}

func (e *QuestionAnswered) apply(s *State, _ *Entry) error {
	r, err := s.active(e.Run)
	if err != nil {
		return err
	}
	q := r.question(e.Question)
	if q == nil {
		return diverge("question", "%s is not pending", e.Question)
	}
	if q.Source == SourceIntake {
		r.Intake = intakeDone
	}
	r.Questions = slices.DeleteFunc(slices.Clone(r.Questions), func(q Question) bool { return q.ID == e.Question })
	return nil
}

// planIntake asks what the config wants known before the first model call.
func planIntake(s *State, env Env) ([]Event, bool) {
	r := s.Active
	if r == nil || r.Ending != nil || r.Intake != "" || r.Turn.ID != 0 || s.Config.Intake.IsZero() {
		return nil, false
	}
	in := s.Config.Intake
	if in.When == "session" && s.Answered {
		return nil, false
	}
	e := &QuestionAsked{Question: s.Cursors.Question + 1, Run: r.ID, Source: SourceIntake, Items: in.Items}
	if in.TTLMs > 0 {
		e.ExpiresAt = env.At.Add(in.TTLMs)
	}
	return []Event{e}, false
}

func (s *State) startAsk(r *Run, c *Call, st *ToolStarted, now ident.Instant, ids *Cursors) []Event {
	if len(r.Questions) >= QuestionsMax {
		return []Event{completed(r, c, CallFailed, "Failed: too many questions are open.")}
	}
	ids.Question++
	q := &QuestionAsked{Question: ids.Question, Run: r.ID, Turn: r.Batch.Turn, Call: c.Index, Source: SourceAsk, Items: c.Control.Items}
	if d := s.Toolset.Find(c.Tool); d != nil && d.Gate.TTLMs > 0 {
		q.ExpiresAt = now.Add(d.Gate.TTLMs)
	}
	return []Event{st, q}
}

func (s *State) admitAnswer(c *AnswerQuestion) ([]Event, Reply, error) {
	if done, reply, err := c.prior(); done {
		return nil, reply, err
	}
	r := s.Active
	if r == nil || r.ID != c.Run || r.question(c.Question) == nil {
		if c.Settled != nil {
			rej := rejectf(CodeAlreadyDecided, "%s is %s already", c.Question, c.Settled.Status)
			rej.Decision = c.Settled
			return nil, Reply{}, rej
		}
		return nil, Reply{}, rejectf(CodeNotFound, "%s has no open %s", c.Run, c.Question)
	}
	if r.Ending != nil {
		return nil, Reply{}, reject(CodeRunNotActive, "the run is being cancelled")
	}
	q := r.question(c.Question)
	free := 0
	for i, a := range c.Answers {
		k := slices.IndexFunc(q.Items, func(it QuestionItem) bool { return it.ID == a.Item })
		if k < 0 {
			return nil, Reply{}, rejectf(CodeValidation, "answer %d is for an item that the question does not have", i+1)
		}
		for _, v := range a.Values {
			if !q.Items[k].has(v) {
				free += len(v)
			}
		}
	}
	if free > FreeTextMax {
		return nil, Reply{}, bound("free text bytes", int64(free), FreeTextMax)
	}
	status := Answered
	given := c.Answers
	if c.Skip {
		// Skipping takes the defaults and says that nobody confirmed them.
		status, given = Skipped, nil
	}
	return s.answer(r, q, status, given, c.Submission, c.who()), Reply{Run: r.ID}, nil
}

// answer ends a question and gives the answers to who waits for them.
func (s *State) answer(r *Run, q *Question, status string, given []Answer, sub Submission, who Who) []Event {
	answers := normalise(q.Items, given)
	ev := []Event{&QuestionAnswered{Question: q.ID, Run: r.ID, Status: status, Answers: answers, Submission: sub, Who: who}}
	text := blob.Inline(blob.Cut(summary(q.Items, answers, status), blob.InlineMax))
	if q.Source == SourceIntake {
		return append(ev, &MessageAdded{Entry: s.Cursors.Entry + 1, Run: r.ID, Role: RoleUser, Source: FromIntake, Text: text})
	}
	if c := r.Batch.call(q.Call); c != nil && !c.terminal() {
		e := completed(r, c, CallCompleted, "")
		e.Result = text
		ev = append(ev, e)
	}
	return ev
}

// normalise makes the answers whole: an item left out takes its defaults, an
// empty list means none of these, a value that is no option is dropped unless
// free text is allowed, a single choice keeps its first.
func normalise(items []QuestionItem, given []Answer) []Answer {
	out := make([]Answer, 0, len(items))
	for _, it := range items {
		i := slices.IndexFunc(given, func(a Answer) bool { return a.Item == it.ID })
		if i < 0 {
			out = append(out, Answer{Item: it.ID, Values: it.Defaults, Defaulted: true})
			continue
		}
		values := []string{}
		for _, v := range given[i].Values {
			if (it.has(v) || it.FreeText) && v != "" && !slices.Contains(values, v) {
				values = append(values, v)
			}
		}
		if !it.Multiple && len(values) > 1 {
			values = values[:1]
		}
		out = append(out, Answer{Item: it.ID, Values: values})
	}
	return out
}

// summary is what the model reads: prompts and labels, not values.
func summary(items []QuestionItem, answers []Answer, status string) string {
	var b strings.Builder
	switch status {
	case Skipped:
		b.WriteString("The person skipped the questions. These are assumptions that nobody confirmed:\n")
	case Expired:
		b.WriteString("Nobody answered in time. These are assumptions that nobody confirmed:\n")
	default:
		b.WriteString("The person answered:\n")
	}
	for i, it := range items {
		b.WriteString(it.Prompt)
		b.WriteString(": ")
		if len(answers[i].Values) == 0 {
			b.WriteString("none of these")
		}
		for j, v := range answers[i].Values {
			if j > 0 {
				b.WriteString(", ")
			}
			b.WriteString(it.label(v))
		}
		if answers[i].Defaulted && status == Answered {
			b.WriteString(" (default, not chosen)")
		}
		b.WriteString("\n")
	}
	return strings.TrimSuffix(b.String(), "\n")
}
