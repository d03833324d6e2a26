package scenario

import (
	"strings"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/core/session"
)

// verbAnswer answers a question, an item a line with its values, or skips it.
//
//	answer 1
//	colour red, blue
//	size
func verbAnswer(w *world, a *args) string {
	c := &session.AnswerQuestion{Run: a.run(w), Question: ident.QuestionID(a.number()), Skip: a.flag("skip"), Asked: a.asked()}
	by := a.taker()
	for _, line := range a.input() {
		item, values, _ := strings.Cut(line, " ")
		an := session.Answer{Item: item, Values: []string{}}
		for v := range strings.SplitSeq(values, ",") {
			if v = strings.TrimSpace(v); v != "" {
				an.Values = append(an.Values, v)
			}
		}
		c.Answers = append(c.Answers, an)
	}
	return w.step(by, c)
}
