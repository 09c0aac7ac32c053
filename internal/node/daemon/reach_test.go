package daemon_test

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/windows-machine-config/wmco/internal/node/daemon/daemontest"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
	"github.com/windows-machine-config/wmco/internal/testing/sim/servers"
)

// reach calls the reach command on a host with these options.
func reach(t *testing.T, o sim.WindowsOptions, request wicdapi.ReachRequest) (wicdapi.ReachResult, error) {
	t.Helper()
	o.Root = t.TempDir()
	w := sim.NewWindows(o)
	t.Cleanup(w.PowerOff)
	w.CutPowerAfter(0) // at the first change, of which there must be none
	var result wicdapi.ReachResult
	err := wicdapi.Call(t.Context(), daemontest.NewWire(w), wicdapi.CommandReach, request, &result, nil)
	return result, err
}

func TestHostReportsAPIServerReachability(t *testing.T) {
	cluster, err := servers.NewCluster()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	otherCluster, err := servers.NewCluster()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(otherCluster.Close)
	_, port, _ := strings.Cut(strings.TrimPrefix(cluster.URL, "https://"), ":")
	loopback, away := netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("192.0.2.1")
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		if strings.HasPrefix(address, away.String()) {
			return nil, errors.New("no route to host")
		}
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}
	names := func(all ...netip.Addr) func(context.Context, string) ([]netip.Addr, error) {
		return func(_ context.Context, name string) ([]netip.Addr, error) {
			if name != "api.example" {
				return nil, errors.New("no such host")
			}
			return all, nil
		}
	}
	for name, test := range map[string]struct {
		server, ca string
		resolve    func(context.Context, string) ([]netip.Addr, error)
		resolved   []netip.Addr
		contains   []string // in the failure; empty if the host reaches it
	}{
		"the address of the server":            {server: cluster.URL, ca: cluster.CA},
		"another cluster's server":             {server: otherCluster.URL, ca: cluster.CA, contains: []string{"verifying the server at 127.0.0.1:", "unknown authority", "simulated CA"}},
		"no listener":                          {server: "https://127.0.0.1:1", ca: cluster.CA, contains: []string{"connecting to 127.0.0.1:1: "}},
		"an unknown name":                      {server: "https://lb-apiserver.kubernetes.local:6443", ca: cluster.CA, resolve: names(), contains: []string{"resolving lb-apiserver.kubernetes.local: no such host"}},
		"a name without addresses":             {server: "https://api.example:6443", ca: cluster.CA, resolve: names(), contains: []string{"resolving api.example: the name has no address"}},
		"a name not in the certificate":        {server: "https://api.example:" + port, ca: cluster.CA, resolve: names(loopback), resolved: []netip.Addr{loopback}, contains: []string{"verifying the server at 127.0.0.1:", "api.example"}},
		"addresses that do not answer":         {server: "https://api.example:6443", ca: cluster.CA, resolve: names(away, away), resolved: []netip.Addr{away, away}, contains: []string{"connecting to 192.0.2.1:6443: no route to host; connecting"}},
		"the first responding address decides": {server: "https://api.example:" + port, ca: otherCluster.CA, resolve: names(away, loopback), resolved: []netip.Addr{away, loopback}, contains: []string{"verifying the server at 127.0.0.1:"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := reach(t, sim.WindowsOptions{Dial: dial, Resolve: test.resolve}, wicdapi.ReachRequest{Server: test.server, CA: test.ca})
			if err != nil || (got.Failure == "") != (len(test.contains) == 0) || !slices.Equal(got.Resolved, test.resolved) {
				t.Fatalf("%+v, %v; want %v, and a failure with %q", got, err, test.resolved, test.contains)
			}
			daemontest.ExpectContains(t, got.Failure, test.contains...)
		})
	}
	for name, request := range map[string]wicdapi.ReachRequest{"no CA": {Server: cluster.URL, CA: "none"}, "no TLS": {Server: "http://127.0.0.1:1", CA: cluster.CA}} {
		if got, err := reach(t, sim.WindowsOptions{}, request); err == nil {
			t.Errorf("%s: %+v, want an error", name, got)
		}
	}
}

func TestReachBypassesProxy(t *testing.T) {
	t.Setenv("HTTPS_PROXY", "http://127.0.0.1:1")
	cluster, err := servers.NewCluster()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	if got, err := reach(t, sim.WindowsOptions{}, wicdapi.ReachRequest{Server: cluster.URL, CA: cluster.CA}); err != nil || got.Failure != "" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestResolvedAddressesAreBounded(t *testing.T) {
	many := make([]netip.Addr, 1000)
	for i := range many {
		many[i] = netip.AddrFrom4([4]byte{192, 0, 2, byte(i)})
	}
	cluster, err := servers.NewCluster()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	dials := 0
	got, err := reach(t, sim.WindowsOptions{
		Dial:    func(context.Context, string, string) (net.Conn, error) { dials++; return nil, errors.New("refused") },
		Resolve: func(context.Context, string) ([]netip.Addr, error) { return many, nil },
	}, wicdapi.ReachRequest{Server: "https://api.example:6443", CA: cluster.CA})
	if err != nil || len(got.Resolved) != 16 || dials != 4 {
		t.Errorf("%d addresses, %d connections, %v; want 16 and 4", len(got.Resolved), dials, err)
	}
}
