package session

// The stored kind of each event.

// Kind implements Event.
func (*SessionOpened) Kind() Kind { return KindSessionOpened }

// Kind implements Event.
func (*SessionConfigured) Kind() Kind { return KindSessionConfigured }

// Kind implements Event.
func (*SessionClosed) Kind() Kind { return KindSessionClosed }

// Kind implements Event.
func (*SessionQuarantined) Kind() Kind { return KindSessionQuarantined }

// Kind implements Event.
func (*SessionReleased) Kind() Kind { return KindSessionReleased }

// Kind implements Event.
func (*RunAccepted) Kind() Kind { return KindRunAccepted }

// Kind implements Event.
func (*RunStarted) Kind() Kind { return KindRunStarted }

// Kind implements Event.
func (*RunSteered) Kind() Kind { return KindRunSteered }

// Kind implements Event.
func (*RunSteerDelivered) Kind() Kind { return KindSteerDelivered }

// Kind implements Event.
func (*RunSteerRequeued) Kind() Kind { return KindSteerRequeued }

// Kind implements Event.
func (*RunSteerUndelivered) Kind() Kind { return KindSteerUndelivered }

// Kind implements Event.
func (*RunCancelRequested) Kind() Kind { return KindCancelRequested }

// Kind implements Event.
func (*RunWaiting) Kind() Kind { return KindRunWaiting }

// Kind implements Event.
func (*RunResumed) Kind() Kind { return KindRunResumed }

// Kind implements Event.
func (*RunCompleted) Kind() Kind { return KindRunCompleted }

// Kind implements Event.
func (*RunFailed) Kind() Kind { return KindRunFailed }

// Kind implements Event.
func (*RunCancelled) Kind() Kind { return KindRunCancelled }

// Kind implements Event.
func (*TurnRequested) Kind() Kind { return KindTurnRequested }

// Kind implements Event.
func (*TurnCompleted) Kind() Kind { return KindTurnCompleted }

// Kind implements Event.
func (*TurnFailed) Kind() Kind { return KindTurnFailed }

// Kind implements Event.
func (*TurnCancelled) Kind() Kind { return KindTurnCancelled }

// Kind implements Event.
func (*ToolsPublished) Kind() Kind { return KindToolsPublished }

// Kind implements Event.
func (*MessageAdded) Kind() Kind { return KindMessageAdded }

// Kind implements Event.
func (*ToolCalled) Kind() Kind { return KindToolCalled }

// Kind implements Event.
func (*ToolStarted) Kind() Kind { return KindToolStarted }

// Kind implements Event.
func (*ToolCompleted) Kind() Kind { return KindToolCompleted }

// Kind implements Event.
func (*ToolLate) Kind() Kind { return KindToolLate }

// Kind implements Event.
func (*ApprovalRequested) Kind() Kind { return KindApprovalRequested }

// Kind implements Event.
func (*ApprovalDecided) Kind() Kind { return KindApprovalDecided }

// Kind implements Event.
func (*ApprovalRemembered) Kind() Kind { return KindApprovalRemembered }

// Kind implements Event.
func (*ApprovalForgotten) Kind() Kind { return KindApprovalForgotten }

// Kind implements Event.
func (*QuestionAsked) Kind() Kind { return KindQuestionAsked }

// Kind implements Event.
func (*QuestionAnswered) Kind() Kind { return KindQuestionAnswered }

// Kind implements Event.
func (*PromiseCreated) Kind() Kind { return KindPromiseCreated }

// Kind implements Event.
func (*PromiseSettled) Kind() Kind { return KindPromiseSettled }

// Kind implements Event.
func (*PromiseDetached) Kind() Kind { return KindPromiseDetached }

// Kind implements Event.
func (*ContextEdited) Kind() Kind { return KindContextEdited }

// Kind implements Event.
func (*ContextCut) Kind() Kind { return KindContextCut }

// Kind implements Event.
func (*CompactionStarted) Kind() Kind { return KindCompactionStarted }

// Kind implements Event.
func (*CompactionFailed) Kind() Kind { return KindCompactionFailed }

// Kind implements Event.
func (*CommandDead) Kind() Kind { return KindCommandDead }

// Kinds lists every kind that this build writes, with a zero event of it.
func Kinds() []Event {
	return []Event{
		&SessionOpened{},
		&SessionConfigured{},
		&SessionClosed{},
		&SessionQuarantined{},
		&SessionReleased{},
		&RunAccepted{},
		&RunStarted{},
		&RunSteered{},
		&RunSteerDelivered{},
		&RunSteerRequeued{},
		&RunSteerUndelivered{},
		&RunCancelRequested{},
		&RunWaiting{},
		&RunResumed{},
		&RunCompleted{},
		&RunFailed{},
		&RunCancelled{},
		&TurnRequested{},
		&TurnCompleted{},
		&TurnFailed{},
		&TurnCancelled{},
		&ToolsPublished{},
		&MessageAdded{},
		&ToolCalled{},
		&ToolStarted{},
		&ToolCompleted{},
		&ToolLate{},
		&ApprovalRequested{},
		&ApprovalDecided{},
		&ApprovalRemembered{},
		&ApprovalForgotten{},
		&QuestionAsked{},
		&QuestionAnswered{},
		&PromiseCreated{},
		&PromiseSettled{},
		&PromiseDetached{},
		&ContextEdited{},
		&ContextCut{},
		&CompactionStarted{},
		&CompactionFailed{},
		&CommandDead{},
	}
}
