package acceptance

import (
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/hns"
)

// onItsAddress returns a machine whose interface has its address while has returns true.
func onItsAddress(c *computer, has func() bool) Machine {
	m := c.machine()
	m.Host.Networks = c.HNS()
	m.Addresses = func() ([]net.Addr, error) {
		if !has() {
			return nil, nil
		}
		return []net.Addr{&net.IPNet{IP: net.IPv4(192, 0, 2, 10), Mask: net.CIDRMask(24, 32)}}, nil
	}
	return m
}

func TestNetworksAreMadeAndDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newComputer(t)
		defer c.PowerOff()
		m := onItsAddress(c, func() bool { return true })
		before := c.state(t)
		r, err := Run(t.Context(), m, Options{Only: []string{"hns"}, Out: io.Discard, Allowed: []string{NetworkCut}})
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"network wmco-acceptance-pods was made as the overlay wants it", "300 remote subnets in one request: 300 are there", "restarting service hns"} {
			if !strings.Contains(r.Lines[0].Seen, want) {
				t.Errorf("it does not say %q: %s", want, r.Lines[0].Seen)
			}
		}
		state, err := m.Host.Networks.Look(t.Context())
		if err != nil || len(state.Networks)+len(state.Endpoints) > 0 {
			t.Errorf("it left %+v, %v", state, err)
		}
		if diff := cmp.Diff(before, c.state(t)); diff != "" {
			t.Errorf("the computer is not as before (-before +after):\n%s", diff)
		}
		facts := 0
		for _, f := range r.Facts {
			if strings.HasPrefix(f.Name, "hns-before-") || strings.HasPrefix(f.Name, "hns-after-") {
				facts++
			}
		}
		if facts < 10 {
			t.Errorf("it has %d facts of before and after", facts)
		}
	})
}

func TestNetworksAreDeletedWhenTheMachineIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newComputer(t)
		defer c.PowerOff()
		var m Machine
		m = onItsAddress(c, func() bool {
			state, err := m.Host.Networks.Look(t.Context())
			return err == nil && len(state.Networks) == 0
		})
		m.Host.Networks = slowNetworks{c.HNS()}
		r, err := Run(t.Context(), m, Options{Only: []string{"hns"}, Out: io.Discard, Allowed: []string{NetworkCut}})
		if err != nil || r.Lines[0].Verdict != Refuted || !strings.Contains(r.Lines[0].Seen, errCutOff.Error()) ||
			!strings.Contains(r.Lines[0].Seen, "has its address 0 s after") {
			t.Errorf("it says %+v, %v", r.Lines, err)
		}
		if state, err := m.Host.Networks.Look(t.Context()); err != nil || len(state.Networks) > 0 {
			t.Errorf("it left %+v, %v", state, err)
		}
	})
}

func TestNetworksAreMadeOnlyWhenThatIsAllowed(t *testing.T) {
	c := newComputer(t)
	r, err := Run(t.Context(), c.machine(), Options{Only: []string{"hns"}, Out: io.Discard})
	if err != nil || r.Lines[0].Verdict != Untried || r.Lines[0].Seen != "it needs --network-cut-allowed" {
		t.Errorf("it says %+v, %v", r.Lines, err)
	}
}

// TestNetworksOfAKilledRunAreDeleted also has another program's network, which stays.
func TestNetworksOfAKilledRunAreDeleted(t *testing.T) {
	c := newComputer(t)
	m := onItsAddress(c, func() bool { return true })
	o := Options{Out: io.Discard}
	s, release, err := open(t.Context(), m, o)
	if err != nil {
		t.Fatal(err)
	}
	n := &networkTrial{session: s, service: c.HNS()}
	base, pods := n.wanted()
	err = s.change(change{Kind: kindNetworks}, func() error {
		for _, network := range []hns.Network{base, pods, {Name: "nat", Type: hns.L2Bridge}} {
			made, err := c.HNS().CreateNetwork(t.Context(), network)
			if err != nil {
				return err
			}
			if _, err := c.HNS().CreateEndpoint(t.Context(), hns.Endpoint{Network: made.ID, Name: "of " + network.Name}); err != nil && network.Name != "nat" {
				return err
			}
		}
		return nil
	})
	release()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Restore(t.Context(), m, o); err != nil {
		t.Fatal(err)
	}
	state, err := m.Host.Networks.Look(t.Context())
	if err != nil || len(state.Networks) != 1 || state.Networks[0].Name != "nat" || m.Host.Disk.Exists(Root) {
		t.Errorf("it left %+v, %v", state, err)
	}
}

// slowNetworks blocks when adding remote subnets.
type slowNetworks struct{ overlayNetworks }

type overlayNetworks interface {
	hostapi.Networks
	overlayService
}

func (slowNetworks) AddRemotes(ctx context.Context, _ string, _ []hns.RemoteSubnet) error {
	<-ctx.Done()
	return ctx.Err()
}
