package wire

import (
	"cmp"
	"slices"

	"github.com/perdure/perdure/core/session"
)

// SubmissionDigest says what an idempotency key was used for: a hash of what a
// command asks, and not of who asked, or of what the host found out about it.
// It is empty for a command that takes no key.
//
// Digests are stored with their keys for as long as a session lives, so these
// forms never change. A field that a command gains is added at the end of its
// form, by its name and value, and only when it is set.
func SubmissionDigest(command session.Command) string {
	switch c := command.(type) {
	case *session.RequestRun:
		return digestRun(c)
	case *session.SteerRun:
		return Begin("perdure.submission.steer.1").Uint(uint64(c.Run)).Parts(c.Text).Sum()
	case *session.CancelRun:
		return Begin("perdure.submission.cancel.1").Uint(uint64(c.Run)).Bool(c.Force).Sum()
	case *session.DecideApprovals:
		return digestDecisions(c)
	case *session.AnswerQuestion:
		return digestAnswers(c)
	default:
		return ""
	}
}

func digestRun(c *session.RequestRun) string {
	// No mode and the default one ask the same.
	f := Begin("perdure.submission.run.1").Parts(c.Input).Str(cmp.Or(c.Mode, session.ModeQueue))
	f.Str(c.Config.Provider).Str(c.Config.Model).Str(c.Config.Params).Int(c.Config.MaxOutput)
	l := c.Config.Limits
	f.Int(l.MaxTurns).Int(l.MaxToolRounds).Int(l.MaxTokens).Int(l.MaxCostMicros).Int(l.MaxSeconds).Int(l.MaxRepeats)
	return f.Sum()
}

func digestDecisions(c *session.DecideApprovals) string {
	f := Begin("perdure.submission.approvals.1").Uint(uint64(c.Run)).Len(len(c.Decisions))
	for _, d := range c.Decisions {
		f.Uint(uint64(d.Approval)).Bool(d.Approve).Str(d.Note).Bool(d.Edited != nil)
		if d.Edited != nil {
			f.Payload(*d.Edited)
		}
		f.Bool(d.Remember)
	}
	return f.Sum()
}

func digestAnswers(c *session.AnswerQuestion) string {
	// Answers are an object where they are asked for: their order says nothing.
	answers := slices.Clone(c.Answers)
	slices.SortStableFunc(answers, func(a, b session.Answer) int { return cmp.Compare(a.Item, b.Item) })
	f := Begin("perdure.submission.answers.1").Uint(uint64(c.Run)).Uint(uint64(c.Question)).Bool(c.Skip).Len(len(answers))
	for _, a := range answers {
		f.Str(a.Item).Strs(a.Values)
	}
	return f.Sum()
}
