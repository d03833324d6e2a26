package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/perdure/perdure/internal/api"
	"github.com/perdure/perdure/internal/chat"
	"github.com/perdure/perdure/internal/client"
)

// runCommand is everything about runs.
type runCommand struct {
	Start  runStart  `cmd:"" help:"Ask for a run."`
	Get    runGet    `cmd:"" help:"Show a run."`
	List   runList   `cmd:"" help:"List a session's runs, newest first."`
	Steer  runSteer  `cmd:"" help:"Tell a run in progress something."`
	Cancel runCancel `cmd:"" help:"Stop a run, or take it out of the queue."`
	Calls  runCalls  `cmd:"" help:"Show a run's tool calls."`
}

type runStart struct {
	Session    string   `arg:""                                                                        help:"Id of the session."`
	Text       []string `arg:""                                                                        help:"What is asked."`
	Mode       string   `default:"queue" enum:"queue,steer,interrupt,reject" help:"What to do when the session is busy: queue, steer, interrupt or reject."`
	Wait       bool     `help:"Wait until the run is over, or waits for somebody."`
	Submission string   `help:"Idempotency key: the same key and text is the same run."                 placeholder:"ID"`
	Config     string   `help:"JSON of what this run changes: model, params, limits."                   placeholder:"JSON"`
}

// Run does it.
func (c *runStart) Run(a *app) error {
	r := api.RequestRun{Input: inputOf(c.Text), SubmissionID: c.Submission, Mode: c.Mode}
	if c.Config != "" {
		r.Config = &api.RunConfig{}
		if err := json.Unmarshal([]byte(c.Config), r.Config); err != nil {
			return fmt.Errorf("--config: %w", err)
		}
	}
	return a.callRun(c.Session, c.Wait, func(cl *client.Client) (api.Run, error) { return cl.StartRun(a.ctx, c.Session, r, 0) })
}

func inputOf(words []string) api.Input {
	return api.Input{{Type: "text", Text: api.Text{Text: strings.Join(words, " ")}}}
}

// callRun calls, waits if it should, and prints a run.
func (a *app) callRun(session string, wait bool, do func(cl *client.Client) (api.Run, error)) error {
	var r api.Run
	return a.call(func(cl *client.Client) (err error) {
		if r, err = do(cl); err != nil || !wait {
			return err
		}
		for !settled(&r) {
			if r, err = cl.Run(a.ctx, session, r.ID, waitSeconds); err != nil {
				return err
			}
		}
		return nil
	}, func() { a.showRun(&r) })
}

// waitSeconds is the longest that the server lets a request wait.
const waitSeconds = 20

// settled says that a run is over, or that it waits.
func settled(r *api.Run) bool {
	return slices.Contains([]string{"waiting", "completed", "failed", "cancelled"}, r.Status)
}

type runGet struct {
	Session string `arg:"" help:"Id of the session."`
	ID      string `arg:"" help:"Id of the run, as in run_1." name:"run"`
	Wait    bool   `help:"Wait until the run is over, or waits for somebody."`
}

// Run does it.
func (c *runGet) Run(a *app) error {
	return a.callRun(c.Session, c.Wait, func(cl *client.Client) (api.Run, error) { return cl.Run(a.ctx, c.Session, c.ID, 0) })
}

type runList struct {
	Session string `arg:"" help:"Id of the session."`
	Status  string `help:"Only runs of this status."`
	Limit   int    `default:"50"                    help:"At most so many."`
	Cursor  string `help:"Where to go on, from the end of the last list."`
}

// Run does it.
func (c *runList) Run(a *app) error {
	query := url.Values{"limit": {strconv.Itoa(c.Limit)}}
	for name, value := range map[string]string{"status": c.Status, "cursor": c.Cursor} {
		if value != "" {
			query.Set(name, value)
		}
	}
	var page api.Page[api.Run]
	return a.call(func(cl *client.Client) (err error) {
		page, err = cl.Runs(a.ctx, c.Session, query)
		return err
	}, func() {
		for _, r := range page.Items {
			a.printf("%s  %s  %s  %s\n", r.ID, clock(r.AcceptedAt), r.Status, chat.OneLine(chat.InputText(r.Input), titleWidth))
		}
		if page.Next != "" {
			a.printf("… --cursor %s\n", page.Next)
		}
	})
}

type runSteer struct {
	Session    string   `arg:""                                                         help:"Id of the session."`
	ID         string   `arg:""                                                         help:"Id of the run."       name:"run"`
	Text       []string `arg:""                                                         help:"What the run is told."`
	Submission string   `help:"Idempotency key: the same key and text is the same steer." placeholder:"ID"`
}

// Run does it.
func (c *runSteer) Run(a *app) error {
	var s api.Steered
	return a.call(func(cl *client.Client) (err error) {
		s, err = cl.SteerRun(a.ctx, c.Session, c.ID, api.SteerRun{Input: inputOf(c.Text), SubmissionID: c.Submission})
		return err
	}, func() { a.printf("%s of %s is %s\n", s.SteeringID, s.Run.ID, "taken; the next turn carries it") })
}

type runCancel struct {
	Session    string `arg:""                                              help:"Id of the session."`
	ID         string `arg:""                                              help:"Id of the run."     name:"run"`
	Force      bool   `help:"Do not wait for what is under way."`
	Wait       bool   `help:"Wait until the run is over."`
	Submission string `help:"Idempotency key: the same key is the same cancel." placeholder:"ID"`
}

// Run does it.
func (c *runCancel) Run(a *app) error {
	return a.callRun(c.Session, c.Wait, func(cl *client.Client) (api.Run, error) {
		return cl.CancelRun(a.ctx, c.Session, c.ID, api.CancelRun{Force: c.Force, SubmissionID: c.Submission})
	})
}

type runCalls struct {
	Session string `arg:"" help:"Id of the session."`
	ID      string `arg:"" help:"Id of the run."     name:"run"`
}

// Run does it.
func (c *runCalls) Run(a *app) error {
	var page api.Page[api.ToolCall]
	return a.call(func(cl *client.Client) (err error) {
		page, err = cl.Calls(a.ctx, c.Session, c.ID)
		return err
	}, func() {
		for _, call := range page.Items {
			a.printf("%s  %s  %s %s\n", call.ID, call.Status, call.Tool, chat.Arguments(json.RawMessage(call.Arguments), wideWidth))
			if said := chat.TextOf(call.Result) + chat.TextOf(call.Error); said != "" {
				a.printf("  %s\n", chat.OneLine(said, wideWidth))
			}
			for _, e := range call.Effects {
				a.printf("  %s %s %s\n", e.Kind, e.Subject, e.Detail)
			}
		}
	})
}

// approveCommand lets a call run.
type approveCommand struct {
	Session   string `arg:""                                               help:"Id of the session."`
	Approval  string `arg:""                                               help:"Id of the approval, as in approval_1."`
	Note      string `help:"What the record says of it."`
	Arguments string `help:"JSON that the tool gets instead of the model's arguments." placeholder:"JSON"`
	Remember  bool   `help:"Let later calls of this tool run unasked in this session, where its policy allows."`
}

// Run does it.
func (c *approveCommand) Run(a *app) error {
	v := api.Verdict{Decision: "approve", Note: c.Note, Remember: c.Remember}
	if c.Arguments != "" {
		if err := json.Unmarshal([]byte(c.Arguments), &v.Arguments); err != nil {
			return fmt.Errorf("--arguments: %w", err)
		}
	}
	return a.decide(c.Session, c.Approval, v)
}

// rejectCommand refuses a call.
type rejectCommand struct {
	Session  string `arg:""                  help:"Id of the session."`
	Approval string `arg:""                  help:"Id of the approval, as in approval_1."`
	Note     string `help:"Why; the model reads it."`
}

// Run does it.
func (c *rejectCommand) Run(a *app) error {
	return a.decide(c.Session, c.Approval, api.Verdict{Decision: "reject", Note: c.Note})
}

func (a *app) decide(session, approval string, v api.Verdict) error {
	var p api.Approval
	return a.call(func(cl *client.Client) (err error) {
		p, err = cl.Decide(a.ctx, session, approval, api.DecideApproval{Verdict: v})
		return err
	}, func() { a.printf("%s of %s is %s\n", p.ID, p.RunID, p.Status) })
}

// answerCommand answers a question.
type answerCommand struct {
	Session  string   `arg:""                                     help:"Id of the session."`
	Question string   `arg:""                                     help:"Id of the question, as in question_1."`
	Values   []string `arg:""                                     help:"Answers, as item=value; an item may come more than once. One without an item is for the only item." name:"answer" optional:""`
	Skip     bool     `help:"Leave the rest to what counts by default."`
}

// Run does it.
func (c *answerCommand) Run(a *app) error {
	if len(c.Values) == 0 && !c.Skip {
		return errors.New("say item=value, or --skip")
	}
	var r api.Run
	return a.call(func(cl *client.Client) error {
		s, err := cl.Session(a.ctx, c.Session)
		if err != nil {
			return err
		}
		q := chat.FindQuestion(&s, c.Question)
		if q == nil {
			return fmt.Errorf("%s is not waiting for an answer in session %s", c.Question, c.Session)
		}
		answers, err := chat.ParseAnswers(q.Items, c.Values)
		if err != nil {
			return err
		}
		r, err = cl.Answer(a.ctx, c.Session, q.RunID, api.AnswerQuestion{QuestionID: c.Question, Answers: answers, Skip: c.Skip})
		return err
	}, func() { a.showRun(&r) })
}

// todoCommand lists what waits for a person.
type todoCommand struct{}

// Run does it.
func (c *todoCommand) Run(a *app) error {
	var approvals api.Page[api.Approval]
	var questions api.Page[api.Question]
	cl, err := a.client()
	if err != nil {
		return err
	}
	if approvals, err = cl.Approvals(a.ctx, nil); err != nil {
		return a.explain(err)
	}
	if questions, err = cl.Questions(a.ctx, nil); err != nil {
		return a.explain(err)
	}
	if a.grammar.JSON {
		return json.NewEncoder(a.out).Encode(map[string]any{"approvals": approvals.Items, "questions": questions.Items})
	}
	if len(approvals.Items)+len(questions.Items) == 0 {
		a.println("nothing waits for anybody")
	}
	for i := range approvals.Items {
		a.showApproval(&approvals.Items[i])
	}
	for i := range questions.Items {
		a.showQuestion(&questions.Items[i])
	}
	return nil
}

// eventsCommand prints a session's events.
type eventsCommand struct {
	Session string `arg:""                                   help:"Id of the session."`
	After   uint64 `help:"Only what comes after this event." placeholder:"SEQ"`
	Follow  bool   `help:"Go on with what comes, until Ctrl-C." short:"f"`
}

// Run does it.
func (c *eventsCommand) Run(a *app) error {
	cl, err := a.client()
	if err != nil {
		return err
	}
	out := json.NewEncoder(a.out)
	out.SetEscapeHTML(false)
	for e, err := range cl.Follow(a.ctx, c.Session, c.After, c.Follow) {
		if err != nil {
			return a.explain(err)
		}
		if a.grammar.JSON {
			if err := out.Encode(e); err != nil {
				return err
			}
			continue
		}
		a.printf("%d %s  %s  %s\n", e.Seq, clock(e.At), e.Kind, chat.OneLine(string(e.Data), wideWidth))
	}
	return nil
}
