package api

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/perdure/perdure/core/blob"
	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/host"
)

func (s *server) addDecisions() {
	run := "/v1/sessions/{id}/runs/{run}"
	add(s, command(on(http.MethodPost, run+"/approvals", "decideApprovals", "Decide approvals of a run, each alone", http.StatusOK, ScopeDecide)), s.decideApprovals)
	add(s, command(on(http.MethodPost, "/v1/sessions/{id}/approvals/{approvalId}", "decideApproval", "Decide one approval", http.StatusOK, ScopeDecide)), s.decideApproval)
	add(s, command(on(http.MethodPost, run+"/answers", "answerQuestion", "Answer or skip a question", http.StatusOK, ScopeDecide)), s.answerQuestion)
	add(s, on(http.MethodDelete, "/v1/sessions/{id}/remembered/{tool}", "forgetRemembered", "Take remembered approvals of a tool back", http.StatusNoContent, ScopeDecide), s.forget)
	add(s, on(http.MethodGet, "/v1/approvals", "listApprovals", "List what waits for a decision, oldest first", http.StatusOK, ScopeDecide, ScopeRead), s.listApprovals)
	add(s, on(http.MethodGet, "/v1/questions", "listQuestions", "List what waits for an answer, oldest first", http.StatusOK, ScopeDecide, ScopeRead), s.listQuestions)
}

type decideInput struct {
	RunPath
	Body DecideApprovals
}

func (s *server) decideApprovals(ctx context.Context, in *decideInput) (*reply[ApprovalsDecided], error) {
	key, run, err := in.ids(ctx)
	if err != nil {
		return nil, err
	}
	cmd := &host.DecideApprovals{Run: run}
	if cmd.Asked, err = s.asked(requestOf(ctx), in.Body.SubmissionID); err != nil {
		return nil, err
	}
	d, err := s.Engine.View(ctx, key)
	if err != nil {
		return nil, err
	}
	if _, err := s.Engine.RunRow(ctx, key, run); err != nil {
		return nil, err
	}
	// What is no id is said of that decision alone, like everything else.
	results := make([]DecisionResult, 0, len(in.Body.Decisions))
	sp := &host.Spill{}
	for _, dec := range in.Body.Decisions {
		id, err := ident.ParseApprovalID(dec.ApprovalID)
		if err != nil {
			results = append(results, DecisionResult{Code: string(host.CodeInvalid), Detail: "approvalId is not approval_<n>"})
			continue
		}
		results = append(results, DecisionResult{ApprovalID: dec.ApprovalID})
		cmd.Decisions = append(cmd.Decisions, s.decision(ctx, key, &d, id, &dec.Verdict, sp))
	}
	if len(cmd.Decisions) > 0 {
		if d, err = s.Engine.Do(ctx, key, sp.Prepare(cmd)); err != nil {
			return nil, err
		}
		fill(results, d.Replies[0].Decisions)
	}
	shown, err := s.awaitRun(ctx, key, &d, run, 0)
	if err != nil {
		return nil, err
	}
	return answer(http.StatusOK, ApprovalsDecided{Results: results, Run: shown}), nil
}

// fill puts what became of the decisions in the places that were sent on.
func fill(results []DecisionResult, made []host.DecisionReply) {
	i := 0
	for _, r := range made {
		for results[i].ApprovalID == "" {
			i++
		}
		results[i].Status = r.Status
		if r.Refused != nil {
			results[i].Code, results[i].Detail = string(r.Refused.Code), refused(r.Refused).Detail
		}
		i++
	}
}

// decision reads one decision. An edit is screened by the tool's schema before
// it is admitted: nothing is recorded that the tool would refuse.
func (s *server) decision(ctx context.Context, key host.Key, d *host.Done, id ident.ApprovalID, v *Verdict, sp *host.Spill) host.Decision {
	out := host.Decision{Approval: id, Approve: v.Decision == "approve", Note: v.Note, Remember: v.Remember}
	if len(v.Arguments) > 0 {
		out.Edited = new(blob.Payload)
		sp.Text(out.Edited, string(v.Arguments))
		out.EditProblem, out.EditControl = s.Engine.ScreenEdit(ctx, key, d, id, string(v.Arguments))
	}
	return out
}

type decideOneInput struct {
	SessionPath
	Approval string `path:"approvalId" pattern:"^approval_[1-9][0-9]*$" patternDescription:"approval_<n>" doc:"Id of the approval."`
	Body     DecideApproval
}

func (s *server) decideApproval(ctx context.Context, in *decideOneInput) (*reply[Approval], error) {
	key, err := in.key(ctx)
	if err != nil {
		return nil, err
	}
	id, err := ident.ParseApprovalID(in.Approval)
	if err != nil {
		return nil, invalidAt("path.approvalId", "an approval id, approval_<n>")
	}
	cmd := &host.DecideApprovals{}
	if cmd.Asked, err = s.asked(requestOf(ctx), in.Body.SubmissionID); err != nil {
		return nil, err
	}
	d, err := s.Engine.View(ctx, key)
	if err != nil {
		return nil, err
	}
	sp := &host.Spill{}
	cmd.Decisions = []host.Decision{s.decision(ctx, key, &d, id, &in.Body.Verdict, sp)}
	if d, err = s.Engine.Do(ctx, key, sp.Prepare(cmd)); err != nil {
		return nil, err
	}
	if made := d.Replies[0].Decisions; len(made) > 0 && made[0].Refused != nil {
		return nil, made[0].Refused
	}
	rec, err := s.Engine.Approval(ctx, key, id)
	if err != nil {
		return nil, err
	}
	v := s.view(ctx, key)
	return answer(http.StatusOK, v.approval(rec)), v.err
}

type answerInput struct {
	RunPath
	Body AnswerQuestion
}

func (s *server) answerQuestion(ctx context.Context, in *answerInput) (*reply[Run], error) {
	key, run, err := in.ids(ctx)
	if err != nil {
		return nil, err
	}
	b := &in.Body
	cmd := &host.AnswerQuestion{Run: run, Skip: b.Skip}
	if cmd.Asked, err = s.asked(requestOf(ctx), b.SubmissionID); err != nil {
		return nil, err
	}
	if cmd.Question, err = ident.ParseQuestionID(b.QuestionID); err != nil {
		return nil, unfit("body.questionId", "a question id, question_<n>")
	}
	if b.Skip == (len(b.Answers) > 0) && b.Skip {
		return nil, unfit("body.skip", "who skips gives no answers")
	}
	for item, values := range b.Answers {
		cmd.Answers = append(cmd.Answers, host.Answer{Item: item, Values: values})
	}
	slices.SortFunc(cmd.Answers, func(a, b host.Answer) int { return strings.Compare(a.Item, b.Item) })
	d, err := s.Engine.Do(ctx, key, host.Prepared{Command: cmd})
	if err != nil {
		return nil, err
	}
	out, err := s.awaitRun(ctx, key, &d, run, 0)
	if err != nil {
		return nil, err
	}
	return answer(http.StatusOK, out), nil
}

type forgetInput struct {
	SessionPath
	Tool string `path:"tool"`
}

func (s *server) forget(ctx context.Context, in *forgetInput) (*struct{}, error) {
	key, err := in.key(ctx)
	if err != nil {
		return nil, err
	}
	cmd := &host.ForgetRemembered{Tool: in.Tool}
	if cmd.Asked, err = s.asked(requestOf(ctx), ""); err != nil {
		return nil, err
	}
	_, err = s.Engine.Do(ctx, key, host.Prepared{Command: cmd})
	return nil, err
}

type todoInput struct {
	Listing
	Status string `query:"status" enum:"pending" default:"pending"`
	Mine   bool   `query:"mine" doc:"Only of runs that the actor asked for."`
}

func (s *server) listApprovals(ctx context.Context, in *todoInput) (*reply[Page[Approval]], error) {
	return todos(ctx, s, in, "apr", func(v *view, t host.Todo) (Approval, ident.RunID, bool) {
		a := t.Approval
		mayDecide := a.Role == "" || slices.Contains(requestOf(ctx).who.Roles, a.Role)
		return v.approval(*a), a.Run, mayDecide
	})
}

func (s *server) listQuestions(ctx context.Context, in *todoInput) (*reply[Page[Question]], error) {
	return todos(ctx, s, in, "qst", func(v *view, t host.Todo) (Question, ident.RunID, bool) {
		return v.question(*t.Question), t.Question.Run, true
	})
}

// todoAt is where a list of things to do goes on.
type todoAt struct {
	At      ident.Instant   `json:"t"`
	Session ident.SessionID `json:"s"`
	Row     string          `json:"r"`
}

// todos lists what waits for a person, as far as the actor may decide it.
func todos[T any](ctx context.Context, s *server, in *todoInput, kind string, show func(*view, host.Todo) (T, ident.RunID, bool)) (*reply[Page[T]], error) {
	r := requestOf(ctx)
	p := newPager[T](s, r)
	var at todoAt
	if err := s.open(r, &at); err != nil {
		return nil, err
	}
	for scanned := 0; scanned < scanMost; scanned += scanPage {
		var after *host.TodoRow
		if at.Row != "" {
			after = &host.TodoRow{Session: at.Session, Row: host.Row{Key: at.Row, Todo: at.At}}
		}
		found, err := s.Engine.TodoList(ctx, r.who.Tenant, kind, after, scanPage)
		if err != nil {
			return nil, err
		}
		for _, t := range found {
			key := host.Key{Tenant: r.who.Tenant, Session: t.Session}
			v := s.view(ctx, key)
			item, run, may := show(v, t)
			if may && in.Mine {
				if may, err = s.askedFor(ctx, key, run, r.who.Actor); err != nil {
					return nil, err
				}
			}
			if may {
				if p.full() {
					return p.after(at)
				}
				fits, err := p.add(item)
				if err = firstOf(err, v.err); err != nil {
					return nil, err
				}
				if !fits {
					return p.after(at)
				}
			}
			at = todoAt{t.Row.Row.Todo, t.Session, t.Row.Row.Key}
		}
		if len(found) < scanPage {
			return p.end(), nil
		}
	}
	return p.after(at)
}

// askedFor says whether an actor asked for a run.
func (s *server) askedFor(ctx context.Context, key host.Key, run ident.RunID, actor string) (bool, error) {
	rec, err := s.Engine.RunRow(ctx, key, run)
	if notFound(err) {
		return false, nil // deleted meanwhile
	}
	return rec.Actor.ID == actor, err
}
