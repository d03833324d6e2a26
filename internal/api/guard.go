package api

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/perdure/perdure/internal/host"
)

// Guard says under which names the server may be addressed. A page of another
// site can make a browser send requests here, under a name that it has pointed
// at this machine or with its own Origin: neither gets past.
type Guard struct {
	// Port is the port of the server's addresses; 0 takes the one that the
	// connection came in on.
	Port int
	// Hosts are further names, with :port where it is not the scheme's own.
	// The name * allows any: for a server behind a gateway that has a guard of
	// its own.
	Hosts []string
}

func (g Guard) check(r *http.Request) *Problem {
	if slices.Contains(g.Hosts, "*") {
		return nil
	}
	port := g.Port
	if a, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr); ok && port == 0 {
		port = a.Port
	}
	if !g.allows(r.Host, "80", port) {
		return problem(host.CodeForbidden, "the server is not addressed by this Host")
	}
	for _, origin := range r.Header.Values("Origin") {
		u, err := url.Parse(origin)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.User != nil {
			return problem(host.CodeForbidden, "requests of another site are refused")
		}
		implied := "80"
		if u.Scheme == "https" {
			implied = "443"
		}
		if !g.allows(u.Host, implied, port) {
			return problem(host.CodeForbidden, "requests of another site are refused")
		}
	}
	return nil
}

// allows says whether an authority is one of the server's. The implied port
// stands where it names none; port 0 is not known, and then any will do.
func (g Guard) allows(authority, implied string, port int) bool {
	for _, h := range g.Hosts {
		if strings.EqualFold(h, authority) {
			return true
		}
	}
	name, at, err := net.SplitHostPort(authority)
	if err != nil {
		name, at = strings.TrimSuffix(strings.TrimPrefix(authority, "["), "]"), implied
	}
	if port != 0 && at != strconv.Itoa(port) {
		return false
	}
	if strings.EqualFold(name, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(name)
	return err == nil && addr.Zone() == "" && addr.Unmap().IsLoopback()
}
