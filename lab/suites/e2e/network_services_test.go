//go:build linux

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/testenv"
	"github.com/windows-machine-config/wmco/lab/windows/hns"
)

// createServices creates Services whose endpoints are on other hosts, and waits for their load balancers on each host.
func (p harness) createServices(count int) {
	began := time.Now()
	var work sync.WaitGroup
	for part := range 4 {
		work.Go(func() {
			for i := part; i < count; i += 4 {
				if err := p.createService(i); err != nil {
					p.t.Error(err)
					return
				}
			}
		})
	}
	work.Wait()
	p.t.Logf("%d Services with %d endpoints were created in %s", count, count*endpointsEach, time.Since(began).Round(time.Millisecond))
	for _, h := range p.Lab.Hosts() {
		p.eventually(h.Name()+" has a load balancer for each Service", func(context.Context) string { return p.missingLoadBalancers(h, p.vips()) })
	}
	p.t.Logf("all hosts had their load balancers after %s", time.Since(began).Round(100*time.Millisecond))
}

func (p harness) createService(i int) error {
	var addresses []string
	for n := range endpointsEach {
		number := i*endpointsEach + n
		addresses = append(addresses, fmt.Sprintf("10.132.%d.%d", 200+number/250, number%250+1))
	}
	_, err := testenv.AddService(p.t.Context(), p.Clients, fmt.Sprintf("many-%d", i), addresses...)
	return err
}

// vips returns the addresses of the Services that createServices created.
func (p harness) vips() []string {
	p.t.Helper()
	var list corev1.ServiceList
	must(p.t, p.Client.List(p.t.Context(), &list, client.InNamespace(metav1.NamespaceDefault)))
	var vips []string
	for _, s := range list.Items {
		if strings.HasPrefix(s.Name, "many-") {
			vips = append(vips, s.Spec.ClusterIP)
		}
	}
	return vips
}

// missingLoadBalancers describes which Services have no load balancer on a host, or "" if all have one.
func (p harness) missingLoadBalancers(h *lab.Host, vips []string) string {
	got := map[string]bool{}
	for _, b := range p.objects(h, hns.LoadBalancer) {
		for _, vip := range vipsOf(b) {
			got[vip] = true
		}
	}
	without := slices.DeleteFunc(slices.Clone(vips), func(vip string) bool { return got[vip] })
	if len(without) > 0 {
		return fmt.Sprintf("%d of %d Services have no load balancer, for example %s", len(without), len(vips), without[0])
	}
	return ""
}

func (p harness) removeServices() {
	ctx, vips := p.t.Context(), p.vips()
	for i := range manyServices() {
		s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: fmt.Sprintf("many-%d", i)}}
		slice := &discoveryv1.EndpointSlice{ObjectMeta: s.ObjectMeta}
		for _, o := range []client.Object{s, slice} {
			must(p.t, client.IgnoreNotFound(p.Client.Delete(ctx, o)))
		}
	}
	for _, h := range p.Lab.Hosts() {
		p.eventually("all load balancers are removed on "+h.Name(), func(context.Context) string {
			for _, b := range p.objects(h, hns.LoadBalancer) {
				if found := vipsOf(b); len(found) > 0 && slices.Contains(vips, found[0]) {
					return "the load balancer of " + found[0] + " remains"
				}
			}
			for _, e := range p.objects(h, hns.Endpoint) {
				for _, address := range addressesOf(e) {
					if slices.Contains(vips, address) || strings.HasPrefix(address, "10.132.20") {
						return "the endpoint of " + address + " remains"
					}
				}
			}
			return ""
		})
	}
}
