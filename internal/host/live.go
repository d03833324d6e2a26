package host

import "github.com/perdure/perdure/core/session"

// NewSignal makes a signal for WaitAny.
func (e *Engine) NewSignal() Signal { return e.d.Sched.NewSignal() }

// TurnInFlight is the attempt at a turn that a model works on, as a frame
// without a piece of it.
func TurnInFlight(s *State) (Frame, bool) {
	for _, eff := range s.InFlight() {
		if call, ok := eff.(*session.CallModel); ok {
			return Frame{Run: call.Run, Turn: call.Turn, Attempt: call.Attempt}, true
		}
	}
	return Frame{}, false
}

// framesOver tells the live side which attempts a step has ended. It comes after
// the commit: until then what was said live is said nowhere else.
func (e *Engine) framesOver(key Key, entries []session.Entry) {
	if e.d.Frames == nil {
		return
	}
	for i := range entries {
		switch ev := entries[i].Event.(type) {
		case *session.TurnCompleted:
			e.d.Frames.TurnOver(key, ev.Turn, ev.Attempt)
		case *session.TurnFailed:
			e.d.Frames.TurnOver(key, ev.Turn, ev.Attempt)
		case *session.TurnCancelled:
			e.d.Frames.TurnOver(key, ev.Turn, ev.Attempt)
		}
	}
}
