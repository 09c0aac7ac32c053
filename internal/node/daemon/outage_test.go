package daemon_test

import (
	"context"
	"errors"
	"maps"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/daemon/daemontest"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

// disconnectable is a member whose network can be cut, in simulated time.
type disconnectable struct {
	*daemontest.Member
	// cut drops all packets between host and cluster.
	cut atomic.Bool
	// dials counts the attempts to connect while cut.
	dials atomic.Int64
}

// newDisconnectable returns a node that has reported its version, on a Windows without quirks if noQuirks is set.
func newDisconnectable(t *testing.T, noQuirks string, prepare func(*daemontest.Member)) *disconnectable {
	t.Helper()
	s := &disconnectable{}
	s.Member = daemontest.NewFollower(t, daemontest.Options{
		Windows: sim.WindowsOptions{RestartDelay: daemontest.Never, NoQuirks: noQuirks}, Heartbeat: 5 * time.Minute, Prepare: func(m *daemontest.Member) {
			m.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
				if s.cut.Load() {
					s.dials.Add(1)
					time.Sleep(10 * time.Second) // WICD's timeout
					return nil, errors.New("no answer")
				}
				return m.Cluster.Dial(ctx, network, address)
			}
			prepare(m)
		},
	})
	return s
}

// apiRequests returns how often WICD called the API server. Only WICD requests these paths.
func apiRequests(m *daemontest.Member) int {
	return m.Cluster.Count(http.MethodGet, "/configmaps") + m.Cluster.Count(http.MethodPost, "/certificatesigningrequests") + m.Cluster.Count(http.MethodGet, "/api/v1/nodes")
}

// expectKept checks that services and environment are as declared.
func (m *disconnectable) expectKept(t *testing.T) {
	t.Helper()
	daemontest.ExpectServices(t, m.Windows, m.Request)
	for _, s := range m.Request.Desired.Services {
		if m.Windows.Disabled(s.Name) {
			t.Errorf("service %s does not start with Windows", s.Name)
		}
	}
	if got := m.Windows.Environment()["NO_PROXY"]; got != "" {
		t.Errorf("the machine has NO_PROXY=%s", got)
	}
}

// disturb makes the n-th change to the host's services and settings, in rotation.
func (m *disconnectable) disturb(t *testing.T, n int) {
	t.Helper()
	w := m.Windows
	changes := []func(){
		func() { w.Crash("kubelet") },
		func() { w.Edit("containerd", func(s *desired.Service) { s.Command += " --log-level debug" }) },
		func() { w.SetVariable("NO_PROXY", "mine") },
		func() { daemontest.MustStop(t, w, "containerd") },
		func() { w.DeleteService("kubelet") },
		func() { w.Disable(api.WICDService) },
	}
	changes[n%len(changes)]()
}

// TestNodeSurvivesAPIServerOutage makes the API server unavailable while services crash and settings change on both sides.
func TestNodeSurvivesAPIServerOutage(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		away time.Duration
		cut  bool
	}{
		"an hour, it refuses":             {time.Hour, false},
		"an hour without answers":         {time.Hour, true},
		"longer than a certificate lives": {26 * time.Hour, true}, // WICD recovers with the kubelet's certificate
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m := newDisconnectable(t, "", func(*daemontest.Member) {})
				m.Request.Desired.WatchedEnvironment = []string{"NO_PROXY"}
				m.Follow(t, m.Request.Desired)
				before := apiRequests(m.Member)
				m.cut.Store(test.cut)
				m.Cluster.SetUnavailable(true)
				for n := range 6 {
					m.disturb(t, n)
					time.Sleep(test.away / 6)
					m.expectKept(t)
				}
				m.Publish(t, m.Changed())
				requested, most := apiRequests(m.Member)+int(m.dials.Load())-before, 2*int(test.away/(20*time.Second))+20
				t.Logf("%d requests, at most %d are allowed", requested, most)
				if requested > most {
					t.Error("that is too many")
				}
				pids := m.PIDs()
				m.cut.Store(false)
				m.Cluster.SetUnavailable(false)
				time.Sleep(45 * time.Second) // the longest pause between two attempts, and a running one
				if !m.Reports(t, m.Changed()) {
					t.Error("the node did not apply the settings")
				}
				if now := m.PIDs(); !maps.Equal(now, pids) {
					t.Errorf("services were restarted: %v, then %v", pids, now)
				}
				m.expectKept(t)
			})
		})
	}
}

// TestWrongClockIsHarmless has a host whose clock differs from the cluster's for longer than a certificate's life. Its services keep
// running, the cluster is not flooded, and the node follows once the clocks agree.
func TestWrongClockIsHarmless(t *testing.T) {
	t.Parallel()
	const minute = time.Minute
	for name, test := range map[string]struct {
		// joined and then are how much the host's clock is ahead of the cluster's, at the join and after it for the duration long.
		joined, then, long time.Duration
		// requests is the maximum number of certificate requests, including refused ones.
		requests int
		follows  bool
	}{
		"right": {0, 0, 26 * time.Hour, 2, true},
		// The certificate expires for the API server before its renewal is due here, at 75% to 85% of its life.
		"falls behind":          {0, -7 * time.Hour, 26 * time.Hour, 3, true},
		"falls behind by a day": {0, -25 * time.Hour, 26 * time.Hour, 3, true},
		"ahead":                 {22 * time.Hour, 22 * time.Hour, 4 * time.Hour, 4 * 13, true},
		"moves ahead by a day":  {23*time.Hour + 50*minute, 24*time.Hour + 10*minute, 4 * time.Hour, 4*13 + 60, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m := newDisconnectable(t, daemontest.TimingMeasured, func(m *daemontest.Member) { m.Cluster.SetClock(-test.joined) })
				before := m.Cluster.Count(http.MethodPost, daemontest.RequestsPath)
				m.Cluster.SetClock(-test.then)
				time.Sleep(test.long)
				if n := m.Cluster.Count(http.MethodPost, daemontest.RequestsPath) - before; n > test.requests {
					t.Errorf("%d certificates were requested within %v, want at most %d", n, test.long, test.requests)
				}
				m.Publish(t, m.Changed())
				time.Sleep(10 * minute)
				if m.Reports(t, m.Changed()) != test.follows {
					t.Errorf("the node applied the settings: %v", !test.follows)
				}
				m.Windows.Crash("kubelet")
				time.Sleep(daemontest.RestoredWithin)
				m.expectKept(t)
				m.Cluster.SetClock(-test.joined)
				time.Sleep(6 * minute) // longer than the pause after an unusable certificate
				m.AwaitSettings(t, m.Changed())
			})
		})
	}
}
