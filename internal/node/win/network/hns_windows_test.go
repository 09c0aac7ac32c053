package network

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/Microsoft/hcsshim"
	"github.com/Microsoft/hcsshim/hcn"
	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/svc/mgr"

	"github.com/windows-machine-config/wmco/internal/node/win/scm"
	"github.com/windows-machine-config/wmco/internal/shared/hns"
)

func TestHNSCodesMapToErrors(t *testing.T) {
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
		0x803b0006: hns.ErrAdapter,
		0x803b000d: hns.ErrPolicy,
		5:          nil,
		0x803b002f: nil,
	} {
		for _, failure := range []error{errorOf(code), fmt.Errorf("calling: %w", &hcsshim.HcsError{Err: code})} { // of both generations of the API
			err := asHNSError(failure)
			for _, class := range []error{hns.ErrNotFound, hns.ErrExists, hns.ErrUnavailable, hns.ErrAdapter, hns.ErrPolicy} {
				if errors.Is(err, class) != errors.Is(want, class) {
					t.Errorf("code %#x is %v, want %v", uintptr(code), err, want)
				}
			}
			if again := asHNSError(err); want != nil && again.Error() != err.Error() {
				t.Errorf("code %#x is classified twice: %v", uintptr(code), again)
			}
		}
	}
	if err := asHNSError(hcn.NetworkNotFoundError{NetworkID: "x"}); !errors.Is(err, hns.ErrNotFound) {
		t.Errorf("a search without a result is %v", err)
	}
}

// errorOf returns an error of hcn with a Windows error code.
func errorOf(code syscall.Errno) error {
	failure := &hcn.HcnError{}
	inner := reflect.ValueOf(&failure.HcsError).Elem() // whose type is hcsshim's own
	inner.Set(reflect.New(inner.Type().Elem()))
	failure.Err = code
	return fmt.Errorf("calling: %w", failure)
}

func TestHangingCallDoesNotBlockCallers(t *testing.T) {
	mustHaveCalls(t)
	h := NewHNS(scm.NewChanges())
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
	if err := h.runRead(within(), "hanging", hang); !errors.Is(err, hns.ErrUnavailable) {
		t.Errorf("the hanging call returned %v, want ErrUnavailable", err)
	}
	second := false
	if err := h.runRead(within(), "waiting", func() error { second = true; return nil }); !errors.Is(err, hns.ErrUnavailable) || second {
		t.Errorf("the next call returned %v (executed: %v), want ErrUnavailable without execution", err, second)
	}
	if err := h.change(within(), "changing", func() error { return nil }); err != nil {
		t.Errorf("a change: %v; want that reads do not block it", err)
	}
	close(goOn)
	<-ended
	if err := h.runRead(t.Context(), "reading again", func() error { return nil }); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// mustHaveCalls skips tests if the service cannot be called.
func mustHaveCalls(t *testing.T) {
	t.Helper()
	if windows.NewLazySystemDLL("computenetwork.dll").Load() != nil {
		t.Skip("this Windows has no computenetwork.dll (on Wine: lab/windows/hostcompute)")
	}
}

func TestOnlyMissingHNSMeansNoNetworks(t *testing.T) {
	mustHaveCalls(t)
	if windows.NewLazySystemDLL("ntdll.dll").NewProc("wine_get_version").Find() != nil {
		t.Skip("a test must not remove the service of a real Windows")
	}
	m := mustConnect(t)
	removeAfter(t, m, hnsService)
	h := NewHNS(scm.NewChanges())
	silent := func() error {
		return h.runRead(t.Context(), "reading", func() error { return errorOf(0x6ba) })
	}
	if err := silent(); !errors.Is(err, hns.ErrUnavailable) || ignoreNoHNS(err) != nil {
		t.Errorf("a missing service returned %v, want ErrUnavailable and no objects", err)
	}
	s, err := m.CreateService(hnsService, `C:\no\such\program.exe`, mgr.Config{})
	if err != nil {
		t.Fatal(err)
	}
	_ = s.Close()
	if err := silent(); !errors.Is(err, hns.ErrUnavailable) || ignoreNoHNS(err) == nil {
		t.Errorf("a stopped service returned %v, want ErrUnavailable", err)
	}
}

// TestHNSIsStartedOnce expects an error for a service that cannot be started, and no second start of one that ran.
func TestHNSIsStartedOnce(t *testing.T) {
	if windows.NewLazySystemDLL("ntdll.dll").NewProc("wine_get_version").Find() != nil {
		t.Skip("a test must not replace the service of a real Windows")
	}
	m := mustConnect(t)
	removeAfter(t, m, hnsService)
	if err := (&starter{}).start(); err != nil {
		t.Errorf("without the service: %v", err)
	}
	s, err := m.CreateService(hnsService, `C:\no\such\program.exe`, mgr.Config{})
	if err != nil {
		t.Fatal(err)
	}
	_ = s.Close()
	first := &starter{}
	for range 2 {
		if err := first.start(); err == nil || !strings.Contains(err.Error(), "starting the service hns") {
			t.Errorf("a service without a program: %v", err)
		}
	}
	first.ran()
	if err := first.start(); err != nil {
		t.Errorf("after it ran: %v", err)
	}
	if text := needsOf(windows.ERROR_SERVICE_NOT_ACTIVE); text != "" {
		t.Errorf("while hns is stopped, other services are reported: %s", text)
	}
}

// TestEachAdapterHasOneKind, whatever Windows returns.
func TestEachAdapterHasOneKind(t *testing.T) {
	kinds := Kinds()
	t.Logf("%+v", kinds)
	for luid, k := range kinds {
		if luid == 0 || k.Name == "" {
			t.Errorf("adapter %d is %+v", luid, k)
		}
	}
}

func mustConnect(t *testing.T) *mgr.Mgr {
	t.Helper()
	m, err := mgr.Connect()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Disconnect() })
	return m
}

// removeAfter removes a service that is stopped now, and again after the test.
func removeAfter(t *testing.T, m *mgr.Mgr, name string) {
	t.Helper()
	remove := func() {
		s, err := m.OpenService(name)
		if errors.Is(err, windows.ERROR_SERVICE_DOES_NOT_EXIST) {
			return
		}
		if err == nil {
			err = errors.Join(s.Delete(), s.Close())
		}
		if err != nil {
			t.Error(err)
		}
	}
	remove()
	t.Cleanup(remove)
}

func TestForeignNetworkIsPartiallyRead(t *testing.T) {
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
