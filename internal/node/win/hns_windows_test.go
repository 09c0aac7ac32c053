package win

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/Microsoft/hcsshim/hcn"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/windows"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/node/win/network"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/hns"
	"github.com/windows-machine-config/wmco/internal/testing/sim/contract"
)

// hnsService is the name of the Host Network Service.
const hnsService = "hns"

func TestNetworksKeepTheContract(t *testing.T) {
	mustHaveHNS(t)
	contract.Networks(t, networksFixture(mustHost(t)))
}

func TestACLsKeepTheContract(t *testing.T) {
	mustHaveHNS(t)
	host := mustHost(t)
	fixture := networksFixture(host)
	contract.ACLs(t, func(t *testing.T) contract.ACLsFixture {
		return contract.ACLsFixture{ACLs: host.EndpointACLs, NetworksFixture: fixture(t)}
	})
}

// TestACLsKeepOtherPolicies has the policies of a CNI plugin.
func TestACLsKeepOtherPolicies(t *testing.T) {
	mustHaveHNS(t)
	host := mustHost(t)
	f := networksFixture(host)(t)
	n, err := f.Overlay.CreateNetwork(t.Context(), hns.Network{
		Name: "wicd-policies", Type: hns.Overlay, Subnets: []hns.Subnet{{Prefix: netip.MustParsePrefix("10.250.1.0/24"), Gateway: netip.MustParseAddr("10.250.1.1"), VNI: 4097}},
	})
	if err != nil {
		t.Fatal(err)
	}
	endpoint, err := (&hcn.HostComputeEndpoint{Name: "pod", HostComputeNetwork: n.ID, SchemaVersion: hcn.V2SchemaVersion(), Policies: []hcn.EndpointPolicy{
		{Type: hcn.OutBoundNAT, Settings: []byte(`{"Exceptions":["10.250.0.0/16"]}`)},
		{Type: hcn.SDNRoute, Settings: []byte(`{"DestinationPrefix":"172.30.0.0/16","NeedEncap":true}`)},
	}}).Create()
	if err != nil {
		t.Fatal(err)
	}
	for _, acls := range [][]hns.ACL{{{Action: hns.Block, Direction: hns.In, Priority: 65500}}, {{Action: hns.Allow, Direction: hns.In, Priority: 100}}, nil} {
		if err := host.EndpointACLs.SetACLs(t.Context(), strings.ToLower(endpoint.Id), acls); err != nil {
			t.Fatal(err)
		}
		found, err := hcn.GetEndpointByID(endpoint.Id)
		if err != nil {
			t.Fatal(err)
		}
		others := slices.DeleteFunc(found.Policies, func(p hcn.EndpointPolicy) bool { return p.Type == hcn.ACL })
		if diff := cmp.Diff(endpoint.Policies, others); diff != "" {
			t.Errorf("with ACLs %+v, other policies are (-want +got):\n%s", acls, diff)
		}
	}
}

// networksFixture returns fixtures with the Host Network Service of this Wine.
func networksFixture(host hostapi.Host) func(t *testing.T) contract.NetworksFixture {
	return func(t *testing.T) contract.NetworksFixture {
		serveReaper(t, addressesPort)
		service := desired.Service{Name: hnsService, Description: "the Host Network Service of the tests", Command: command(t, "serves")}
		removeAfter(t, host.Services, hnsService)
		if _, err := host.Services.Put(t.Context(), service); err != nil {
			t.Fatal(err)
		}
		start := func(t *testing.T) {
			if err := host.Services.Start(t.Context(), hnsService); err != nil {
				t.Fatal(err)
			}
		}
		start(t)
		networks := host.Networks.(*network.HNS)
		removeAll(t, networks)
		return contract.NetworksFixture{
			Networks: networks, Overlay: networks,
			Balance: func(t *testing.T, b hns.LoadBalancer) string {
				id, err := networks.CreateLoadBalancer(t.Context(), b)
				if err != nil {
					t.Fatal(err)
				}
				return id
			},
			Start: start,
			Stop: func(t *testing.T) {
				if err := host.Services.Stop(t.Context(), hnsService); err != nil {
					t.Fatal(err)
				}
			},
		}
	}
}

// mustHaveHNS skips tests if networks cannot or must not be created.
func mustHaveHNS(t *testing.T) {
	t.Helper()
	if !onWine() {
		t.Skip("a test must not create networks on a real Windows: that cuts its connections")
	}
	if windows.NewLazySystemDLL("computenetwork.dll").Load() != nil {
		t.Skip("this Wine has no computenetwork.dll (lab/windows/hostcompute)")
	}
}

// servedFile is locked by the lab's network service while it runs; without this file, calls are answered without a service. testdata/wine removes it,
// because the calls of this process have it open.
const servedFile = `C:\lab\hns\service`

// serveNetworks is Store.Serve of lab/windows/hns.
func serveNetworks() (release func(), err error) {
	if err := os.MkdirAll(filepath.Dir(servedFile), 0o755); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(servedFile, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	const serving = 1 << 41
	err = windows.LockFileEx(windows.Handle(file.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK, 0, 1, 0, &windows.Overlapped{OffsetHigh: serving >> 32})
	return func() { _ = file.Close() }, err
}

// removeAll removes all objects, now and after the test.
func removeAll(t *testing.T, h *network.HNS) {
	t.Helper()
	remove := func() {
		s, err := h.List(context.Background())
		if err == nil {
			err = h.Remove(context.Background(), s)
		}
		if err != nil {
			t.Error(err)
		}
	}
	remove()
	t.Cleanup(remove)
}
