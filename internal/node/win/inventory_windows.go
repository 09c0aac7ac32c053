package win

import (
	"context"
	"fmt"
	"net/netip"

	"golang.org/x/sys/windows"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/node/win/network"
)

// inventory reads what reports include about this Windows, and what is checked.
type inventory struct{}

// Routes implements hostapi.Inventory.
func (inventory) Routes(context.Context) (entries []hostapi.RouteEntry, err error) {
	err = network.EachRoute(func(r *windows.MibIpForwardRow2) {
		entries = append(entries, hostapi.RouteEntry{
			To:      netip.PrefixFrom(network.IPv4(r.DestinationPrefix.Prefix), int(r.DestinationPrefix.PrefixLength)),
			Gateway: network.IPv4(r.NextHop), Interface: r.InterfaceIndex, Metric: r.Metric,
		})
	})
	return entries, err
}

// FirewallRules implements hostapi.Inventory.
func (inventory) FirewallRules(context.Context) (entries []hostapi.FirewallEntry, err error) {
	if runs, err := isRunning(firewallService); err != nil || !runs {
		return nil, fmt.Errorf("%w: service %s is not running", hostapi.ErrNoFirewall, firewallService)
	}
	err = withPolicy(func(p policy) error {
		managed, err := p.managed()
		for _, o := range managed {
			entries = append(entries, o.entry())
			o.Release()
		}
		if err != nil {
			return fmt.Errorf("listing rules of the firewall: %w", err)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return entries, nil
}

// entry returns the rule in readable form. A property that cannot be read stays empty.
func (o comObject) entry() hostapi.FirewallEntry {
	text := func(name string) string {
		value, err := o.get(name)
		if err != nil {
			return ""
		}
		return fmt.Sprint(value)
	}
	enabled, _ := o.get("Enabled")
	protocol := text("Protocol")
	switch protocol {
	case "6":
		protocol = "TCP"
	case "17":
		protocol = "UDP"
	}
	return hostapi.FirewallEntry{
		Name: text("Name"), Enabled: enabled == true, Protocol: protocol, LocalPorts: text("LocalPorts"), RemoteAddresses: text("RemoteAddresses"),
	}
}

// Version implements hostapi.Inventory.
func (inventory) Version(ctx context.Context) (build, revision int, err error) {
	return int(windows.RtlGetVersion().BuildNumber), int(number(currentVersion, "UBR")), ctx.Err()
}
