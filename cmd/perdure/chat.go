package main

import (
	"errors"
	"net/url"
	"os"
	"os/signal"

	"github.com/perdure/perdure/internal/chat"
	"github.com/perdure/perdure/internal/client"
	"github.com/perdure/perdure/internal/local"
)

// chatCommand talks to a session.
type chatCommand struct {
	Session string `help:"Session to open (default: the one that changed last)." placeholder:"ID"`
	New     bool   `help:"Begin a new session."`
	Model   string `help:"Model of a new session, as provider/model."`
}

// Help is what --help shows of it.
func (*chatCommand) Help() string {
	return "Lines are messages; /help lists the commands. It reads standard input, so it works in a pipe: at the end of the input it waits until nothing moves, and leaves. The session goes on either way."
}

// Run does it.
func (c *chatCommand) Run(a *app) error {
	if c.Model != "" && !c.New {
		return errors.New("--model is for a new session: add --new")
	}
	cl, err := a.client()
	if err != nil {
		return err
	}
	id, err := c.session(a, cl)
	if err != nil {
		return a.explain(err)
	}
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt)
	defer signal.Stop(interrupts)
	talk := &chat.Chat{Client: cl, Session: id, In: a.in, Out: a.out, Interrupts: interrupts}
	if err := talk.Run(a.ctx); err != nil {
		return a.explain(err)
	}
	return nil
}

// session finds the session to open, or makes one.
func (c *chatCommand) session(a *app, cl *client.Client) (string, error) {
	if c.Session != "" && !c.New {
		return c.Session, nil
	}
	if !c.New {
		page, err := cl.Sessions(a.ctx, url.Values{"limit": {"1"}})
		if err != nil {
			return "", err
		}
		if len(page.Items) > 0 {
			return page.Items[0].ID, nil
		}
	}
	body := map[string]any{}
	if c.Session != "" {
		body["id"] = c.Session
	}
	if c.Model != "" {
		m, err := parseModel(c.Model)
		if err != nil {
			return "", err
		}
		body["config"] = map[string]any{"model": m, "tools": local.DefaultTools()}
	}
	s, err := cl.CreateSession(a.ctx, body)
	return s.ID, err
}
