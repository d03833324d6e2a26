// Package outside says what the outside tools of a tenant have in common,
// whichever way they are reached: the definition that an admin sets up and that
// is stored, what a call says of itself, and what an answer may be.
//
// It reaches nothing and keeps no list: internal/tool/http, lambda and queue
// make the calls. It may import the standard library, core, the host's ports
// and internal/tool.
package outside
