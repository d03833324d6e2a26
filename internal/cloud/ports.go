package cloud

import (
	"context"

	"github.com/perdure/perdure/internal/env"
	"github.com/perdure/perdure/internal/host"
	"github.com/perdure/perdure/internal/tool/files"
	"github.com/perdure/perdure/internal/tool/lambda"
)

// Ports are the adapters that a function works with.
type Ports struct {
	Log         host.Log
	Blobs       host.Blobs
	Checkpoints host.Checkpoints
	Stash       host.Stash
	Waker       host.Waker
	Workspaces  files.Workspaces
	// Purge removes what a deleted session has but its head: items and objects.
	Purge func(ctx context.Context, key host.Key, inc string) error
	// Frames and Live carry what turns in flight say; nil has none. Drain ends
	// what Frames has under way: a process that is frozen between invocations
	// must have nothing half sent.
	Frames host.Frames
	Live   host.LiveFrames
	Drain  func(ctx context.Context) error

	Secrets Secrets
	Queues  Queues
	// Functions invokes those of customers.
	Functions Functions
}

// Connect makes the adapters. It asks nothing of AWS yet, so that it is quick
// and fails for wrong settings only.
type Connect func(ctx context.Context, set env.Function) (Ports, error)

// Secrets reads entries of a secret store.
type Secrets interface {
	// Secret returns the text of an entry by its name or ARN. host.ErrNotFound
	// (errors.Is) if there is none.
	Secret(ctx context.Context, name string) (string, error)
}

// Queues sends messages.
type Queues interface {
	// Send puts a message in a queue. It is there when it returns.
	Send(ctx context.Context, url, body string) error
}

// Functions invokes functions, as internal/tool/lambda asks for it.
type Functions = lambda.Invoker
