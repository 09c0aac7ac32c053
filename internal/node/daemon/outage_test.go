package daemon_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
	"github.com/windows-machine-config/wmco/internal/testing/sim/servers"
)

// isolated is a member of a cluster in a test with simulated time.
type isolated struct {
	*member
	// cut drops all packets between host and cluster.
	cut atomic.Bool
	// dials counts the attempts to connect while cut.
	dials atomic.Int64
}

// newIsolated joins a host, and returns when the node has reported.
func newIsolated(t *testing.T, prepare func(*servers.Cluster)) *isolated {
	t.Helper()
	return newIsolatedOn(t, prepare, "")
}

// newIsolatedOn does the same on a Windows without quirks, for the reason given by kind.
func newIsolatedOn(t *testing.T, prepare func(*servers.Cluster), kind string) *isolated {
	t.Helper()
	cluster, err := servers.NewIsolatedCluster()
	if err != nil {
		t.Fatal(err)
	}
	m := &isolated{}
	kubelet := sim.KubeletOptions{Heartbeat: 5 * time.Minute}.Program()
	m.member = newMemberOf(t, cluster, prepare, sim.WindowsOptions{
		RestartDelay: never, Kind: kind, Programs: map[string]sim.Program{"kubelet": kubelet},
	})
	m.giveRange(t)
	m.awaitVersion(t)
	m.stop()
	m.dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		if m.cut.Load() {
			m.dials.Add(1)
			time.Sleep(10 * time.Second) // WICD's timeout
			return nil, errors.New("no answer")
		}
		return cluster.Dial(ctx, network, address)
	}
	m.start(t)
	return m
}

// asked returns how often WICD called the API server, or tried to. Only WICD requests these paths.
func (m *isolated) asked() (n int) {
	for method, path := range map[string]string{http.MethodGet: "/configmaps", http.MethodPost: "/certificatesigningrequests"} {
		n += m.cluster.Count(method, path)
	}
	return n + m.cluster.Count(http.MethodGet, "/api/v1/nodes") + int(m.dials.Load())
}

// expectKept checks that services and environment are as declared.
func (m *isolated) expectKept(t *testing.T) {
	t.Helper()
	expectServices(t, m.windows, m.request)
	for _, s := range m.request.Desired.Services {
		if m.windows.Disabled(s.Name) {
			t.Errorf("service %s does not start with Windows", s.Name)
		}
	}
	if got := m.windows.Environment()["NO_PROXY"]; got != "" {
		t.Errorf("the machine has NO_PROXY=%s", got)
	}
}

// harm makes the n-th change to the host's services and settings, in rotation.
func (m *isolated) harm(t *testing.T, n int) {
	t.Helper()
	w := m.windows
	things := []func(){
		func() { w.Crash("kubelet") },
		func() { w.Edit("containerd", func(s *desired.Service) { s.Command += " --log-level debug" }) },
		func() { w.SetVariable("NO_PROXY", "mine") },
		func() {
			if err := w.Host().Services.Stop(t.Context(), "containerd"); err != nil {
				t.Error(err)
			}
		},
		func() { w.DeleteService("kubelet") },
		func() { w.Disable(api.WICDService) },
	}
	things[n%len(things)]()
}

// TestTheAPIServerMayBeAway makes the API server unavailable while services crash and settings change on both sides.
func TestTheAPIServerMayBeAway(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		away time.Duration
		cut  bool
	}{
		"an hour, it refuses":             {time.Hour, false},
		"an hour, nobody answers":         {time.Hour, true},
		"longer than a certificate lives": {26 * time.Hour, true}, // WICD recovers with the kubelet's certificate
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m := newIsolated(t, func(*servers.Cluster) {})
				m.request.Desired.WatchedEnvironment = []string{"NO_PROXY"}
				m.publish(t, m.request.Desired)
				m.awaitSettings(t, m.request.Desired)
				before := m.asked()
				m.cut.Store(test.cut)
				m.cluster.SetAway(true)
				for n := range 6 {
					m.harm(t, n)
					time.Sleep(test.away / 6)
					m.expectKept(t)
				}
				m.publish(t, m.changed())
				requested, most := m.asked()-before, 2*int(test.away/(20*time.Second))+20
				t.Logf("%d requests, at most %d are allowed", requested, most)
				if requested > most {
					t.Error("that is too many")
				}
				pids := m.pids()
				m.cut.Store(false)
				m.cluster.SetAway(false)
				time.Sleep(45 * time.Second) // the longest pause between two attempts, and a running one
				if !m.reports(m.changed()) {
					t.Error("the node has not followed")
				}
				if now := m.pids(); now["kubelet"] != pids["kubelet"] || now["containerd"] != pids["containerd"] {
					t.Errorf("services were started again: %v, then %v", pids, now)
				}
				m.expectKept(t)
			})
		})
	}
}

// TestAClockThatIsWrongHarmsNothing has a host whose clock differs from the cluster's for longer than a certificate's life. Its services keep
// running, the cluster is not flooded, and the node follows once the clocks agree.
func TestAClockThatIsWrongHarmsNothing(t *testing.T) {
	t.Parallel()
	const minute = time.Minute
	for name, test := range map[string]struct {
		// joined and then are how much the host's clock is ahead of the cluster's, at the join and after it for the duration long.
		joined, then, long time.Duration
		// requests is the maximum number of certificate requests, including refused ones.
		requests int
		follows  bool
	}{
		"right":                 {0, 0, 26 * time.Hour, 2, true},
		"falls behind":          {0, -6 * time.Hour, 26 * time.Hour, 3, true},
		"falls behind by a day": {0, -25 * time.Hour, 26 * time.Hour, 3, true},
		"ahead":                 {22 * time.Hour, 22 * time.Hour, 4 * time.Hour, 4 * 13, true},
		"goes ahead by a day":   {23*time.Hour + 50*minute, 24*time.Hour + 10*minute, 4 * time.Hour, 4*13 + 60, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m := newIsolatedOn(t, func(c *servers.Cluster) { c.SetClock(-test.joined) }, soon)
				before := m.cluster.Count(http.MethodPost, requestsPath)
				m.cluster.SetClock(-test.then)
				time.Sleep(test.long)
				if n := m.cluster.Count(http.MethodPost, requestsPath) - before; n > test.requests {
					t.Errorf("%d certificates were asked for within %v, want at most %d", n, test.long, test.requests)
				}
				m.publish(t, m.changed())
				time.Sleep(10 * minute)
				if m.reports(m.changed()) != test.follows {
					t.Errorf("the node follows: %v", !test.follows)
				}
				m.windows.Crash("kubelet")
				time.Sleep(restoredWithin)
				m.expectKept(t)
				m.cluster.SetClock(-test.joined)
				time.Sleep(6 * minute) // longer than the pause after an unusable certificate
				m.awaitSettings(t, m.changed())
			})
		})
	}
}

func TestEachVersionIsReportedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newIsolated(t, func(*servers.Cluster) {})
		annotated := func() int {
			return m.cluster.Count(http.MethodPatch, nodePath) - m.cluster.Count(http.MethodPatch, nodePath+"/status")
		}
		time.Sleep(time.Minute) // until the states of services are reported
		for _, node := range []desired.Node{m.changed(), m.request.Desired, m.changed()} {
			before := annotated()
			m.publish(t, node)
			m.awaitSettings(t, node)
			time.Sleep(time.Minute)
			if n := annotated() - before; n != 1 {
				t.Errorf("the node was annotated %d times", n)
			}
		}
	})
}
