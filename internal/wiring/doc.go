// Package wiring holds what a server of this project is put together from
// wherever it runs: the providers of models, a tenant's settings and the tools
// outside that they name, and the log of what nobody waits for.
//
// It is no server, opens no store, listens nowhere and reads no variable of the
// environment: internal/local and internal/cloud do, and hand down what they
// have. It may import everything but them, mains and AWS's clients.
package wiring
