package podnetwork_test

import (
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/windows-machine-config/wmco/internal/node/daemon/daemontest"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

const metadataRange = "169.254.169.254/32"

// joinedOnCloud returns a host whose node needs the route to a metadata service.
func joinedOnCloud(t *testing.T) *sim.Windows {
	t.Helper()
	w, _ := daemontest.NewNode(t, sim.WindowsOptions{}, func(r *wicdapi.JoinRequest) {
		r.Desired.Routes = []desired.Route{{To: metadataRange, Gateway: true}}
	})
	return w
}

func expectRoute(t *testing.T, w *sim.Windows, when string) {
	t.Helper()
	want := []hostapi.Route{{To: netip.MustParsePrefix(metadataRange), From: netip.MustParseAddr("192.0.2.10"), Gateway: true}}
	if diff := cmp.Diff(want, w.Routes(), cmpopts.EquateComparable(netip.Prefix{}, netip.Addr{})); diff != "" {
		t.Errorf("%s: routes (-want +got):\n%s", when, diff)
	}
}

// TestLostMetadataRouteIsRestored: Windows loses the route at a start, and when pod networks are created or removed.
func TestLostMetadataRouteIsRestored(t *testing.T) {
	w := joinedOnCloud(t)
	synctest.Test(t, func(t *testing.T) {
		stop := daemontest.StartRun(t, w.Host())
		time.Sleep(time.Second)
		expectRoute(t, w, "after the start of the service")
		time.Sleep(time.Minute)
		w.LoseRoutes()
		time.Sleep(2 * time.Second)
		expectRoute(t, w, "after a change")
		if n := strings.Count(daemontest.Journal(t, w), "route to "+metadataRange+" added"); n != 2 {
			t.Errorf("the journal records %d repairs, want 2:\n%s", n, daemontest.Journal(t, w))
		}
		stop()
	})
	w.PowerCut()
	w.PowerOn()
	if len(w.Routes()) > 0 {
		t.Fatal("the simulated Windows keeps routes across a restart")
	}
	synctest.Test(t, func(t *testing.T) {
		defer daemontest.StartRun(t, w.Host())()
		time.Sleep(time.Second)
		expectRoute(t, w, "after a start of Windows")
	})
}

// TestRouteRepairBacksOff: it is repaired with back-off.
func TestRouteRepairBacksOff(t *testing.T) {
	w := joinedOnCloud(t)
	synctest.Test(t, func(t *testing.T) {
		defer daemontest.StartRun(t, w.Host())()
		for range 3000 {
			time.Sleep(100 * time.Millisecond)
			w.LoseRoutes()
		}
		if n := strings.Count(daemontest.Journal(t, w), "route to "+metadataRange+" added"); n < 10 || n > 40 {
			t.Errorf("%d repairs in five minutes", n)
		}
	})
}

// TestMetadataRouteWaitsForInterface has the node's address appear late, as when the Host Network Service moves it.
func TestMetadataRouteWaitsForInterface(t *testing.T) {
	w := joinedOnCloud(t)
	address := netip.MustParsePrefix("192.0.2.10/24")
	synctest.Test(t, func(t *testing.T) {
		w.SetInterfaces(wicdapi.Interface{Name: "Ethernet", Index: 4})
		defer daemontest.StartRun(t, w.Host())()
		time.Sleep(time.Minute)
		if len(w.Routes()) > 0 {
			t.Fatalf("routes %v on an interface without the address", w.Routes())
		}
		w.SetInterfaces(wicdapi.Interface{Name: "vEthernet (Ethernet)", Index: 9, Addresses: []netip.Prefix{address}})
		time.Sleep(time.Second)
		expectRoute(t, w, "after the address was added")
	})
}

// TestFailedRouteIsRetried: Windows sends no notification for this retry.
func TestFailedRouteIsRetried(t *testing.T) {
	w := joinedOnCloud(t)
	w.FailNext("route " + metadataRange)
	synctest.Test(t, func(t *testing.T) {
		defer daemontest.StartRun(t, w.Host())()
		time.Sleep(5 * time.Second)
		expectRoute(t, w, "after a failure")
	})
}

func TestHostWithoutDeclaredRoutesGetsNone(t *testing.T) {
	w, _ := daemontest.NewNode(t, sim.WindowsOptions{NoQuirks: daemontest.TimingMeasured})
	synctest.Test(t, func(t *testing.T) {
		defer daemontest.StartRun(t, w.Host())()
		time.Sleep(time.Minute)
		if len(w.Routes()) > 0 {
			t.Errorf("routes %v", w.Routes())
		}
	})
}
