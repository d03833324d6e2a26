package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strconv"
	"strings"

	"github.com/perdure/perdure/internal/api"
	"github.com/perdure/perdure/internal/chat"
	"github.com/perdure/perdure/internal/client"
	"github.com/perdure/perdure/internal/local"
)

// sessionCommand is everything about sessions.
type sessionCommand struct {
	Create  sessionCreate  `cmd:"" help:"Make a session."`
	List    sessionList    `cmd:"" help:"List sessions, newest update first."`
	Get     sessionGet     `cmd:"" help:"Show a session with its runs in hand."`
	Rename  sessionRename  `cmd:"" help:"Give a session another name."`
	Config  sessionConfig  `cmd:"" help:"Print a session's config, or replace it by a file's."`
	Context sessionContext `cmd:"" help:"Show what the model sees of a session."`
	Log     sessionLog     `cmd:"" help:"Print the stored log, one event a line."`
	Close   sessionClose   `cmd:"" help:"End a session for good; it stays readable."`
	Delete  sessionDelete  `cmd:"" help:"Remove a closed session and all its content."`
}

type sessionCreate struct {
	ID           string            `help:"Id of the session; the server makes one if it is left out."`
	Name         string            `help:"Name for lists."`
	Model        string            `help:"Model that answers, as provider/model."`
	Instructions string            `help:"What the model is told before everything else."`
	Tool         []string          `help:"Tool to grant, as in files.read or files.*; may be repeated. Without any, and without a file: ${tools}." placeholder:"NAME"`
	Config       string            `help:"File with a config in JSON; the flags above change it." placeholder:"FILE" type:"existingfile"`
	Metadata     map[string]string `help:"Key and value to keep with it; may be repeated." placeholder:"KEY=VALUE" mapsep:"none"`
	Input        string            `help:"Text that begins the first run."`
	Submission   string            `help:"Idempotency key of the first run." placeholder:"ID"`
}

// Run does it.
func (c *sessionCreate) Run(a *app) error {
	config := map[string]any{}
	if c.Config != "" {
		data, err := os.ReadFile(c.Config)
		if err != nil {
			return err
		}
		if err := json.Unmarshal(data, &config); err != nil {
			return fmt.Errorf("%s holds no JSON object: %w", c.Config, err)
		}
	}
	if c.Model != "" {
		m, err := parseModel(c.Model)
		if err != nil {
			return err
		}
		config["model"] = m
	}
	if c.Instructions != "" {
		config["instructions"] = c.Instructions
	}
	switch {
	case len(c.Tool) > 0:
		config["tools"] = c.Tool
	case len(config) > 0 && c.Config == "":
		config["tools"] = local.DefaultTools()
	}
	body := map[string]any{}
	for name, value := range map[string]string{"id": c.ID, "name": c.Name, "input": c.Input, "submissionId": c.Submission} {
		if value != "" {
			body[name] = value
		}
	}
	if len(config) > 0 {
		body["config"] = config
	}
	if len(c.Metadata) > 0 {
		body["metadata"] = c.Metadata
	}
	var s api.Session
	return a.call(func(cl *client.Client) (err error) {
		s, err = cl.CreateSession(a.ctx, body)
		return err
	}, func() { a.showSession(&s) })
}

// parseModel reads provider/model. Models may have slashes of their own.
func parseModel(text string) (map[string]string, error) {
	provider, model, ok := strings.Cut(text, "/")
	if !ok || provider == "" || model == "" {
		return nil, fmt.Errorf("--model %q is not provider/model, as in openai/gpt-5-mini or scripted/demo", text)
	}
	return map[string]string{"provider": provider, "model": model}, nil
}

type sessionList struct {
	Status string `default:"open" enum:"open,closed,all"                       help:"open, closed or all."`
	Search string `help:"Part of the title to look for."`
	Limit  int    `default:"50"   help:"At most so many."`
	Cursor string `help:"Where to go on, from the end of the last list."`
}

// Run does it.
func (c *sessionList) Run(a *app) error {
	query := url.Values{"status": {c.Status}, "limit": {strconv.Itoa(c.Limit)}}
	for name, value := range map[string]string{"q": c.Search, "cursor": c.Cursor} {
		if value != "" {
			query.Set(name, value)
		}
	}
	var page api.Page[api.SessionSummary]
	return a.call(func(cl *client.Client) (err error) {
		page, err = cl.Sessions(a.ctx, query)
		return err
	}, func() {
		for _, s := range page.Items {
			what := s.Activity
			if s.Status != "open" {
				what = s.Status
			}
			a.printf("%s  %s  %s  %s\n", s.ID, clock(s.UpdatedAt), what, chat.OneLine(s.Title, titleWidth))
		}
		if page.Next != "" {
			a.printf("… --cursor %s\n", page.Next)
		}
	})
}

type sessionGet struct {
	Session string `arg:"" help:"Id of the session."`
}

// Run does it.
func (c *sessionGet) Run(a *app) error {
	return a.session(func(cl *client.Client) (api.Session, error) { return cl.Session(a.ctx, c.Session) })
}

// session calls and prints a session.
func (a *app) session(do func(cl *client.Client) (api.Session, error)) error {
	var s api.Session
	return a.call(func(cl *client.Client) (err error) {
		s, err = do(cl)
		return err
	}, func() { a.showSession(&s) })
}

type sessionRename struct {
	Session string `arg:"" help:"Id of the session."`
	Name    string `arg:"" help:"The new name; empty takes it away."`
}

// Run does it.
func (c *sessionRename) Run(a *app) error {
	name := api.Maybe[string]{Set: true, Null: c.Name == "", Value: c.Name}
	return a.session(func(cl *client.Client) (api.Session, error) {
		return cl.PatchSession(a.ctx, c.Session, api.PatchSession{Name: name})
	})
}

type sessionConfig struct {
	Session string `arg:"" help:"Id of the session."`
	File    string `arg:"" help:"File with the whole new config in JSON; - is standard input." optional:""`
}

// Run does it.
func (c *sessionConfig) Run(a *app) error {
	var s api.Session
	return a.call(func(cl *client.Client) (err error) {
		if c.File == "" {
			s, err = cl.Session(a.ctx, c.Session)
			return err
		}
		data, err := a.readFile(c.File)
		if err != nil {
			return err
		}
		if !json.Valid(data) {
			return errors.New("the config is no JSON")
		}
		s, err = cl.Configure(a.ctx, c.Session, data)
		return err
	}, func() {
		out := json.NewEncoder(a.out)
		out.SetEscapeHTML(false)
		out.SetIndent("", "  ")
		_ = out.Encode(s.Config) // nobody is left to tell
	})
}

// readFile reads a file, or standard input for -.
func (a *app) readFile(name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(a.in)
	}
	return os.ReadFile(name)
}

type sessionContext struct {
	Session string `arg:"" help:"Id of the session."`
}

// Run does it.
func (c *sessionContext) Run(a *app) error {
	var s api.Context
	return a.call(func(cl *client.Client) (err error) {
		s, err = cl.Context(a.ctx, c.Session)
		return err
	}, func() {
		a.printf("revision %d, %d entries, about %d tokens\n", s.Revision, len(s.Entries), s.Tokens)
		for _, e := range s.Entries {
			a.printf("%s  %s  %s\n", e.ID, e.Role, chat.OneLine(entryText(e), wideWidth))
		}
	})
}

// entryText is an entry on a line: its text, its calls, or its results.
func entryText(e api.ContextEntry) string {
	parts := []string{chat.TextOf(e.Text), chat.InputText(e.Parts)}
	for _, c := range e.Calls {
		parts = append(parts, c.Tool+" "+string(c.Arguments))
	}
	for _, r := range e.Results {
		parts = append(parts, r.ID+" "+r.Status+": "+chat.TextOf(r.Text))
	}
	return strings.Join(parts, " ")
}

type sessionLog struct {
	Session string `arg:""  help:"Id of the session."`
	After   uint64 `help:"Only what comes after this event." placeholder:"SEQ"`
}

// Run does it.
func (c *sessionLog) Run(a *app) error {
	cl, err := a.client()
	if err != nil {
		return err
	}
	log, err := cl.Log(a.ctx, c.Session, c.After)
	if err != nil {
		return a.explain(err)
	}
	defer func() { _ = log.Close() }() // read whole or given up
	_, err = io.Copy(a.out, log)
	return err
}

type sessionClose struct {
	Session string `arg:"" help:"Id of the session."`
	Force   bool   `help:"Stop what it is doing."`
}

// Run does it.
func (c *sessionClose) Run(a *app) error {
	return a.session(func(cl *client.Client) (api.Session, error) { return cl.CloseSession(a.ctx, c.Session, c.Force) })
}

type sessionDelete struct {
	Session string `arg:"" help:"Id of the session."`
}

// Run does it.
func (c *sessionDelete) Run(a *app) error {
	return a.call(func(cl *client.Client) error { return cl.DeleteSession(a.ctx, c.Session) },
		func() { a.println(c.Session + " is deleted") })
}
