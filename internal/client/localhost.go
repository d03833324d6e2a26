package client

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"strings"
)

// isHere says whether a name is one below localhost. Those are this machine's
// (RFC 6761, 6.3), which many a system's resolver does not know: an emulator's
// API gateway is found by such a name.
func isHere(host string) bool {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	return strings.HasSuffix(host, ".localhost")
}

type dialer func(ctx context.Context, network, addr string) (net.Conn, error)

// atHome dials names below localhost on this machine, without asking anybody
// where they are.
func atHome(dial dialer) dialer {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		host, port, err := net.SplitHostPort(addr)
		if err != nil || !isHere(host) {
			return dial(ctx, network, addr)
		}
		conn, err := dial(ctx, network, net.JoinHostPort("127.0.0.1", port))
		if err != nil && ctx.Err() == nil {
			if other, errOther := dial(ctx, network, net.JoinHostPort("::1", port)); errOther == nil {
				return other, nil
			}
		}
		return conn, err
	}
}

// proxy is that of the environment, but for this machine.
func proxy(r *http.Request) (*url.URL, error) {
	if isHere(r.URL.Hostname()) {
		return nil, nil //nolint:nilnil // what http.Transport takes for none
	}
	return http.ProxyFromEnvironment(r)
}
