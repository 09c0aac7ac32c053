//go:build linux

package world

import (
	"fmt"
	"net/netip"
	"sync/atomic"

	"github.com/windows-machine-config/wmco/internal/agent"
	"github.com/windows-machine-config/wmco/internal/sim"
)

// AddHostile starts simulated hosts that mean harm, one of each kind of malice in turn. Those that steal tokens say each time that they have
// another name, of victims or of nodes that do not exist yet, and now and then another's address, too.
func (w *World) AddHostile(n int, victims ...Host) (hosts []*sim.Host, at []Host, err error) {
	kinds := sim.Malices()
	for i := range n {
		o := sim.Options{Windows: sim.WindowsOptions{Hostname: fmt.Sprintf("evil-%d", i+1)}, Malice: kinds[i%len(kinds)]}
		if o.Malice == sim.Thief {
			o.Lies = lies(i, victims)
		}
		host, h, err := w.AddSimulated(o)
		if err != nil {
			return nil, nil, err
		}
		hosts, at = append(hosts, host), append(at, h)
	}
	return hosts, at, nil
}

// Coveted are the names of nodes that do not exist yet which the n-th hostile host says it has.
func Coveted(n int) []string {
	return []string{fmt.Sprintf("worker-%d", n), fmt.Sprintf("master-%d", n), fmt.Sprintf("web-%d", n)}
}

func lies(n int, victims []Host) func(*agent.HostFacts) {
	var asked atomic.Int64
	names := Coveted(n)
	for _, v := range victims {
		names = append(names, v.Name)
	}
	return func(f *agent.HostFacts) {
		i := int(asked.Add(1)) - 1
		f.Hostname = names[i%len(names)]
		if i%4 == 3 && len(victims) > 0 {
			ip := netip.MustParseAddr(victims[i%len(victims)].Address)
			f.Interfaces = []agent.Interface{{Name: "Ethernet", DefaultRoute: true, Addresses: []netip.Prefix{netip.PrefixFrom(ip, 16)}}}
		}
	}
}
