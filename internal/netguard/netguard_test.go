package netguard_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/perdure/perdure/internal/netguard"
)

func TestAddressesThatAreNotTheInternetAreRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		addr, rule string
		opens      bool
	}{
		{"127.0.0.1", netguard.RuleLoopback, true},
		{"127.255.255.254", netguard.RuleLoopback, true},
		{"::1", netguard.RuleLoopback, true},
		{"::ffff:127.0.0.1", netguard.RuleLoopback, true},
		{"10.0.0.1", netguard.RulePrivate, true},
		{"172.16.0.1", netguard.RulePrivate, true},
		{"172.31.255.255", netguard.RulePrivate, true},
		{"192.168.1.1", netguard.RulePrivate, true},
		{"::ffff:192.168.1.1", netguard.RulePrivate, true},
		{"fc00::1", netguard.RulePrivate, true},
		{"fdff::1", netguard.RulePrivate, true},
		{"fec0::1", netguard.RulePrivate, true},
		{"64:ff9b:1::7f00:1", netguard.RulePrivate, true},
		{"169.254.1.1", netguard.RuleLinkLocal, true},
		{"fe80::1", netguard.RuleLinkLocal, true},
		{"fe80::1%eth0", netguard.RuleLinkLocal, true},
		{"100.64.0.1", netguard.RuleShared, true},
		{"100.127.255.255", netguard.RuleShared, true},
		{"198.18.0.1", netguard.RuleBenchmark, true},
		{"64:ff9b::10.0.0.1", netguard.RulePrivate, true},
		{"64:ff9b::127.0.0.1", netguard.RuleLoopback, true},
		{"2002:a00:1::", netguard.RulePrivate, true},
		{"2002:7f00:1::1", netguard.RuleLoopback, true},
		{"::10.0.0.1", netguard.RulePrivate, true},
		{"169.254.169.254", netguard.RuleMetadata, false},
		{"169.254.170.2", netguard.RuleMetadata, false},
		{"::ffff:169.254.169.254", netguard.RuleMetadata, false},
		{"64:ff9b::169.254.169.254", netguard.RuleMetadata, false},
		{"2002:a9fe:a9fe::", netguard.RuleMetadata, false},
		{"fd00:ec2::254", netguard.RuleMetadata, false},
		{"fd00:ec2::254%eth0", netguard.RuleMetadata, false},
		{"100.100.100.200", netguard.RuleMetadata, false},
		{"168.63.129.16", netguard.RuleMetadata, false},
		{"0.0.0.0", netguard.RuleUnspecified, false},
		{"0.1.2.3", netguard.RuleUnspecified, false},
		{"::", netguard.RuleUnspecified, false},
		{"::ffff:0.0.0.0", netguard.RuleUnspecified, false},
		{"224.0.0.1", netguard.RuleMulticast, false},
		{"239.1.2.3", netguard.RuleMulticast, false},
		{"ff02::1", netguard.RuleMulticast, false},
		{"255.255.255.255", netguard.RuleReserved, false},
		{"240.0.0.1", netguard.RuleReserved, false},
		{"192.0.2.1", netguard.RuleReserved, false},
		{"203.0.113.9", netguard.RuleReserved, false},
		{"2001:db8::1", netguard.RuleReserved, false},
		{"2001::1", netguard.RuleReserved, false},
	} {
		addr := netip.MustParseAddr(c.addr)
		var refused *netguard.RefusedError
		require.ErrorAs(t, netguard.Guard{}.Check(addr), &refused, c.addr)
		require.Equal(t, c.rule, refused.Rule, c.addr)
		require.Equal(t, addr.String(), refused.Address)
		require.True(t, refused.Permanent())
		err := netguard.Guard{AllowPrivate: true}.Check(addr)
		if c.opens {
			require.NoError(t, err, c.addr)
		} else {
			require.Error(t, err, c.addr)
		}
	}
	for _, addr := range []string{
		"1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "172.15.255.255", "172.32.0.0", "100.63.255.255", "100.128.0.0", "169.253.255.255",
		"198.17.255.255", "198.20.0.0", "223.255.255.255", "2606:4700::1111", "64:ff9b::8.8.8.8", "2002:808:808::", "::ffff:8.8.8.8", "fe00::1",
	} {
		require.NoError(t, netguard.Guard{}.Check(netip.MustParseAddr(addr)), addr)
	}
	require.Error(t, netguard.Guard{AllowPrivate: true}.Check(netip.Addr{}))
}

// TestARentedMachinesOwnAddressesStayShut is what holds in a cloud's functions:
// what answers there at loopback and link-local addresses is not the operator's.
func TestARentedMachinesOwnAddressesStayShut(t *testing.T) {
	t.Parallel()
	rented := netguard.Guard{Rented: true}
	private := netguard.Guard{Rented: true, AllowPrivate: true}
	emulated := netguard.Guard{Rented: true, AllowLoopback: true}
	for _, c := range []struct {
		addr                      string
		rented, private, emulated bool
	}{
		{"1.1.1.1", true, true, true},
		{"10.0.0.1", false, true, false},
		{"100.64.0.1", false, true, false},
		{"fc00::1", false, true, false},
		{"127.0.0.1", false, false, true},
		{"::1", false, false, true},
		{"::ffff:127.0.0.1", false, false, true},
		{"64:ff9b::127.0.0.1", false, false, true},
		{"169.254.1.1", false, false, false},
		{"fe80::1", false, false, false},
		{"169.254.169.254", false, false, false},
		{"169.254.170.2", false, false, false},
		{"fd00:ec2::254", false, false, false},
		{"0.0.0.0", false, false, false},
	} {
		addr := netip.MustParseAddr(c.addr)
		require.Equal(t, c.rented, rented.Check(addr) == nil, c.addr)
		require.Equal(t, c.private, private.Check(addr) == nil, c.addr)
		require.Equal(t, c.emulated, emulated.Check(addr) == nil, c.addr)
	}
}

func TestTheConnectedAddressIsChecked(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }))
	t.Cleanup(server.Close)
	at, err := url.Parse(server.URL)
	require.NoError(t, err)
	byName := "http://localhost:" + at.Port()

	closed := &http.Client{Transport: netguard.Guard{}.Transport(nil)}
	for _, to := range []string{server.URL, byName, "http://[::ffff:127.0.0.1]:" + at.Port()} {
		_, err := get(t, closed, to)
		var refused *netguard.RefusedError
		require.ErrorAs(t, err, &refused, to)
		require.Equal(t, netguard.RuleLoopback, refused.Rule)
	}
	opened := &http.Client{Transport: netguard.Guard{AllowPrivate: true}.Transport(nil)}
	status, err := get(t, opened, byName)
	require.NoError(t, err)
	require.Equal(t, http.StatusTeapot, status)
}

func TestARedirectIsCheckedToo(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.RedirectHandler("http://169.254.169.254/latest/meta-data", http.StatusFound))
	t.Cleanup(server.Close)
	_, err := get(t, &http.Client{Transport: netguard.Guard{AllowPrivate: true}.Transport(nil)}, server.URL)
	var refused *netguard.RefusedError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, netguard.RuleMetadata, refused.Rule)
}

func get(t *testing.T, client *http.Client, to string) (int, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, to, nil)
	require.NoError(t, err)
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	require.NoError(t, resp.Body.Close())
	return resp.StatusCode, nil
}

func TestTheEnvironmentNamesNoProxy(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	t.Setenv("http_proxy", "http://127.0.0.1:1")
	require.Nil(t, netguard.Guard{}.Transport(nil).Proxy)
	require.NotNil(t, netguard.Guard{}.Transport(http.ProxyFromEnvironment).Proxy)
}

func TestOnlyTCPToAnAddressIsDialed(t *testing.T) {
	t.Parallel()
	g := netguard.Guard{AllowPrivate: true}
	require.NoError(t, g.Control(t.Context(), "tcp4", "127.0.0.1:80", nil))
	for _, c := range [][2]string{{"udp", "8.8.8.8:53"}, {"unix", "/run/s"}, {"tcp", "localhost:80"}, {"tcp", ""}} {
		require.Error(t, g.Control(t.Context(), c[0], c[1], nil), c)
	}
}
