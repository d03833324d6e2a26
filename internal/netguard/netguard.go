// Package netguard keeps connections that somebody else names the target of
// (a tool's URL, a webhook, a page to fetch) away from addresses that are not
// the internet: it checks the address that is connected to, after DNS, at
// every dial, so a name that resolves to something else the second time, or a
// redirect, gains nothing.
//
// It resolves nothing, follows no redirect and judges no URL. A proxy, if one
// is asked for, is what is dialed and so what is checked. It is a leaf: it may
// import the standard library only.
package netguard

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"syscall"
	"time"
)

// Rules that an address can break. The first group is opened by AllowPrivate;
// the second by nothing.
const (
	RuleLoopback  = "loopback"
	RulePrivate   = "private"
	RuleLinkLocal = "link-local"
	RuleShared    = "shared (carrier-grade NAT)"
	RuleBenchmark = "benchmark"

	RuleMetadata    = "cloud metadata"
	RuleUnspecified = "unspecified"
	RuleMulticast   = "multicast"
	RuleReserved    = "reserved"
	RuleNetwork     = "network other than TCP"
	RuleAddress     = "no address"
)

// RefusedError says which address was refused by which rule.
type RefusedError struct {
	Address string
	Rule    string
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("connection to %s refused: the address is %s", e.Address, e.Rule)
}

// Permanent says that trying again changes nothing.
func (e *RefusedError) Permanent() bool { return true }

// Guard checks addresses. The zero value refuses all that is not public.
type Guard struct {
	// AllowPrivate opens loopback, private, link-local, shared and benchmark
	// addresses: for a server whose operator owns the network it is in.
	AllowPrivate bool
	// Rented says that the machine is a cloud's: what answers there at loopback
	// and link-local addresses is the cloud's own (the API of the runtime, the
	// metadata service), and AllowPrivate does not open it.
	Rented bool
	// AllowLoopback opens loopback addresses, whatever else is said: for a rented
	// machine that an emulator plays.
	AllowLoopback bool
}

// opens says whether an address that breaks a rule of the first group is
// allowed.
func (g Guard) opens(rule string) bool {
	switch rule {
	case RuleLoopback:
		return g.AllowLoopback || g.AllowPrivate && !g.Rented
	case RuleLinkLocal:
		return g.AllowPrivate && !g.Rented
	}
	return g.AllowPrivate
}

// metadata are addresses that hand out credentials, or act on their behalf, to
// whoever can reach them from inside a cloud. One is a public address.
//
//nolint:gochecknoglobals // a constant table
var metadata = []netip.Addr{
	netip.MustParseAddr("169.254.169.254"),
	netip.MustParseAddr("169.254.170.2"),
	netip.MustParseAddr("169.254.170.23"),
	netip.MustParseAddr("fd00:ec2::254"),
	netip.MustParseAddr("fd00:ec2::23"),
	netip.MustParseAddr("100.100.100.200"),
	netip.MustParseAddr("168.63.129.16"),
	netip.MustParseAddr("192.0.0.192"),
}

// ranges, of which the first that holds an address decides.
//
//nolint:gochecknoglobals // a constant table
var ranges = []struct {
	prefix netip.Prefix
	rule   string
	opens  bool
}{
	{netip.MustParsePrefix("0.0.0.0/8"), RuleUnspecified, false},
	{netip.MustParsePrefix("::/128"), RuleUnspecified, false},
	{netip.MustParsePrefix("127.0.0.0/8"), RuleLoopback, true},
	{netip.MustParsePrefix("::1/128"), RuleLoopback, true},
	{netip.MustParsePrefix("10.0.0.0/8"), RulePrivate, true},
	{netip.MustParsePrefix("172.16.0.0/12"), RulePrivate, true},
	{netip.MustParsePrefix("192.168.0.0/16"), RulePrivate, true},
	{netip.MustParsePrefix("fc00::/7"), RulePrivate, true},
	{netip.MustParsePrefix("fec0::/10"), RulePrivate, true},
	{netip.MustParsePrefix("64:ff9b:1::/48"), RulePrivate, true},
	{netip.MustParsePrefix("169.254.0.0/16"), RuleLinkLocal, true},
	{netip.MustParsePrefix("fe80::/10"), RuleLinkLocal, true},
	{netip.MustParsePrefix("100.64.0.0/10"), RuleShared, true},
	{netip.MustParsePrefix("198.18.0.0/15"), RuleBenchmark, true},
	{netip.MustParsePrefix("224.0.0.0/4"), RuleMulticast, false},
	{netip.MustParsePrefix("ff00::/8"), RuleMulticast, false},
	{netip.MustParsePrefix("192.0.0.0/24"), RuleReserved, false},
	{netip.MustParsePrefix("192.0.2.0/24"), RuleReserved, false},
	{netip.MustParsePrefix("198.51.100.0/24"), RuleReserved, false},
	{netip.MustParsePrefix("203.0.113.0/24"), RuleReserved, false},
	{netip.MustParsePrefix("240.0.0.0/4"), RuleReserved, false},
	{netip.MustParsePrefix("100::/64"), RuleReserved, false},
	{netip.MustParsePrefix("2001::/32"), RuleReserved, false}, // Teredo: the address inside is scrambled
	{netip.MustParsePrefix("2001:db8::/32"), RuleReserved, false},
	{netip.MustParsePrefix("3fff::/20"), RuleReserved, false},
}

// carriers are IPv6 ranges whose addresses stand for the IPv4 address inside
// them, at the byte given.
//
//nolint:gochecknoglobals // a constant table
var carriers = []struct {
	prefix netip.Prefix
	at     int
}{
	{netip.MustParsePrefix("64:ff9b::/96"), 12},
	{netip.MustParsePrefix("2002::/16"), 2},
	{netip.MustParsePrefix("::/96"), 12},
}

// Check returns a *RefusedError unless a connection to the address is allowed.
func (g Guard) Check(addr netip.Addr) error {
	if rule := g.broken(addr); rule != "" {
		return &RefusedError{Address: addr.String(), Rule: rule}
	}
	return nil
}

// broken is the rule that an address breaks; empty if none.
func (g Guard) broken(addr netip.Addr) string {
	if !addr.IsValid() {
		return RuleAddress
	}
	addr = addr.WithZone("").Unmap()
	if slices.Contains(metadata, addr) {
		return RuleMetadata
	}
	for _, r := range ranges {
		switch {
		case !r.prefix.Contains(addr):
		case r.opens && g.opens(r.rule):
			return ""
		default:
			return r.rule
		}
	}
	for _, c := range carriers {
		if c.prefix.Contains(addr) {
			b := addr.As16()
			return g.broken(netip.AddrFrom4([4]byte(b[c.at : c.at+4])))
		}
	}
	return ""
}

// Control is a net.Dialer's ControlContext: it is called with the address that
// is about to be connected to.
func (g Guard) Control(_ context.Context, network, address string, _ syscall.RawConn) error {
	switch network {
	case "tcp", "tcp4", "tcp6":
	default:
		return &RefusedError{Address: address, Rule: RuleNetwork}
	}
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return &RefusedError{Address: address, Rule: RuleAddress}
	}
	return g.Check(to.Addr())
}

// Times after which a connection that does not come about is given up.
const (
	dialTimeout = 10 * time.Second
	tlsTimeout  = 10 * time.Second
	idleTimeout = 90 * time.Second
	idleMost    = 64
)

// Dialer dials what the guard allows.
func (g Guard) Dialer() *net.Dialer {
	return &net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second, ControlContext: g.Control}
}

// Transport makes connections by Dialer. It takes a proxy from proxy only, and
// with nil none: what the environment says is for who asks for it
// (http.ProxyFromEnvironment).
func (g Guard) Transport(proxy func(*http.Request) (*url.URL, error)) *http.Transport {
	return &http.Transport{
		Proxy:               proxy,
		DialContext:         g.Dialer().DialContext,
		ForceAttemptHTTP2:   true,
		MaxIdleConns:        idleMost,
		IdleConnTimeout:     idleTimeout,
		TLSHandshakeTimeout: tlsTimeout,
	}
}
