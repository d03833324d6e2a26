package local

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"github.com/perdure/perdure/core/ident"
	"github.com/perdure/perdure/internal/adapter/dir"
	"github.com/perdure/perdure/internal/adapter/gosched"
	"github.com/perdure/perdure/internal/adapter/memory"
	"github.com/perdure/perdure/internal/adapter/sqlite"
	"github.com/perdure/perdure/internal/env"
	"github.com/perdure/perdure/internal/host"
	"github.com/perdure/perdure/internal/wiring"
)

// Config of a Server.
type Config struct {
	// Addr is what to listen on; port 0 takes a free one.
	Addr string
	// Data is the folder with everything that is kept.
	Data string
	// Open lets everyone in without a key.
	Open bool
	// AllowPrivate lets tools and providers be at private addresses.
	AllowPrivate bool
	// OpenAIBaseURL and OpenAIModel set up what sessions get that name no
	// model; OpenAIKeyName is the name of the secret with OpenAI's key.
	OpenAIBaseURL string
	OpenAIModel   string
	OpenAIKeyName string
	// Secret finds a secret by its name; nil has none.
	Secret func(name string) (value string, found bool)
	// Log gets what an operator should know; nil drops it.
	Log *slog.Logger
	// Version is what the server says of itself.
	Version string
	// StreamFor is how long a stream lasts; 0 is as long as both sides are there.
	StreamFor time.Duration
	// Instant takes the demo's pauses out, for tests.
	Instant bool
	// Engine are the engine's tunables.
	Engine host.Options
	// WrapLog, for tests, stands between the engine and the database.
	WrapLog func(host.Log) host.Log
}

func (c Config) withDefaults() Config {
	if c.Secret == nil {
		c.Secret = func(string) (string, bool) { return "", false }
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

// demoPace is the time between two words of the demo's model.
const demoPace = 15 * time.Millisecond

func (c Config) pace() time.Duration {
	if c.Instant {
		return 0
	}
	return demoPace
}

// Times of the HTTP server. There is none for writing an answer: a long poll
// and a stream take as long as they take.
const (
	headerWithin = 10 * time.Second
	idleWithin   = 2 * time.Minute
	headerBytes  = 64 << 10
	// stopWithin is what a graceful stop may take: tools get five seconds, and
	// what they came to must still be committed.
	stopWithin = 15 * time.Second
)

// Server is the local server. Open makes one, Run serves, Close lets go.
type Server struct {
	cfg        Config
	log        *slog.Logger
	key        string
	secrets    secrets
	sched      *gosched.Sched
	store      *sqlite.Store
	workspaces *dir.Workspaces
	tools      *wiring.Tools
	hub        *memory.Hub
	engine     *host.Engine
	listener   net.Listener
	http       *http.Server

	// polls ends what waits for something to happen, at a stop.
	polls     context.Context //nolint:containedctx // the base of every request's context
	endPolls  context.CancelFunc
	ready     chan struct{}
	closeOnce sync.Once
	closeErr  error
}

// Open takes the data folder and the address. It returns with both or with
// neither, and with a line that says what to do.
func Open(ctx context.Context, cfg Config) (*Server, error) {
	s := &Server{cfg: cfg.withDefaults(), sched: gosched.New(), hub: memory.NewHub(), ready: make(chan struct{})}
	s.log = s.cfg.Log
	s.polls, s.endPolls = context.WithCancel(context.WithoutCancel(ctx))
	if err := s.open(); err != nil { //nolint:contextcheck // opening a folder is not cut off half way
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Server) open() (err error) {
	folder := s.cfg.Data
	// The folder first: its lock says which process is the other one, which a
	// busy port does not.
	if s.store, err = sqlite.Open(folder, sqlite.Options{Now: s.sched.Now}); err != nil {
		return folderProblem(folder, err)
	}
	if s.workspaces, err = dir.Open(filepath.Join(folder, workspacesFolder)); err != nil {
		return folderProblem(folder, err)
	}
	if s.key, err = makeKey(folder); err != nil {
		return folderProblem(folder, err)
	}
	if s.secrets, err = makeSecrets(folder); err != nil {
		return folderProblem(folder, err)
	}
	if s.listener, err = net.Listen("tcp", s.cfg.Addr); err != nil { //nolint:noctx // nothing to cancel: it answers at once
		return listenProblem(s.cfg.Addr, err)
	}
	if err := s.wire(); err != nil {
		return err
	}
	s.http = &http.Server{
		Handler:           s.handler(),
		ReadHeaderTimeout: headerWithin,
		IdleTimeout:       idleWithin,
		MaxHeaderBytes:    headerBytes,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelWarn),
		BaseContext:       func(net.Listener) context.Context { return s.polls },
	}
	return nil
}

// Addr is where the server listens, with the port that it got.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// URL is where the server is found from this machine.
func (s *Server) URL() string { return "http://" + env.Reachable(s.Addr()) }

// Key is the local key.
func (s *Server) Key() string { return s.key }

// Run picks up what was left unfinished and serves until ctx is done; then it
// lets every session come to a commit. What a stop cuts off is found at the
// next start.
func (s *Server) Run(ctx context.Context) error {
	// The engine's tasks outlive ctx: they end by Stop, with a commit.
	if err := s.engine.Start(context.WithoutCancel(ctx)); err != nil {
		return fmt.Errorf("unfinished sessions could not be picked up: %w", err)
	}
	served := make(chan error, 1)
	go func() { served <- s.http.Serve(s.listener) }()
	if err := s.makeDemo(ctx); err != nil && ctx.Err() == nil {
		s.log.Warn("there is no demo session", "error", err)
	}
	close(s.ready)
	select {
	case err := <-served:
		return errors.Join(fmt.Errorf("serving has ended: %w", err), s.stop(ctx))
	case <-ctx.Done():
	}
	return s.stop(ctx)
}

// stop refuses new connections, ends what waits, and waits for sessions and
// answers to come to their ends.
func (s *Server) stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
	defer cancel()
	down := make(chan error, 1)
	go func() { down <- s.http.Shutdown(ctx) }()
	err := s.engine.Stop(ctx)
	if err != nil {
		err = fmt.Errorf("not everything came to a commit in time; it goes on at the next start: %w", err)
	}
	s.endPolls()
	err = errors.Join(err, <-down)
	// The last tasks end by themselves; who closes the store should be alone.
	_ = s.sched.Wait(ctx) // what does not end in time meets a closed store, and is found at the next start
	return err
}

// Close lets the address and the folder go. Closing again does nothing.
func (s *Server) Close() error {
	s.closeOnce.Do(func() {
		s.endPolls()
		var errs []error
		if s.http != nil {
			errs = append(errs, s.http.Close())
		}
		if s.listener != nil {
			// Serving closes it too.
			if err := s.listener.Close(); !errors.Is(err, net.ErrClosed) {
				errs = append(errs, err)
			}
		}
		if s.workspaces != nil {
			errs = append(errs, s.workspaces.Close())
		}
		if s.store != nil {
			errs = append(errs, s.store.Close())
		}
		s.closeErr = errors.Join(errs...)
	})
	return s.closeErr
}

func (s *Server) now() ident.Instant { return s.sched.Now() }

// Folder is the data folder.
func (s *Server) Folder() string { return s.cfg.Data }

// Open says that no key is needed.
func (s *Server) Open() bool { return s.cfg.Open }

// Ready is closed when the server serves, and the demo is there if there is to
// be one.
func (s *Server) Ready() <-chan struct{} { return s.ready }
