package session

import (
	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/ident"
)

// apply folds as nothing: the command did not take effect, and no run is
// another for it.
func (e *CommandDead) apply(*State, *Entry) error { return nil }

// admitDead notes a command that will not be tried again, whatever else is
// going on. It has no digest to compare: a message is the same by its id.
func (s *State) admitDead(c *NoteDead) ([]Event, Reply, error) {
	if c.Noted {
		return nil, Reply{Same: true}, nil
	}
	if s.Status == Closed {
		return nil, Reply{}, closed()
	}
	if _, err := ident.ParseSubmissionID(c.ID); err != nil { // the same bytes: visible ASCII
		return nil, Reply{}, reject(CodeValidation, "the id of a message is 1 to 128 visible ASCII characters")
	}
	return []Event{&CommandDead{
		Source: c.Source, ID: c.ID, Command: blob.Cut(c.Command, DeadTextMax), Submission: c.Submission, Receives: c.Receives,
		Code: c.Code, Detail: blob.Cut(c.Detail, DeadTextMax), Who: c.Who,
	}}, Reply{}, nil
}
