package win

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/Microsoft/hcsshim/hcn"
	"golang.org/x/sys/windows"

	"github.com/windows-machine-config/wmco/internal/node/win/network"
	"github.com/windows-machine-config/wmco/internal/node/win/scm"
	"github.com/windows-machine-config/wmco/internal/shared/hns"
)

// mustCreateContainer creates a container without processes, like a shim.
func mustCreateContainer(t *testing.T, name string) {
	t.Helper()
	id, document := wide(t, name), wide(t, `{"Owner":"`+shimOwner+`","Container":{"Storage":{"Path":"C:\\"}}}`)
	var system windows.Handle
	var failure *uint16
	err := hcsCall(windows.NewLazySystemDLL("vmcompute.dll"), "HcsCreateComputeSystem", uintptr(unsafe.Pointer(id)), uintptr(unsafe.Pointer(document)), 0,
		uintptr(unsafe.Pointer(&system)), uintptr(unsafe.Pointer(&failure)))
	if err != nil {
		t.Fatal(err, textOf(failure))
	}
}

// mustCreateNetwork creates a network, and an endpoint of it in a namespace, like win-overlay and containerd.
func mustCreateNetwork(t *testing.T) (namespace string) {
	t.Helper()
	serveReaper(t, addressesPort)
	h := network.NewHNS(scm.NewChanges())
	made, err := h.CreateNetwork(t.Context(), hns.Network{Name: "wicd-contract", Type: hns.Overlay, Subnets: []hns.Subnet{{
		Prefix: netip.MustParsePrefix("10.250.0.0/24"), Gateway: netip.MustParseAddr("10.250.0.1"), VNI: 4097,
	}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.DeleteNetwork(context.Background(), made.ID); err != nil {
			t.Error(err)
		}
	})
	endpoint, err := (&hcn.HostComputeNetwork{Id: made.ID}).CreateEndpoint(&hcn.HostComputeEndpoint{Name: "wicd-contract", SchemaVersion: hcn.V2SchemaVersion()})
	if err != nil {
		t.Fatal(err)
	}
	space, err := hcn.NewNamespace(hcn.NamespaceTypeHost).Create()
	if err != nil {
		t.Fatal(err)
	}
	if err := endpoint.NamespaceAttach(space.Id); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		left, err := hcn.ListEndpoints()
		if err != nil || slices.ContainsFunc(left, func(e hcn.HostComputeEndpoint) bool { return strings.EqualFold(e.Id, endpoint.Id) }) {
			t.Errorf("there are endpoints %+v, %v: that of the namespace is %s", left, err, endpoint.Id)
		}
	})
	return strings.ToLower(space.Id)
}

// Ports on which the reaper of a lab host serves the lab's vmcompute.dll (lab/windows/guestapi).
const (
	drivesPort    = "6"
	addressesPort = "7"
)

// serveReaper answers at a port like the lab's reaper of a host. Requests for drives are lines.
func serveReaper(t *testing.T, port string) {
	t.Helper()
	listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", port))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			if port == drivesPort {
				_, _ = bufio.NewReader(c).ReadString('\n')
			}
			_, _ = c.Write([]byte("done"))
			_ = c.Close()
		}
	}()
}

func wide(t *testing.T, text string) *uint16 {
	t.Helper()
	p, err := windows.UTF16PtrFromString(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestHangingListBlocksNoOther: a hanging call of the Host Compute Service keeps the turn.
func TestHangingListBlocksNoOther(t *testing.T) {
	if windows.NewLazySystemDLL("vmcompute.dll").Load() != nil {
		t.Skip("this Windows has no vmcompute.dll: its feature Containers is not enabled, or this Wine lacks lab/windows/hostcompute")
	}
	c := newContainers(nil)
	c.turn <- struct{}{}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := c.List(ctx); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "earlier call") {
		t.Errorf("during a hanging call, a list returned %v", err)
	}
	<-c.turn
	if _, err := c.List(t.Context()); err != nil {
		t.Errorf("afterwards, a list returned %v", err)
	}
}
