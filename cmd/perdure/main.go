// Command perdure serves durable agent sessions on this machine and talks to
// whoever serves them.
//
// It decides nothing about sessions: a command is a call of the HTTP API, serve
// is internal/local, and replay is core/replay. It may import those, the client,
// the chat and the names of variables.
package main

import (
	"context"
	"os"
)

func main() {
	p := program{
		name: os.Args[0], lookup: os.LookupEnv, environ: os.Environ(), home: os.UserHomeDir,
		in: os.Stdin, out: os.Stdout, err: os.Stderr,
	}
	os.Exit(p.run(context.Background(), os.Args[1:]))
}
