//go:build linux

package testenv

import (
	"fmt"
	"net/netip"
	"sync/atomic"

	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

// HostilityIsTested is the reason why hostile hosts have no quirks.
const HostilityIsTested = "a quirk could hide the tested attack"

// AddHostile starts hostile simulated hosts, with each kind of attack in turn. A thief of tokens reports another name at each
// visit, that of a victim or of a missing node, and sometimes the address of a victim, too.
func (env *Env) AddHostile(n int, victims ...Host) (hosts []*sim.Host, at []Host, err error) {
	kinds := sim.Attacks()
	for i := range n {
		o := sim.Options{Windows: sim.WindowsOptions{Hostname: fmt.Sprintf("evil-%d", i+1), NoQuirks: HostilityIsTested}, Attack: kinds[i%len(kinds)]}
		if o.Attack == sim.Thief {
			o.Lies = falseFacts(i, victims)
		}
		host, h, err := env.AddSimulated(o)
		if err != nil {
			return nil, nil, err
		}
		hosts, at = append(hosts, host), append(at, h)
	}
	return hosts, at, nil
}

// ClaimedNames returns the names of missing nodes that the n-th hostile host claims.
func ClaimedNames(n int) []string {
	return []string{fmt.Sprintf("worker-%d", n), fmt.Sprintf("master-%d", n), fmt.Sprintf("web-%d", n)}
}

// falseFacts returns a function that sets false names and addresses in the facts of a host.
func falseFacts(n int, victims []Host) func(*wicdapi.HostFacts) {
	var calls atomic.Int64
	names := ClaimedNames(n)
	for _, v := range victims {
		names = append(names, v.Name)
	}
	return func(f *wicdapi.HostFacts) {
		i := int(calls.Add(1)) - 1
		f.Hostname = names[i%len(names)]
		if i%4 == 3 && len(victims) > 0 {
			ip := netip.MustParseAddr(victims[i%len(victims)].Address)
			f.Interfaces = []wicdapi.Interface{{Name: "Ethernet", DefaultRoute: true, Addresses: []netip.Prefix{netip.PrefixFrom(ip, 16)}}}
		}
	}
}
