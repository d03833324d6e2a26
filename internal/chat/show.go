package chat

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/perdure/perdure/internal/api"
)

// data is what the chat reads of an event. Ids inside it are numbers.
type data struct {
	Role      string     `json:"role"`
	Source    string     `json:"source"`
	Text      flexible   `json:"text"`
	Partial   bool       `json:"partial"`
	Input     []api.Part `json:"input"`
	Mode      string     `json:"mode"`
	Tool      string     `json:"tool"`
	Arguments flexible   `json:"arguments"`
	Verdict   string     `json:"verdict"`
	Problem   string     `json:"problem"`
	Status    string     `json:"status"`
	Result    flexible   `json:"result"`
	Error     flexible   `json:"error"`
	Approval  number     `json:"approval"`
	Question  number     `json:"question"`
	Steering  number     `json:"steering"`
	Next      number     `json:"next"`
	Class     string     `json:"class"`
	Message   string     `json:"message"`
	RetryAt   any        `json:"retryAt"`
	Decision  string     `json:"decision"`
	Note      string     `json:"note"`
	By        string     `json:"by"`
	On        []string   `json:"on"`
	Reason    string     `json:"reason"`
	Failure   struct {
		Kind    string `json:"kind"`
		Message string `json:"message"`
	} `json:"failure"`
}

// number is an id: the number alone, or with its prefix.
type number string

// UnmarshalJSON reads either form.
func (n *number) UnmarshalJSON(raw []byte) error {
	text := strings.Trim(string(raw), `"`)
	if i := strings.LastIndexByte(text, '_'); i >= 0 {
		text = text[i+1:]
	}
	*n = number(text)
	return nil
}

// flexible is a text, the reference to a long one, or any other value.
type flexible string

// UnmarshalJSON reads any form.
func (f *flexible) UnmarshalJSON(raw []byte) error {
	var t api.Text
	if json.Unmarshal(raw, &t) == nil && (t.Ref != "" || len(raw) > 0 && raw[0] == '"') {
		*f = flexible(TextOf(t))
		return nil
	}
	if len(raw) > 0 && raw[0] == '[' {
		var parts []api.Part
		if json.Unmarshal(raw, &parts) == nil {
			*f = flexible(InputText(parts))
			return nil
		}
	}
	*f = flexible(raw)
	return nil
}

// Columns of what is shown on a line.
const (
	argumentColumns = 100
	resultColumns   = 100
)

// show prints an event, if it is one that a person wants to see.
func (t *talk) show(e api.Event) {
	var d data
	if err := json.Unmarshal(e.Data, &d); err != nil {
		t.sayf("  %s", e.Kind) // of a newer server: that it came is what there is to say
		return
	}
	family, _, _ := strings.Cut(e.Kind, ".")
	switch family {
	case "run":
		t.showRun(e, &d)
	case "tool":
		t.showCall(e, &d)
	case "approval", "question":
		t.showPerson(e, &d)
	case "message":
		if d.Role == "assistant" && d.Text != "" {
			t.sayf("%s%s", Safe(string(d.Text)), mark(d.Partial, " … (cut off)"))
		}
	case "turn":
		if e.Kind == "turn.failed" && d.RetryAt != nil {
			t.sayf("- the model did not answer (%s); it is asked again", d.Class)
		}
	case "context":
		if e.Kind == "context.cut" {
			t.sayf("- the oldest messages have left what the model sees (%s)", d.Reason)
		}
	case "session":
		if e.Kind == "session.closed" {
			t.sayf("- the session is closed")
			t.over = true
		}
	}
}

func mark(is bool, text string) string {
	if is {
		return text
	}
	return ""
}

func (t *talk) showRun(e api.Event, d *data) {
	switch e.Kind {
	case "run.accepted":
		t.sayf("> %s", OneLine(InputText(d.Input), promptColumns))
	case "run.steered":
		t.sayf("> (steer) %s", OneLine(string(d.Text), promptColumns))
	case "run.steer_delivered":
		t.sayf("- steering_%s has been read", d.Steering)
	case "run.steer_requeued":
		t.sayf("- steering_%s came too late for %s and is run_%s now", d.Steering, e.Run, d.Next)
	case "run.steer_undelivered":
		t.sayf("- steering_%s was never read: %s ended first", d.Steering, e.Run)
	case "run.waiting":
		if on := others(d.On); len(on) > 0 {
			t.sayf("- %s waits for %s", e.Run, strings.Join(on, ", "))
		}
	case "run.cancel_requested":
		t.sayf("- %s is being stopped", e.Run)
	case "run.completed":
		t.sayf("- %s completed", e.Run)
	case "run.failed":
		t.sayf("- %s failed: %s: %s", e.Run, d.Failure.Kind, OneLine(d.Failure.Message, promptColumns))
	case "run.cancelled":
		t.sayf("- %s cancelled", e.Run)
	}
}

// others are what a run waits for beside people, who are told with the event
// that asks them.
func others(on []string) []string {
	var out []string
	for _, kind := range on {
		if kind != "approval" && kind != "question" {
			out = append(out, kind)
		}
	}
	return out
}

func (t *talk) showCall(e api.Event, d *data) {
	switch e.Kind {
	case "tool.called":
		t.calls[e.Call] = d.Tool
		t.sayf("  %s %s%s", d.Tool, OneLine(string(d.Arguments), argumentColumns), mark(d.Verdict != "ok", ": "+d.Verdict+", "+OneLine(d.Problem, resultColumns)))
	case "tool.completed":
		said := string(d.Result)
		if d.Error != "" {
			said = string(d.Error)
		}
		t.sayf("  %s %s%s", t.tool(e.Call), d.Status, mark(said != "", ": "+OneLine(said, resultColumns)))
		delete(t.calls, e.Call)
	}
}

// tool is the name of a call's tool. Of a call that was made before the chat
// began only the id is known.
func (t *talk) tool(call string) string {
	if name := t.calls[call]; name != "" {
		return name
	}
	return call
}

func (t *talk) showPerson(e api.Event, d *data) {
	switch e.Kind {
	case "approval.requested":
		id := "approval_" + string(d.Approval)
		t.sayf("? %s: may %s run?", id, t.tool(e.Call))
		if r := t.now.ActiveRun; r != nil {
			for i := range r.Approvals {
				if a := &r.Approvals[i]; a.ID == id && a.Status == "pending" {
					t.proposal(a)
				}
			}
		}
	case "approval.decided":
		t.sayf("- approval_%s %s%s%s", d.Approval, d.Decision, mark(d.By != "", " by "+d.By), mark(d.Note != "", ": "+OneLine(d.Note, promptColumns)))
	case "question.asked":
		id := "question_" + string(d.Question)
		t.sayf("? %s", id)
		if q := FindQuestion(&t.now, id); q != nil {
			for _, it := range q.Items {
				t.sayf("    %s", QuestionLine(it))
			}
			t.sayf("  /answer %s %s=…", id, q.Items[0].ID)
		}
	case "question.answered":
		t.sayf("- question_%s %s%s", d.Question, d.Status, mark(d.By != "", " by "+d.By))
	}
}

// proposal shows what would be done, whole: it is what a person decides on.
func (t *talk) proposal(a *api.Approval) {
	var args map[string]any
	if json.Unmarshal(a.Arguments, &args) != nil {
		t.sayf("    %s", Safe(string(a.Arguments)))
	}
	for _, name := range slices.Sorted(maps.Keys(args)) {
		value := args[name]
		if text, ok := value.(string); ok && strings.Contains(text, "\n") {
			t.sayf("    %s:", name)
			for line := range strings.Lines(Safe(text)) {
				t.sayf("    | %s", line)
			}
			continue
		}
		shown := fmt.Sprint(value)
		if _, ok := value.(string); !ok {
			if data, err := json.Marshal(value); err == nil {
				shown = string(data)
			}
		}
		t.sayf("    %s: %s", name, OneLine(shown, promptColumns))
	}
	t.sayf("  /approve %s   or   /reject %s WHY", a.ID, a.ID)
}
