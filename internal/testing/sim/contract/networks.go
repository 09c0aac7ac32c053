package contract

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/node/overlay"
	"github.com/windows-machine-config/wmco/internal/shared/hns"
)

// NetworksFixture is a running Host Network Service for one test, without networks. The fixture cleans up after the test.
type NetworksFixture struct {
	Networks hostapi.Networks
	// Overlay orders its networks by ID.
	Overlay overlay.HNS
	// Balance creates a load balancer like kube-proxy, and returns its ID.
	Balance func(t *testing.T, b hns.LoadBalancer) (id string)
	// Stop stops the service, Start starts it with the same objects; nil if NoStop is the reason why it cannot be stopped.
	Stop, Start func(t *testing.T)
	NoStop      string
}

// Networks checks the contracts of hostapi.Networks and overlay.HNS.
func Networks(t *testing.T, fixture func(t *testing.T) NetworksFixture) {
	run(t, fixture, []test[NetworksFixture]{
		{"NetworkMatchesRequestAndHasAddresses", networkMatchesRequestAndHasAddresses},
		{"NetworkNamesAreUnique", networkNamesAreUnique},
		{"OverlayCanHaveItsOwnPort", overlayCanHaveItsOwnPort},
		{"DeletingNetworkDeletesEndpoints", deletingNetworkDeletesEndpoints},
		{"RemoteSubnetsAreAddedAndRemoved", remoteSubnetsAreAddedAndRemoved},
		{"RemoteSubnetHasOneHost", remoteSubnetHasOneHost},
		{"RemoteSubnetsRequireNetwork", remoteSubnetsRequireNetwork},
		{"HostEndpointIsInHostCompartment", hostEndpointIsInHostCompartment},
		{"EndpointNamesAndAddressesAreUnique", endpointNamesAndAddressesAreUnique},
		{"LoadBalancersAreListed", loadBalancersAreListed},
		{"ReadObjectsReturnsSameState", readObjectsReturnsSameState},
		{"NetworkIsFoundByID", networkIsFoundByID},
		{"OnlyNamedObjectsAreRemoved", onlyNamedObjectsAreRemoved},
		{"StoppedServiceIsNotReportedAsEmpty", stoppedServiceIsNotReportedAsEmpty},
		{"LateResponseIsDiscarded", lateResponseIsDiscarded},
		{"WatchReportsStopAndStart", watchReportsStopAndStart},
		{"WatchEndsWithItsContext", networkWatchEnds},
	})
}

// overlayNetwork is the network of the tests.
func overlayNetwork() hns.Network {
	return hns.Network{
		Name: "wicd-contract", Type: hns.Overlay, HostRoute: true, AutomaticDNS: true, Persistent: true,
		Subnets: []hns.Subnet{{Prefix: netip.MustParsePrefix("10.250.1.0/24"), Gateway: netip.MustParseAddr("10.250.1.1"), VNI: 4097}},
	}
}

func mustCreateNetwork(t *testing.T, f NetworksFixture, n hns.Network) hns.Network {
	t.Helper()
	created, err := f.Overlay.CreateNetwork(deadline(t), n)
	if err != nil {
		t.Fatal(err)
	}
	return created
}

func mustCreateEndpoint(t *testing.T, f NetworksFixture, e hns.Endpoint) hns.Endpoint {
	t.Helper()
	created, err := f.Networks.CreateEndpoint(deadline(t), e)
	if err != nil {
		t.Fatal(err)
	}
	return created
}

func mustListObjects(t *testing.T, f NetworksFixture) hns.State {
	t.Helper()
	s, err := f.Networks.List(deadline(t))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func expectNetworks(t *testing.T, f NetworksFixture, want ...hns.Network) {
	t.Helper()
	slices.SortFunc(want, func(a, b hns.Network) int { return strings.Compare(a.ID, b.ID) })
	got, err := f.Overlay.Networks(deadline(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range [][]hns.Network{got, mustListObjects(t, f).Networks} {
		if diff := cmp.Diff(want, list, equal()...); diff != "" {
			t.Errorf("networks (-want +got):\n%s", diff)
		}
	}
}

// equal compares addresses.
func equal() []cmp.Option {
	return []cmp.Option{
		cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
		cmp.Comparer(func(a, b netip.Prefix) bool { return a == b }),
	}
}

func expectError(t *testing.T, operation string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: error %v, want %v", operation, err, want)
	}
}

func networkMatchesRequestAndHasAddresses(t *testing.T, f NetworksFixture) {
	one := overlayNetwork()
	two := overlayNetwork()
	two.Name, two.HostRoute, two.AutomaticDNS, two.Persistent = "wicd-contract-two", false, false, false
	two.Subnets = []hns.Subnet{{Prefix: netip.MustParsePrefix("100.64.0.0/30"), Gateway: netip.MustParseAddr("100.64.0.2"), VNI: 4098}}
	var created []hns.Network
	for _, wanted := range []hns.Network{one, two} {
		got := mustCreateNetwork(t, f, wanted)
		if !regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`).MatchString(got.ID) {
			t.Errorf("ID %q is not a GUID in lower case", got.ID)
		}
		if !regexp.MustCompile(`^[0-9A-F]{2}(-[0-9A-F]{2}){5}$`).MatchString(got.RouterMAC) || !got.ManagementIP.Is4() {
			t.Errorf("router MAC %q, host address %v", got.RouterMAC, got.ManagementIP)
		}
		created = append(created, got)
		got.ID, got.RouterMAC, got.ManagementIP = "", "", netip.Addr{}
		if diff := cmp.Diff(wanted, got, equal()...); diff != "" {
			t.Errorf("created (-want +got):\n%s", diff)
		}
	}
	expectNetworks(t, f, created...)
}

func networkNamesAreUnique(t *testing.T, f NetworksFixture) {
	created := mustCreateNetwork(t, f, overlayNetwork())
	_, err := f.Overlay.CreateNetwork(deadline(t), overlayNetwork())
	expectError(t, "creating it again", err, hns.ErrExists)
	expectNetworks(t, f, created)
}

func overlayCanHaveItsOwnPort(t *testing.T, f NetworksFixture) {
	n := overlayNetwork()
	n.VXLANPort = 9898
	custom := mustCreateNetwork(t, f, n)
	n = overlayNetwork()
	n.Name, n.VXLANPort = "wicd-contract-two", hns.DefaultVXLANPort
	n.Subnets[0].Prefix, n.Subnets[0].Gateway = netip.MustParsePrefix("10.250.2.0/24"), netip.MustParseAddr("10.250.2.1")
	standard := mustCreateNetwork(t, f, n)
	if custom.VXLANPort != 9898 || standard.VXLANPort != 0 {
		t.Errorf("ports are %d and %d, want 9898, and 0 for the usual one", custom.VXLANPort, standard.VXLANPort)
	}
	expectNetworks(t, f, custom, standard)
}

func deletingNetworkDeletesEndpoints(t *testing.T, f NetworksFixture) {
	n := mustCreateNetwork(t, f, overlayNetwork())
	mustCreateEndpoint(t, f, hns.Endpoint{Network: n.ID, Name: "wicd-contract"})
	for _, want := range []error{nil, hns.ErrNotFound} {
		expectError(t, "deleting it", f.Overlay.DeleteNetwork(deadline(t), n.ID), want)
	}
	expectNetworks(t, f)
	if left := mustListObjects(t, f).Endpoints; len(left) > 0 {
		t.Errorf("endpoints %+v are left", left)
	}
	if second := mustCreateNetwork(t, f, overlayNetwork()); second.ID == n.ID {
		t.Error("a new network has the ID of the old one")
	}
}

// remotes are subnets of other hosts, ordered.
func remotes(count int) []hns.RemoteSubnet {
	var list []hns.RemoteSubnet
	for i := range count {
		high, low := byte(i/250), byte(i%250)
		list = append(list, hns.RemoteSubnet{
			Prefix: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 128 + high, low, 0}), 24), VNI: 4097,
			Host: netip.AddrFrom4([4]byte{192, 0, 2 + high, low + 1}), RouterMAC: fmt.Sprintf("0A-58-0A-%02X-%02X-01", 128+high, low),
		})
	}
	return list
}

func remoteSubnetsAreAddedAndRemoved(t *testing.T, f NetworksFixture) {
	n := mustCreateNetwork(t, f, overlayNetwork())
	all := remotes(230)
	expect := func(operation string, err error, want []hns.RemoteSubnet) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", operation, err)
		}
		n.Remotes = want
		expectNetworks(t, f, n)
	}
	expect("adding", f.Overlay.AddRemotes(deadline(t), n.ID, all[:220]), all[:220])
	expect("adding more, and some again", f.Overlay.AddRemotes(deadline(t), n.ID, all[200:]), all)
	expect("adding none", f.Overlay.AddRemotes(deadline(t), n.ID, nil), all)
	expect("removing many", f.Overlay.RemoveRemotes(deadline(t), n.ID, all[10:]), all[:10])
	expect("removing some that are absent", f.Overlay.RemoveRemotes(deadline(t), n.ID, all[9:12]), all[:9])
	moved := all[3]
	moved.Host = netip.MustParseAddr("192.0.2.250")
	expect("removing one of another host", f.Overlay.RemoveRemotes(deadline(t), n.ID, []hns.RemoteSubnet{moved}), all[:9])
	expect("removing all", f.Overlay.RemoveRemotes(deadline(t), n.ID, all), nil)
}

func remoteSubnetHasOneHost(t *testing.T, f NetworksFixture) {
	n := mustCreateNetwork(t, f, overlayNetwork())
	all := remotes(3)
	n.Remotes = all[:2]
	expectError(t, "adding", f.Overlay.AddRemotes(deadline(t), n.ID, all[:2]), nil)
	moved := all[1]
	moved.Host = netip.MustParseAddr("192.0.2.250")
	expectError(t, "adding one for another host", f.Overlay.AddRemotes(deadline(t), n.ID, []hns.RemoteSubnet{all[2], moved}), hns.ErrExists)
	expectNetworks(t, f, n)
}

func remoteSubnetsRequireNetwork(t *testing.T, f NetworksFixture) {
	expectError(t, "adding", f.Overlay.AddRemotes(deadline(t), absent, remotes(1)), hns.ErrNotFound)
	expectError(t, "removing", f.Overlay.RemoveRemotes(deadline(t), absent, remotes(1)), hns.ErrNotFound)
}

// absent is an ID without an object.
const absent = "11111111-2222-4333-8444-555555555555"

func hostEndpointIsInHostCompartment(t *testing.T, f NetworksFixture) {
	n := mustCreateNetwork(t, f, overlayNetwork())
	pod := mustCreateEndpoint(t, f, hns.Endpoint{Network: n.ID, Name: "wicd-contract-pod", Address: netip.MustParseAddr("10.250.1.9")})
	host := mustCreateEndpoint(t, f, hns.Endpoint{Network: n.ID, Name: "VIPEndpoint", Host: true})
	second := mustCreateEndpoint(t, f, hns.Endpoint{Network: n.ID, Name: "wicd-contract-second", Host: true})
	subnet := n.Subnets[0]
	for _, e := range []hns.Endpoint{host, second} {
		if !subnet.Prefix.Contains(e.Address) || e.Address == subnet.Gateway || e.Address == pod.Address || e.MAC == "" || e.Namespace == "" || !e.Host {
			t.Errorf("created %+v; want it in the host's namespace, with a MAC and a free address of %v", e, subnet.Prefix)
		}
	}
	if pod.Host || pod.Namespace != "" || pod.Address != netip.MustParseAddr("10.250.1.9") || host.Address == second.Address || host.Namespace != second.Namespace {
		t.Errorf("created pod endpoint %+v and host endpoints %+v and %+v", pod, host, second)
	}
	want := []hns.Endpoint{pod, host, second}
	slices.SortFunc(want, func(a, b hns.Endpoint) int { return strings.Compare(a.ID, b.ID) })
	if diff := cmp.Diff(want, mustListObjects(t, f).Endpoints, equal()...); diff != "" {
		t.Errorf("endpoints (-want +got):\n%s", diff)
	}
}

func endpointNamesAndAddressesAreUnique(t *testing.T, f NetworksFixture) {
	n := mustCreateNetwork(t, f, overlayNetwork())
	one := hns.Endpoint{Network: n.ID, Name: "wicd-contract", Address: netip.MustParseAddr("10.250.1.9")}
	mustCreateEndpoint(t, f, one)
	for property, e := range map[string]hns.Endpoint{
		"its name":    {Network: n.ID, Name: one.Name, Host: true},
		"its address": {Network: n.ID, Name: "wicd-contract-two", Address: one.Address},
	} {
		_, err := f.Networks.CreateEndpoint(deadline(t), e)
		expectError(t, "another endpoint with "+property, err, hns.ErrExists)
	}
	_, err := f.Networks.CreateEndpoint(deadline(t), hns.Endpoint{Network: absent, Name: "wicd-contract"})
	expectError(t, "on an absent network", err, hns.ErrNotFound)
	if got := mustListObjects(t, f).Endpoints; len(got) != 1 {
		t.Errorf("there are %+v, want one", got)
	}
}

// mustBalance creates an overlay with an endpoint and two load balancers to it.
func mustBalance(t *testing.T, f NetworksFixture) hns.State {
	t.Helper()
	n := mustCreateNetwork(t, f, overlayNetwork())
	e := mustCreateEndpoint(t, f, hns.Endpoint{Network: n.ID, Name: "wicd-contract"})
	s := hns.State{Networks: []hns.Network{n}, Endpoints: []hns.Endpoint{e}}
	for _, b := range []hns.LoadBalancer{
		{VIPs: []netip.Addr{netip.MustParseAddr("172.30.0.10")}, SourceVIP: netip.MustParseAddr("10.250.1.2"), Protocol: hns.UDP, External: 53, Internal: 5353, DSR: true},
		{Protocol: hns.TCP, External: 30080, Internal: 8080},
	} {
		b.Endpoints = []string{e.ID}
		b.ID = f.Balance(t, b)
		s.LoadBalancers = append(s.LoadBalancers, b)
	}
	slices.SortFunc(s.LoadBalancers, func(a, b hns.LoadBalancer) int { return strings.Compare(a.ID, b.ID) })
	return s
}

func loadBalancersAreListed(t *testing.T, f NetworksFixture) {
	want := mustBalance(t, f)
	if diff := cmp.Diff(want, mustListObjects(t, f), equal()...); diff != "" {
		t.Errorf("state (-want +got):\n%s", diff)
	}
}

func onlyNamedObjectsAreRemoved(t *testing.T, f NetworksFixture) {
	all := mustBalance(t, f)
	expectLeft := func(objects string, remove, left hns.State) {
		t.Helper()
		for range 2 { // the second call finds none
			if err := f.Networks.Remove(deadline(t), remove); err != nil {
				t.Errorf("removing %s: %v", objects, err)
			}
		}
		if diff := cmp.Diff(left, mustListObjects(t, f), equal()...); diff != "" {
			t.Errorf("%s removed (-want +got):\n%s", objects, diff)
		}
	}
	expectLeft("nothing", hns.State{}, all)
	first := all.LoadBalancers[0].ID
	all.LoadBalancers = all.LoadBalancers[1:]
	expectLeft("a load balancer by its ID", hns.State{LoadBalancers: []hns.LoadBalancer{{ID: first}}}, all)
	expectLeft("the rest", all, hns.State{})
}

func stoppedServiceIsNotReportedAsEmpty(t *testing.T, f NetworksFixture) {
	if f.Stop == nil {
		t.Skip(f.NoStop)
	}
	got := mustBalance(t, f)
	f.Stop(t)
	_, err := f.Networks.List(deadline(t))
	expectError(t, "List", err, hns.ErrUnavailable)
	_, err = f.Networks.CreateEndpoint(deadline(t), hns.Endpoint{Network: got.Networks[0].ID, Name: "wicd-contract-two"})
	expectError(t, "CreateEndpoint", err, hns.ErrUnavailable)
	expectError(t, "Remove", f.Networks.Remove(deadline(t), got), hns.ErrUnavailable)
	_, err = f.Overlay.Networks(deadline(t))
	expectError(t, "Networks", err, hns.ErrUnavailable)
	_, err = f.Overlay.CreateNetwork(deadline(t), hns.Network{Name: "wicd-contract-two", Type: hns.Overlay, Subnets: got.Networks[0].Subnets})
	expectError(t, "CreateNetwork", err, hns.ErrUnavailable)
	expectError(t, "DeleteNetwork", f.Overlay.DeleteNetwork(deadline(t), got.Networks[0].ID), hns.ErrUnavailable)
	expectError(t, "AddRemotes", f.Overlay.AddRemotes(deadline(t), got.Networks[0].ID, remotes(1)), hns.ErrUnavailable)
	expectError(t, "RemoveRemotes", f.Overlay.RemoveRemotes(deadline(t), got.Networks[0].ID, remotes(1)), hns.ErrUnavailable)
	f.Start(t)
	if diff := cmp.Diff(got, mustListObjects(t, f), equal()...); diff != "" {
		t.Errorf("started again (-want +got):\n%s", diff)
	}
}

func readObjectsReturnsSameState(t *testing.T, f NetworksFixture) {
	want := mustBalance(t, f)
	got, err := f.Networks.ReadObjects(deadline(t), []string{want.Endpoints[0].ID, absent})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, equal()...); diff != "" {
		t.Errorf("ReadObjects() (-want +got):\n%s", diff)
	}
}

// networkIsFoundByID also adds the host's route later, more than once.
func networkIsFoundByID(t *testing.T, f NetworksFixture) {
	wanted := overlayNetwork()
	wanted.HostRoute = false
	n := mustCreateNetwork(t, f, wanted)
	for id, want := range map[string]bool{n.ID: true, absent: false} {
		if got, err := f.Overlay.HasNetwork(deadline(t), id); got != want || err != nil {
			t.Errorf("HasNetwork(%s) = %t, %v; want %t", id, got, err, want)
		}
	}
	for range 2 {
		if err := f.Overlay.AddHostRoute(deadline(t), n.ID); err != nil {
			t.Errorf("adding the host's route: %v", err)
		}
	}
	n.HostRoute = true
	expectNetworks(t, f, n)
	expectError(t, "a route to an absent network", f.Overlay.AddHostRoute(deadline(t), absent), hns.ErrNotFound)
}

func lateResponseIsDiscarded(t *testing.T, f NetworksFixture) {
	mustCreateNetwork(t, f, overlayNetwork())
	ctx, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
	defer cancel()
	<-ctx.Done()
	s, err := f.Networks.List(ctx)
	expectError(t, "List", err, hns.ErrUnavailable)
	expectError(t, "List", err, context.DeadlineExceeded)
	if len(s.Networks) > 0 {
		t.Errorf("unexpected state %+v", s)
	}
	_, err = f.Overlay.CreateNetwork(ctx, overlayNetwork())
	expectError(t, "CreateNetwork", err, hns.ErrUnavailable)
}
