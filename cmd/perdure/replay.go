package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/perdure/perdure/core/replay"
)

// replayCommand folds logs. It asks no server.
type replayCommand struct {
	At   int64    `help:"Show the state after this event instead of the events." placeholder:"SEQ"`
	Diff bool     `help:"Show the first event in which two logs differ."`
	Logs []string `arg:"" help:"Files with a log (one event a line); - or none is standard input." name:"log" optional:""`
}

// Help is what --help shows of it.
func (*replayCommand) Help() string {
	return `  perdure session log s1 | perdure replay          print the events, fold them, check the result
  perdure replay --at 12 s1.jsonl                  the state after event 12
  perdure replay --diff a.jsonl b.jsonl            the first difference`
}

// Run does it.
func (c *replayCommand) Run(a *app) error {
	want := 1
	if c.Diff {
		want = 2
	}
	if len(c.Logs) == 0 {
		c.Logs = []string{"-"}
	}
	switch {
	case len(c.Logs) != want:
		return fmt.Errorf("replay takes %d log(s) here, not %d", want, len(c.Logs))
	case c.At < 0:
		return errors.New("--at takes the number of an event, from 1")
	}
	logs := make([][]byte, want)
	for i, name := range c.Logs {
		var err error
		if logs[i], err = a.readLog(name); err != nil {
			return err
		}
	}
	switch {
	case c.Diff:
		return a.showDifference(logs[0], logs[1])
	case c.At > 0:
		return a.showState(logs[0], c.At)
	}
	return a.showEvents(logs[0])
}

func (a *app) readLog(name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(a.in)
	}
	return os.ReadFile(name)
}

// showEvents prints each event, and on the last line what the log comes to.
func (a *app) showEvents(log []byte) error {
	if !a.grammar.JSON {
		for _, line := range replay.Lines(log) {
			fmt.Fprintln(a.out, line)
		}
	}
	return a.showFold(log)
}

// showState prints the state after an event.
func (a *app) showState(log []byte, at int64) error {
	lines := bytes.SplitAfter(log, []byte("\n"))
	if n := len(lines); n > 0 && len(lines[n-1]) == 0 {
		lines = lines[:n-1]
	}
	if int64(len(lines)) < at {
		return fmt.Errorf("event %d is wanted, the log has %d", at, len(lines))
	}
	return a.showFold(bytes.Join(lines[:at], nil))
}

func (a *app) showFold(log []byte) error {
	s, err := replay.Fold(log, 0)
	if err != nil {
		if code := replay.Code(err); code != "" {
			return fmt.Errorf("the log does not fold: %w (%s)", err, code)
		}
		return fmt.Errorf("the log does not fold: %w", err)
	}
	if a.grammar.JSON {
		text, err := replay.StateJSON(s)
		if err != nil {
			return err
		}
		fmt.Fprintln(a.out, text)
		return nil
	}
	var b strings.Builder
	fmt.Fprintf(&b, "= after %d: ", s.Seq)
	switch {
	case s.Seq == 0:
		b.WriteString("no session")
	case s.Active != nil:
		fmt.Fprintf(&b, "%s, %s %s", s.Status, s.Active.ID, s.Active.RunStatus())
	default:
		b.WriteString(s.Status + ", idle")
	}
	fmt.Fprintf(&b, ", %d queued, %d in the window, %d run(s), %d model call(s), %d tool call(s)",
		len(s.Queue), len(s.Context.Entries), s.Totals.Runs, s.Totals.ModelCalls, s.Totals.ToolCalls)
	fmt.Fprintln(a.out, b.String())
	return nil
}

// difference is replay.Difference as --json prints it. A kind is empty where a
// log has ended.
type difference struct {
	Seq    any     `json:"seq"`
	A      any     `json:"a"`
	B      any     `json:"b"`
	Fields []field `json:"fields"`
}

type field struct {
	Path string `json:"path"`
	A    string `json:"a"`
	B    string `json:"b"`
}

func fields(in []replay.Field) []field {
	out := make([]field, len(in))
	for i, f := range in {
		out[i] = field{f.Path, f.A, f.B}
	}
	return out
}

func (a *app) showDifference(x, y []byte) error {
	d, found := replay.Explain(x, y)
	if a.grammar.JSON {
		out := json.NewEncoder(a.out)
		out.SetEscapeHTML(false)
		if !found {
			return out.Encode(nil)
		}
		return out.Encode(difference{Seq: d.Seq, A: d.KindA, B: d.KindB, Fields: fields(d.Fields)})
	}
	if !found {
		fmt.Fprintln(a.out, "no difference")
		return nil
	}
	fmt.Fprintln(a.out, d)
	return nil
}
