// Package http is the family of outside tools: what a tenant has set up at a
// URL. A call is a signed POST; the answer is the result at once, or the word
// that it will come later, through the call's promise.
//
// It keeps no list of tools, opens no connection by itself (the transport is
// given, and decides which addresses may be reached) and settles no promise. It
// retries nothing and follows no redirect. It may import the standard library,
// core, the host's ports and internal/tool.
package http
