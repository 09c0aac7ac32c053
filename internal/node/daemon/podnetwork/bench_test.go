package podnetwork

import (
	"fmt"
	"testing"
	"time"

	"github.com/windows-machine-config/wmco/internal/shared/hns"
)

// BenchmarkPass evaluates a pass of a node in a cluster of 10,000 Services with five endpoints each: after no change, after a change of one
// Service, and after a change of an endpoint of this host.
func BenchmarkPass(b *testing.B) {
	const services, each = 10_000, 5
	f, s := newFrontends("win-1"), healthy(0)
	for i := range services {
		name := fmt.Sprintf("s%d", i)
		f.readService(serviceNamed(name, fmt.Sprintf("10.96.%d.%d", i/250, i%250+1)), time.Now())
		e := endpointsOf(name, "10.200.0.1", true)
		lb := hns.LoadBalancer{ID: name, VIPs: nil, Protocol: hns.TCP, External: 80}
		lb.VIPs = append(lb.VIPs, addr(fmt.Sprintf("10.96.%d.%d", i/250, i%250+1)))
		for j := range each {
			ip := fmt.Sprintf("10.%d.%d.%d", 200+j, i/250, i%250+1)
			if j > 0 {
				e.Endpoints = append(e.Endpoints, e.Endpoints[0])
			}
			e.Endpoints[j].Addresses = []string{ip}
			remote := remoteEndpoint(name+ip, ip)
			s.Endpoints, lb.Endpoints = append(s.Endpoints, remote), append(lb.Endpoints, remote.ID)
		}
		f.readSlice(e, time.Now())
		s.LoadBalancers = append(s.LoadBalancers, lb)
	}
	f.servicesListed, f.slicesListed = true, true
	age(f)
	m, v := newNetworkMemory(), networkView{now: time.Now(), state: s, cluster: f, proxy: 100}
	m.proxy.process, m.proxy.since = v.proxy, v.now.Add(-time.Hour)
	local := hns.Endpoint{ID: "local", Network: "n1", Address: addr("10.132.1.77")}
	for name, change := range map[string]func(i int){
		"unchanged": func(int) {},
		"Service":   func(i int) { f.readService(serviceNamed("s1", fmt.Sprintf("10.97.0.%d", i%250+1)), v.now) },
		"endpoint": func(i int) {
			if v.state.Endpoints = s.Endpoints; i%2 == 0 {
				v.state.Endpoints = append(s.Endpoints[:len(s.Endpoints):len(s.Endpoints)], local)
			}
		},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for i := range b.N {
				v.now = v.now.Add(networkInterval)
				change(i)
				if p := m.evaluate(overlayWanted(), v); len(p.problems) > 0 || len(p.restart) > 0 {
					b.Fatal(p.problems, p.restart)
				}
			}
		})
	}
}
