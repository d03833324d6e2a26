package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/perdure/perdure/internal/env"
	"github.com/perdure/perdure/internal/local"
)

// serveCommand is the local server.
type serveCommand struct {
	Addr string `help:"Address to listen on (default: ${serveAddr})."`
	Data string `help:"Folder to keep everything in (default: ${serveData})." type:"path"`
}

// Help is what --help shows of it.
func (*serveCommand) Help() string {
	return "All settings are variables of the environment: see docs/VARIABLES.md. The first Ctrl-C lets what is in progress come to a commit, the second stops at once; neither loses anything."
}

// errAtOnce: the person did not want to wait.
var errAtOnce = errors.New("stopped at once; what was in progress goes on at the next start")

// Run does it.
func (c *serveCommand) Run(a *app) error {
	settings, err := c.settings(a)
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(a.err, nil))
	if settings.LogJSON {
		log = slog.New(slog.NewJSONHandler(a.err, nil))
	}
	for _, name := range env.Unknown(a.environ) {
		log.Warn("a variable of this name is not known; docs/VARIABLES.md has those that are", "name", name)
	}
	s, err := local.Open(a.ctx, local.Config{
		Addr: settings.Addr, Data: settings.Data, Open: settings.Open, AllowPrivate: settings.AllowPrivate,
		OpenAIBaseURL: settings.OpenAIBaseURL, OpenAIModel: settings.OpenAIModel, OpenAIKeyName: env.OpenAIKey,
		StreamFor: time.Duration(settings.StreamSeconds) * time.Second,
		Secret:    a.lookup, Log: log, Version: version(),
	})
	if err != nil {
		return err
	}
	return c.serve(a, s, log)
}

func (c *serveCommand) settings(a *app) (env.Server, error) {
	home, err := a.home()
	if err != nil {
		home = ""
	}
	lookup := func(name string) (string, bool) {
		switch {
		case name == env.Addr && c.Addr != "":
			return c.Addr, true
		case name == env.Data && c.Data != "":
			return c.Data, true
		}
		return a.lookup(name)
	}
	return env.ParseServer(lookup, home)
}

// serve runs until a signal. The second one does not wait for the first.
func (c *serveCommand) serve(a *app, s *local.Server, log *slog.Logger) error {
	ctx, stop := context.WithCancel(a.ctx)
	defer stop()
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	served := make(chan error, 1)
	go func() { served <- s.Run(ctx) }()
	select {
	case <-s.Ready():
		fmt.Fprint(a.out, c.banner(s, a.name))
	case err := <-served:
		return errors.Join(err, s.Close())
	}
	stopping := false
	for {
		select {
		case err := <-served:
			return errors.Join(err, s.Close())
		case <-signals:
			if stopping {
				return errAtOnce
			}
			stopping = true
			log.Info("stopping: what is in progress comes to a commit; again to stop at once")
			stop()
		}
	}
}

// banner is what a person needs in the first minute.
func (c *serveCommand) banner(s *local.Server, name string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Perdure serves sessions on %s\n", s.URL())
	fmt.Fprintf(&b, "  data   %s\n", s.Folder())
	if s.Open() {
		b.WriteString("  key    none needed: this server is open\n")
	} else {
		fmt.Fprintf(&b, "  key    %s (the commands find it by themselves)\n", local.KeyFile(s.Folder()))
	}
	fmt.Fprintf(&b, "  model  %s\n", s.ModelLine())
	fmt.Fprintf(&b, "  try    %s chat\n", name)
	return b.String()
}
