package podnetwork

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/daemon/state"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/hns"
)

// TestRestartDecisionSurvivesQueries: the pass that decides to restart kube-proxy also has queries, because more is lost.
func TestRestartDecisionSurvivesQueries(t *testing.T) {
	unavailable := func(v *networkView) { v.err = fmt.Errorf("reading: %w", hns.ErrUnavailable) }
	for name, test := range map[string]struct {
		before func(*networkView)
		change func(*hns.State)
		want   string
	}{
		"the service was unavailable, and lost the host's endpoint": {
			unavailable, func(s *hns.State) { s.Endpoints = s.Endpoints[1:] }, "the Host Network Service was unavailable",
		},
		"the service was unavailable, and lost everything but the network": {
			unavailable, func(s *hns.State) { s.Endpoints, s.LoadBalancers = nil, nil }, "the Host Network Service was unavailable",
		},
		"the network was replaced, and its endpoint has no address": {nil, func(s *hns.State) {
			s.Networks[0].ID = "n2"
			s.Endpoints = []hns.Endpoint{{ID: "vip-2", Network: "n2", Name: "VIPEndpoint", Host: true}}
		}, "network overlay was re-created"},
	} {
		t.Run(name, func(t *testing.T) {
			m, v := newNetworkMemory(), networkView{now: time.Now(), state: healthy(3), cluster: cluster(3), proxy: 100}
			decide := func() networkPlan {
				v.now = v.now.Add(networkSoon)
				return decideWithObjects(m, &v, v.state)
			}
			_ = decide()
			if test.before != nil {
				test.before(&v)
				_ = decide()
			}
			v.err, v.state = nil, healthy(3)
			v.state.Endpoints = slices.Clone(v.state.Endpoints)
			test.change(&v.state)
			if p := decide(); p.restart["proxy"] != test.want {
				t.Errorf("kube-proxy is restarted because %q, want %q; %v", p.restart["proxy"], test.want, p.problems)
			}
			if p := decide(); len(p.restart) > 0 {
				t.Errorf("the next pass restarts %v", p.restart)
			}
		})
	}
}

// listed has services, or an error in place of their list.
type listed struct {
	hostapi.Services
	services []hostapi.Service
	err      error
}

func (l *listed) List(context.Context, []string) ([]hostapi.Service, error) { return l.services, l.err }

// TestUnlistedKubeProxyCountsAsUnchanged: if it counted as a new process, what it has created would not count as its own.
func TestUnlistedKubeProxyCountsAsUnchanged(t *testing.T) {
	services := &listed{services: []hostapi.Service{
		{Service: desired.Service{Name: "proxy"}, State: hostapi.Running, PID: 7}, {Service: desired.Service{Name: "HNS"}, State: hostapi.Running, PID: 8},
	}}
	n := &reconciliation{want: overlayWanted(), Reconciler: &Reconciler{Session: state.Session{
		Host: hostapi.Host{Services: services}, Log: slog.New(slog.DiscardHandler),
	}}}
	expect := func(what string, wantProxy, wantService uint32) {
		t.Helper()
		if proxy, service := n.processes(t.Context()); proxy != wantProxy || service != wantService {
			t.Errorf("%s: the processes are %d and %d, want %d and %d", what, proxy, service, wantProxy, wantService)
		}
	}
	expect("both run", 7, 8)
	services.err = context.DeadlineExceeded
	expect("they cannot be listed", 7, 8)
	services.err, services.services = nil, services.services[1:]
	expect("kube-proxy has stopped", 0, 8)
}
