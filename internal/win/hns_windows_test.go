package win

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/Microsoft/hcsshim/hcn"
	"golang.org/x/sys/windows"

	"github.com/windows-machine-config/wmco/internal/desired"
	"github.com/windows-machine-config/wmco/internal/hns"
	"github.com/windows-machine-config/wmco/internal/sim/contract"
)

func TestNetworksKeepTheirPromises(t *testing.T) {
	mustHaveHNS(t)
	host := mustHost(t)
	contract.Networks(t, func(t *testing.T) contract.NetworksFixture {
		keepAddresses(t)
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
		removeAll(t, host.Networks.(*HNS))
		return contract.NetworksFixture{
			Networks: host.Networks, Overlay: host.Networks.(*HNS), Balance: mustCreateLoadBalancer,
			Start: start,
			Stop: func(t *testing.T) {
				if err := host.Services.Stop(t.Context(), hnsService); err != nil {
					t.Fatal(err)
				}
			},
		}
	})
}

// mustHaveHNS skips tests where networks must not be made, or cannot.
func mustHaveHNS(t *testing.T) {
	t.Helper()
	if !onWine() {
		t.Skip("a test must not make networks on a real Windows: that cuts its connections")
	}
	if windows.NewLazySystemDLL("computenetwork.dll").Load() != nil {
		t.Skip("this Wine has no computenetwork.dll (lab/hostcompute)")
	}
}

// servedFile is what the lab's stand-in for the service locks while it runs; without it, calls are answered without a service. It
// stays, because the calls of this process have it open: testdata/wine removes it.
const servedFile = `C:\lab\hns\service`

// serveNetworks is Store.Serve of lab/hns.
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
func removeAll(t *testing.T, h *HNS) {
	t.Helper()
	remove := func() {
		s, err := h.Look(context.Background())
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

// mustCreateLoadBalancer makes one as kube-proxy does.
func mustCreateLoadBalancer(t *testing.T, b hns.LoadBalancer) (id string) {
	t.Helper()
	wanted := &hcn.HostComputeLoadBalancer{
		HostComputeEndpoints: b.Endpoints, SchemaVersion: hcn.V2SchemaVersion(),
		PortMappings: []hcn.LoadBalancerPortMapping{{Protocol: uint32(b.Protocol), ExternalPort: b.External, InternalPort: b.Internal}},
	}
	if b.SourceVIP.IsValid() {
		wanted.SourceVIP = b.SourceVIP.String()
	}
	for _, vip := range b.VIPs {
		wanted.FrontendVIPs = append(wanted.FrontendVIPs, vip.String())
	}
	if b.DSR {
		wanted.Flags = hcn.LoadBalancerFlagsDSR
	}
	made, err := wanted.Create()
	if err != nil {
		t.Fatal(err)
	}
	return strings.ToLower(made.Id)
}

func TestCodesOfTheServiceHaveOurErrors(t *testing.T) {
	for code, want := range map[syscall.Errno]error{
		0x490:      hns.ErrNotFound,
		0x803b0001: hns.ErrNotFound,
		0x803b0002: hns.ErrNotFound,
		0xb7:       hns.ErrExists,
		0x1392:     hns.ErrExists,
		0x803b0010: hns.ErrExists,
		0x803b0013: hns.ErrExists,
		0x6ba:      hns.ErrUnavailable,
		0x6be:      hns.ErrUnavailable,
		0x6d9:      hns.ErrUnavailable,
		0x426:      hns.ErrUnavailable,
		0x803b0020: hns.ErrUnavailable,
		5:          nil,
		0x803b002f: nil,
	} {
		err := asOurs(errorOf(code))
		for _, ours := range []error{hns.ErrNotFound, hns.ErrExists, hns.ErrUnavailable} {
			if errors.Is(err, ours) != (ours == want) {
				t.Errorf("code %#x is %v, want %v", uintptr(code), err, want)
			}
		}
	}
	if err := asOurs(hcn.NetworkNotFoundError{NetworkID: "x"}); !errors.Is(err, hns.ErrNotFound) {
		t.Errorf("a search in vain is %v", err)
	}
}

// errorOf is an error of hcn with a code of Windows.
func errorOf(code syscall.Errno) error {
	failure := &hcn.HcnError{}
	inner := reflect.ValueOf(&failure.HcsError).Elem() // whose type is hcsshim's own
	inner.Set(reflect.New(inner.Type().Elem()))
	failure.Err = code
	return fmt.Errorf("calling: %w", failure)
}

func TestACallThatHangsKeepsNobodyWaiting(t *testing.T) {
	mustHaveHNS(t)
	h := newHNS(newServices())
	goOn, ended := make(chan struct{}), make(chan struct{})
	hang := func() error {
		defer close(ended)
		<-goOn
		return nil
	}
	within := func() context.Context {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		t.Cleanup(cancel)
		return ctx
	}
	if err := h.look(within(), "hanging", hang); !errors.Is(err, hns.ErrUnavailable) {
		t.Errorf("the call that hangs: %v, want ErrUnavailable", err)
	}
	second := false
	if err := h.look(within(), "waiting", func() error { second = true; return nil }); !errors.Is(err, hns.ErrUnavailable) || second {
		t.Errorf("the next one: %v, and was it made: %v; want ErrUnavailable, and that it was not", err, second)
	}
	if err := h.change(within(), "changing", func() error { return nil }); err != nil {
		t.Errorf("a change: %v; want that looks do not keep it", err)
	}
	close(goOn)
	<-ended
	if err := h.look(t.Context(), "looking again", func() error { return nil }); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

func TestOnlyAWindowsWithoutTheServiceHasNoNetworksForSure(t *testing.T) {
	mustHaveHNS(t)
	host := mustHost(t)
	removeAfter(t, host.Services, hnsService)
	h := host.Networks.(*HNS)
	silent := func() error {
		return h.look(t.Context(), "looking", func() error { return errorOf(0x6ba) })
	}
	if err := silent(); !errors.Is(err, hns.ErrUnavailable) || unlessNone(err) != nil {
		t.Errorf("silence without a service is %v, want ErrUnavailable, and that nothing can be there", err)
	}
	if _, err := host.Services.Put(t.Context(), desired.Service{Name: hnsService, Command: command(t, "serves")}); err != nil {
		t.Fatal(err)
	}
	if err := silent(); !errors.Is(err, hns.ErrUnavailable) || unlessNone(err) == nil {
		t.Errorf("silence of a service that is stopped is %v, want ErrUnavailable", err)
	}
}

func TestWhatOthersMadeIsReadAsFarAsItCanBe(t *testing.T) {
	settings := func(text string) []byte { return []byte(text) }
	n := networkOf(hcn.HostComputeNetwork{
		Id: "AAAAAAAA-0000-4000-8000-000000000001", Name: "nat", Type: hcn.NAT, Flags: hcn.EnableNonPersistent | hcn.DisableHostPort,
		Ipams: []hcn.Ipam{{Subnets: []hcn.Subnet{{IpAddressPrefix: "no prefix", Policies: []json.RawMessage{settings(`"no policy"`)}}}}, {}},
		Policies: []hcn.NetworkPolicy{
			{Type: hcn.InterfaceConstraint, Settings: settings(`{"InterfaceAlias":"Ethernet 2"}`)}, {Type: hcn.DrMacAddress, Settings: settings(`[]`)},
			{Type: hcn.ProviderAddress}, {Type: hcn.VxlanPort, Settings: settings(`{"Port":4789}`)}, {Type: "Unknown"},
			{Type: hcn.RemoteSubnetRoute, Settings: settings(`{"DestinationPrefix":"10.1.0.0/24","IsolationId":4097,"ProviderAddress":"192.0.2.1","DistributedRouterMacAddress":"0a:58:0a:01:00:01"}`)},
		},
	})
	want := hns.Network{
		ID: "aaaaaaaa-0000-4000-8000-000000000001", Name: "nat", Type: "NAT", Subnets: []hns.Subnet{{}}, Adapter: "Ethernet 2",
		Remotes: []hns.RemoteSubnet{{Prefix: netip.MustParsePrefix("10.1.0.0/24"), VNI: 4097, Host: netip.MustParseAddr("192.0.2.1"), RouterMAC: "0A-58-0A-01-00-01"}},
	}
	if !reflect.DeepEqual(want, n) {
		t.Errorf("read %+v, want %+v", n, want)
	}
}
