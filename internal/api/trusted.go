package api

import (
	"context"
	"net/http"
)

// trustedKey is this package's alone: no header that a client could send puts a
// value there.
type trustedKey struct{}

type trusted struct {
	who Principal
	via string
}

// WithPrincipal makes requests with this context, and no credential, those of a
// principal, through a surface: for a process that knows who asks from elsewhere,
// such as a queue that only it may read, and calls the handler itself. The
// principal needs the scopes that its requests take. Such a request is no
// browser's, so it may come under any Host.
func WithPrincipal(ctx context.Context, who Principal, via string) context.Context {
	return context.WithValue(ctx, trustedKey{}, trusted{who, via})
}

func trustedOf(r *http.Request) (trusted, bool) {
	t, ok := r.Context().Value(trustedKey{}).(trusted)
	return t, ok
}
