package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/perdure/perdure/internal/client"
	"github.com/perdure/perdure/internal/env"
	"github.com/perdure/perdure/internal/local"
)

// Exit codes.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

// program is the command with everything that it takes from the outside.
type program struct {
	name    string // as it was called
	lookup  env.Lookup
	environ []string
	home    func() (string, error)
	in      io.Reader
	out     io.Writer
	err     io.Writer
}

// grammar is all that can be typed.
type grammar struct {
	URL  string `help:"Server to talk to (default: ${url})."                        placeholder:"URL"`
	Key  string `help:"Key to send (default: the local key, for a server on this machine)." placeholder:"KEY"`
	JSON bool   `help:"Print what the API answers, as it is."                       name:"json"`

	Serve   serveCommand   `cmd:"" help:"Serve sessions on this machine."`
	Chat    chatCommand    `cmd:"" help:"Talk to a session, line by line."`
	Session sessionCommand `cmd:"" help:"Make, look at and end sessions."`
	Run     runCommand     `cmd:"" help:"Start, look at and stop runs."`
	Approve approveCommand `cmd:"" help:"Let a call that waits for a decision run."`
	Reject  rejectCommand  `cmd:"" help:"Refuse a call that waits for a decision."`
	Answer  answerCommand  `cmd:"" help:"Answer a question that a run asks."`
	Todo    todoCommand    `cmd:"" help:"List what waits for a person, in all sessions."`
	Events  eventsCommand  `cmd:"" help:"Print a session's events."`
	Replay  replayCommand  `cmd:"" help:"Fold a log (of session log) and show what it comes to."`
	Doctor  doctorCommand  `cmd:"" help:"Look for what keeps things from working, here or on AWS."`
	Version versionCommand `cmd:"" help:"Print the version."`
}

// app is what a command's Run gets.
type app struct {
	program
	ctx     context.Context //nolint:containedctx // one call of the program is one request
	grammar *grammar
}

// run is the whole program; it returns the exit code.
func (p program) run(ctx context.Context, args []string) int {
	var g grammar
	helped := false
	parser, err := kong.New(&g,
		kong.Name("perdure"),
		kong.Description("Durable AI agent sessions: they outlive every process that works on them."),
		kong.Writers(p.out, p.err),
		// After help the parser goes on to complain of what is missing.
		kong.Exit(func(int) { helped = true }),
		kong.Vars{
			"url": "where " + env.URL + " or " + env.Addr + " say", "serveAddr": env.DefaultAddr + ", or " + env.Addr, "serveData": "~/.perdure, or " + env.Data,
			"tools": strings.Join(local.DefaultTools(), " "), "stack": env.DefaultStack,
		},
		kong.WithHyphenPrefixedParameters(true), // lists begin with one
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, NoExpandSubcommands: true}),
	)
	if err != nil {
		return p.fail(err)
	}
	if len(args) == 0 {
		args = []string{"--help"}
	}
	parsed, err := parser.Parse(args)
	switch {
	case helped:
		return exitDone
	case err != nil:
		fmt.Fprintf(p.err, "perdure: %s\nRun \"perdure --help\" for what there is.\n", err)
		return exitUsage
	}
	if err := parsed.Run(&app{program: p, ctx: ctx, grammar: &g}); err != nil {
		if problem, ok := errors.AsType[*client.ProblemError](err); ok && g.JSON && len(problem.Raw) > 0 {
			fmt.Fprintln(p.err, strings.TrimSpace(string(problem.Raw)))
			return exitFailed
		}
		return p.fail(err)
	}
	return exitDone
}

// fail says on one line what went wrong.
func (p program) fail(err error) int {
	if errors.Is(err, context.Canceled) {
		return exitFailed // the person knows
	}
	fmt.Fprintln(p.err, "perdure:", strings.ReplaceAll(err.Error(), "\n", "; "))
	return exitFailed
}

// client makes the client that the flags and the environment ask for.
func (a *app) client() (*client.Client, error) {
	settings, err := a.connection()
	if err != nil {
		return nil, err
	}
	return client.New(settings.URL, settings.Key), nil
}

// connection is what to talk to, and with which key.
func (a *app) connection() (env.Client, error) {
	settings, err := env.ParseClient(a.lookup)
	if err != nil {
		return settings, err
	}
	if a.grammar.URL != "" {
		settings.URL = a.grammar.URL
	}
	if a.grammar.Key != "" {
		settings.Key = a.grammar.Key
	}
	if settings.Key == "" {
		settings.Key, err = a.localKey(settings.URL)
	}
	return settings, err
}

// localKey finds the key of a server on this machine. It is never sent
// anywhere else. That there is none may be right: a server can be open.
func (a *app) localKey(base string) (string, error) {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" {
		return "", fmt.Errorf("%q is no server: write http://host:port", base)
	}
	port := u.Port()
	if port == "" {
		port = "0" // which port does not matter
	}
	if !env.IsLoopback(net.JoinHostPort(u.Hostname(), port)) {
		return "", nil
	}
	home, err := a.home()
	if err != nil {
		home = ""
	}
	folder, err := env.DataFolder(a.lookup, home)
	if err != nil {
		return "", nil //nolint:nilerr // no folder, no key
	}
	key, err := local.ReadKey(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return key, err
}

// explain puts what a person can do about it beside an error of a call.
func (a *app) explain(err error) error {
	if u, ok := errors.AsType[*client.UnreachableError](err); ok && a.ctx.Err() == nil {
		return fmt.Errorf("%w\nstart a server with \"perdure serve\", or say where one is with --url or %s", u, env.URL)
	}
	if client.Code(err) == "unauthenticated" {
		return fmt.Errorf("%w\nsay which key with --key or %s; that of a server on this machine is in its data folder, %s", err, env.Key, env.Data)
	}
	return err
}
