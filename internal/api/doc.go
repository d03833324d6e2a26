// Package api is the public contract over HTTP: request and response types,
// routes, error codes, and the projections from what the host knows to what
// clients see. One http.Handler serves it, the same locally and in a function.
//
// It decides nothing about sessions: it reads strictly, checks who asks, hands
// commands to the host's engine and shows what they came to. It stores nothing
// but, through the host's port Stash, the first answers to idempotency keys. It
// may import internal/host, internal/env, core/ident, core/blob, core/wire and
// huma; no adapter, no tool, and never core/session: clients see no reducer
// types.
package api
