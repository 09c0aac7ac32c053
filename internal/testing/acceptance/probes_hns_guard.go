package acceptance

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/backoff"
)

// guard monitors the machine's network until ctx ends, and calls stop if the network is missing for too long. It sends the longest outage.
func (n *networkTrial) guard(ctx context.Context, stop context.CancelCauseFunc) <-chan time.Duration {
	done := make(chan time.Duration, 1)
	gatewayAnswers := n.reaches(ctx, true)
	go func() {
		var longest time.Duration
		last := time.Now()
		for {
			if n.reaches(ctx, gatewayAnswers) {
				last = time.Now()
			}
			longest = max(longest, time.Since(last))
			if time.Since(last) >= outageTimeout {
				stop(errCutOff)
			}
			if backoff.Sleep(ctx, probeInterval) != nil {
				done <- longest
				return
			}
		}
	}()
	return done
}

// reaches reports whether the machine has its address and, if checkGateway is set, whether the gateway answers.
func (n *networkTrial) reaches(ctx context.Context, checkGateway bool) bool {
	if !n.hasAddress(n.address) {
		return false
	}
	if n.gateway == "" || !checkGateway {
		return !checkGateway || n.gateway == ""
	}
	_, code, err := n.run(ctx, "ping.exe -n 1 -w 1000 "+n.gateway)
	return err == nil && code == 0
}

// awaitAddress waits until the machine has its address again.
func (n *networkTrial) awaitAddress(ctx context.Context) {
	began := time.Now()
	for !n.hasAddress(n.address) {
		if time.Since(began) > adapterTimeout {
			n.fail("the machine has not recovered its address %.0f s after the networks were deleted", time.Since(began).Seconds())
			return
		}
		if backoff.Sleep(ctx, probeInterval) != nil {
			return
		}
	}
	n.note("the machine has its address %.0f s after the networks were deleted", time.Since(began).Seconds())
}

// hasAddress reports whether an interface of the machine has an address.
func (s *session) hasAddress(want netip.Addr) bool {
	addresses := s.Addresses
	if addresses == nil {
		addresses = net.InterfaceAddrs
	}
	all, err := addresses()
	for _, a := range all {
		if prefix, parsing := netip.ParsePrefix(a.String()); parsing == nil && prefix.Addr() == want {
			return true
		}
	}
	return err != nil // treat unknown as present
}

// adapterOf returns the name of the interface with an address.
func (s *session) adapterOf(address netip.Addr) string {
	for _, i := range s.facts.Interfaces {
		if slices.ContainsFunc(i.Addresses, func(a netip.Prefix) bool { return a.Addr() == address }) {
			return i.Name
		}
	}
	return ""
}

// gateway returns the default gateway; empty if it is unknown.
func (s *session) gateway(ctx context.Context) string {
	output, err := s.powerShell(ctx, "(Get-NetRoute -DestinationPrefix 0.0.0.0/0 | Sort-Object RouteMetric | Select-Object -First 1).NextHop")
	address, parsing := netip.ParseAddr(output)
	if err != nil || parsing != nil || !address.Is4() {
		return ""
	}
	return address.String()
}
