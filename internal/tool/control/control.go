// Package control is the family of the session's own tools: sleep, await,
// detach, cancel and ask. It says what they are called with and reads their
// arguments; what they then do is the core's, so none of them has a Run.
//
// It knows no session's state: whether a promise exists is decided where that
// state is. It may import the standard library, core and internal/tool.
package control

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"strings"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/session"
	"github.com/perdure/perdure/internal/tool"
)

const (
	promisesSchema = `{"type":"array","items":{"type":"string","pattern":"^promise_[1-9][0-9]*$"},"minItems":1,"maxItems":32,"uniqueItems":true}`

	sleepSchema  = `{"type":"object","properties":{"seconds":{"type":"number","exclusiveMinimum":0,"maximum":31536000}},"required":["seconds"],"additionalProperties":false}`
	awaitSchema  = `{"type":"object","properties":{"promises":` + promisesSchema + `,"mode":{"enum":["all","any"]},"timeoutSeconds":{"type":"number","minimum":0,"maximum":31536000}},"required":["promises"],"additionalProperties":false}`
	settleSchema = `{"type":"object","properties":{"promises":` + promisesSchema + `},"required":["promises"],"additionalProperties":false}`
	askSchema    = `{"type":"object","properties":{"questions":{"type":"array","minItems":1,"maxItems":5,"items":{"type":"object","properties":{` +
		`"id":{"type":"string","minLength":1,"maxLength":128},"prompt":{"type":"string","minLength":1,"maxLength":2000},` +
		`"options":{"type":"array","maxItems":20,"items":{"type":"object","properties":{"value":{"type":"string","minLength":1,"maxLength":200},"label":{"type":"string","maxLength":200}},"required":["value"],"additionalProperties":false}},` +
		`"multiple":{"type":"boolean"},"freeText":{"type":"boolean"},"defaults":{"type":"array","minItems":1,"maxItems":20,"items":{"type":"string","maxLength":2000}}},` +
		`"required":["id","prompt","defaults"],"additionalProperties":false}}},"required":["questions"],"additionalProperties":false}`

	sleepText  = "Wait for a number of seconds (up to a year) before going on. Waiting costs nothing."
	awaitText  = "Wait until promises are settled: all of them, or with mode any the first. Promises have ids like promise_3, which other tools return. After timeoutSeconds it returns what is known so far; promises not settled stay pending."
	detachText = "Let promises outlive this run. When one is settled later, its value begins a run of its own."
	cancelText = "Give up promises: nobody waits for them any more, and whoever works on them is told."
	askText    = "Ask the person up to five questions and wait for the answers. Give options to choose from where you can; freeText lets them write something else, multiple lets them choose several. " +
		"defaults is what counts when nobody answers: one of the options' values, or text if freeText is true."
)

// Tools returns the family.
func Tools() []tool.Spec {
	spec := func(class, description, schema string, parallel bool, read func(map[string]any) (*session.Control, error)) tool.Spec {
		return tool.Spec{
			// The tools of the session are called what their classes are.
			Name: class, Kind: tool.KindRead, Class: class, Description: description, Parameters: schema,
			RetrySafe: true, Parallel: parallel, Target: "session", Control: read,
		}
	}
	return []tool.Spec{
		spec(session.ClassSleep, sleepText, sleepSchema, true, sleep),
		spec(session.ClassAwait, awaitText, awaitSchema, true, await),
		spec(session.ClassDetach, detachText, settleSchema, false, settle),
		spec(session.ClassCancel, cancelText, settleSchema, false, settle),
		spec(session.ClassAsk, askText, askSchema, false, ask),
	}
}

func sleep(arguments map[string]any) (*session.Control, error) {
	ms, err := millis("seconds", arguments["seconds"], session.SleepMax)
	if err != nil {
		return nil, err
	}
	if ms == 0 {
		return nil, errors.New("seconds must be above 0")
	}
	return &session.Control{SleepMs: ms}, nil
}

func await(arguments map[string]any) (*session.Control, error) {
	c, err := settle(arguments)
	if err != nil {
		return nil, err
	}
	c.Any = arguments["mode"] == "any"
	if timeout, there := arguments["timeoutSeconds"]; there {
		c.Timed = true
		if c.TimeoutMs, err = millis("timeoutSeconds", timeout, session.PromiseMax); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func settle(arguments map[string]any) (*session.Control, error) {
	list, _ := arguments["promises"].([]any)
	if len(list) == 0 || len(list) > session.AwaitMax {
		return nil, fmt.Errorf("promises has %d ids, allowed are 1 to %d", len(list), session.AwaitMax)
	}
	c := &session.Control{Promises: make([]ident.PromiseID, 0, len(list))}
	for i, item := range list {
		text, _ := item.(string)
		id, err := ident.ParsePromiseID(text)
		if err != nil {
			return nil, fmt.Errorf("promises[%d] is not promise_<number>", i)
		}
		c.Promises = append(c.Promises, id)
	}
	return c, nil
}

// Bounds of a number's spelling: beyond them exact arithmetic would make
// gigabytes of an exponent.
const (
	digitsMax   = 64
	exponentMax = 30
)

// millis turns a JSON number of seconds into milliseconds, exactly, rounded up
// so that no wait is shorter than what was asked for.
func millis(what string, v any, most int64) (int64, error) {
	number, ok := v.(json.Number)
	if !ok {
		return 0, errors.New(what + " is no number")
	}
	tooLong := fmt.Errorf("%s must be between 0 and %d", what, most/ident.Second)
	text := string(number)
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		if e, err := strconv.Atoi(text[i+1:]); err != nil || e < -exponentMax || e > exponentMax {
			return 0, tooLong
		}
	}
	if len(text) > digitsMax {
		return 0, fmt.Errorf("%s has more than %d digits", what, digitsMax)
	}
	seconds, ok := new(big.Rat).SetString(text)
	if !ok {
		return 0, errors.New(what + " is no number")
	}
	if seconds.Sign() < 0 || seconds.Cmp(big.NewRat(most, ident.Second)) > 0 {
		return 0, tooLong
	}
	ms := seconds.Mul(seconds, big.NewRat(ident.Second, 1))
	whole, rest := new(big.Int).QuoRem(ms.Num(), ms.Denom(), new(big.Int))
	if rest.Sign() > 0 {
		whole.Add(whole, big.NewInt(1))
	}
	return whole.Int64(), nil
}

// ask reads the questions, which the schema has checked for their shape.
func ask(arguments map[string]any) (*session.Control, error) {
	var a struct {
		Questions []session.QuestionItem `json:"questions"`
	}
	if err := json.Unmarshal([]byte(tool.Canonical(arguments)), &a); err != nil {
		return nil, errors.New("the questions cannot be read")
	}
	for i := range a.Questions {
		q := &a.Questions[i]
		if len(q.Options) == 0 {
			q.FreeText = true // there is no other way to answer
		}
		for n := range q.Options {
			o := &q.Options[n]
			if o.Label == "" {
				o.Label = o.Value
			}
			for _, other := range q.Options[:n] {
				if other.Value == o.Value {
					return nil, fmt.Errorf("questions[%d] has two options of the same value", i)
				}
			}
		}
	}
	if err := session.ValidateItems(a.Questions); err != nil {
		if rejection, ok := errors.AsType[*session.Rejection](err); ok {
			return nil, errors.New(rejection.Message)
		}
		return nil, fmt.Errorf("the questions: %w", err)
	}
	return &session.Control{Items: a.Questions}, nil
}
