package podnetwork

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/windows-machine-config/wmco/internal/hns"
)

// TestARestartIsNotForgottenForAQuestion: the look that decides to restart kube-proxy also has to ask, because more is lost.
func TestARestartIsNotForgottenForAQuestion(t *testing.T) {
	away := func(v *networkView) { v.err = fmt.Errorf("asking: %w", hns.ErrUnavailable) }
	for name, test := range map[string]struct {
		before func(*networkView)
		change func(*hns.State)
		want   string
	}{
		"the service was away, and lost the host's endpoint": {
			away, func(s *hns.State) { s.Endpoints = s.Endpoints[1:] }, "the Host Network Service was away",
		},
		"the service was away, and lost everything but the network": {
			away, func(s *hns.State) { s.Endpoints, s.LoadBalancers = nil, nil }, "the Host Network Service was away",
		},
		"the network is another one, whose endpoint has no address": {nil, func(s *hns.State) {
			s.Networks[0].ID = "n2"
			s.Endpoints = []hns.Endpoint{{ID: "vip-2", Network: "n2", Name: "VIPEndpoint", Host: true}}
		}, "network overlay was created again"},
	} {
		t.Run(name, func(t *testing.T) {
			m, v := newNetworkMemory(), networkView{now: time.Now(), state: healthy(3), told: cluster(3), proxy: 100}
			look := func() networkPlan {
				v.now = v.now.Add(networkSoon)
				return lookTwice(m, &v, v.state)
			}
			_ = look()
			if test.before != nil {
				test.before(&v)
				_ = look()
			}
			v.err, v.state = nil, healthy(3)
			v.state.Endpoints = slices.Clone(v.state.Endpoints)
			test.change(&v.state)
			if p := look(); p.restart["proxy"] != test.want {
				t.Errorf("kube-proxy is restarted because %q, want %q; %v", p.restart["proxy"], test.want, p.problems)
			}
			if p := look(); len(p.restart) > 0 {
				t.Errorf("the next look restarts %v", p.restart)
			}
		})
	}
}
