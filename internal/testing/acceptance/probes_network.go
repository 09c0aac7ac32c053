package acceptance

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"strings"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

// testRoute is an address that no host has (RFC 5737).
const testRoute = "203.0.113.10"

func tryFirewall(ctx context.Context, s *session) (string, error) {
	rules := []desired.FirewallRule{
		{Name: "wmco-acceptance-tcp", Protocol: desired.TCP, Ports: []uint16{9}, From: []string{"192.0.2.0/24", "198.51.100.7/32"}},
		{Name: "wmco-acceptance-udp", Protocol: desired.UDP, Ports: []uint16{9, 19}, From: []string{"203.0.113.64/26"}},
	}
	var added []string
	err := s.change(change{kindRules, hostapi.FirewallGroup}, func() (err error) {
		added, err = s.Host.Firewall.Set(ctx, rules)
		return err
	})
	if errors.Is(err, hostapi.ErrNoFirewall) {
		return "", untriedErrorf("%w", err)
	}
	if err != nil {
		return "", err
	}
	again, err := s.Host.Firewall.Set(ctx, rules)
	if err == nil && len(again) > 0 {
		err = fmt.Errorf("they differ from what was declared: %s", strings.Join(again, ", "))
	}
	return fmt.Sprintf("%d rules were added and read back as declared", len(added)), err
}

func tryRoutes(ctx context.Context, s *session) (string, error) {
	from, found := s.address()
	if !found {
		return "", untriedErrorf("no interface with a default route has an IPv4 address")
	}
	watching, stop := context.WithCancel(ctx)
	defer stop()
	changed, err := s.Host.Routes.Watch(watching)
	if err != nil {
		return "", untriedErrorf("%w", err)
	}
	to := netip.MustParsePrefix(testRoute + "/32")
	for _, want := range []bool{true, false} {
		var added bool
		err := s.change(change{kindRoute, testRoute}, func() (err error) {
			added, err = s.Host.Routes.Ensure(ctx, hostapi.Route{To: to, From: from, Gateway: true})
			return err
		})
		if errors.Is(err, errors.ErrUnsupported) {
			return "", untriedErrorf("%w", err)
		}
		if err != nil || added != want {
			return "", errors.Join(err, fmt.Errorf("adding it returned %v, want %v", added, want))
		}
	}
	drain(changed)
	if err := s.removeRoute(ctx); err != nil {
		return "", untriedErrorf("%w", err)
	}
	began := time.Now()
	select {
	case <-changed:
		return fmt.Sprintf("the removal was reported after %s", time.Since(began).Round(time.Millisecond)), nil
	case <-time.After(10 * time.Second):
		return "", errors.New("the removal was not reported within 10 s")
	}
}

// drain receives from changed until nothing has arrived for a second.
func drain(changed <-chan struct{}) {
	for {
		select {
		case <-changed:
		case <-time.After(time.Second):
			return
		}
	}
}

// removeRoute removes the route. Only the output of route.exe shows whether there was one.
func (s *session) removeRoute(ctx context.Context) error {
	_, _, err := s.run(ctx, "route.exe DELETE "+testRoute+" MASK 255.255.255.255")
	if errors.Is(err, fs.ErrNotExist) {
		return nil // Wine, which adds no routes either
	}
	return err
}

// address returns an IPv4 address of an interface with a default route.
func (s *session) address() (netip.Addr, bool) {
	for _, i := range s.facts.Interfaces {
		for _, a := range i.Addresses {
			if i.DefaultRoute && a.Addr().Is4() {
				return a.Addr(), true
			}
		}
	}
	return netip.Addr{}, false
}
