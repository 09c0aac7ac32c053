//go:build linux

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/overlay"
	"github.com/windows-machine-config/wmco/internal/shared/nodestate"
	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/windows/hns"
)

// A loss removes objects as Windows is known to lose them.
type loss struct {
	what string
	lose func() error
}

// losses returns all losses. With -short it returns only the last, which includes the others.
func (p harness) losses(h *lab.Host) []loss {
	all := []loss{
		{"a load balancer", func() error { return p.loseFirst(h, hns.LoadBalancer, "") }},
		{"all load balancers", func() error { return h.HNS().Lose(hns.LoadBalancer) }},
		{"the host's endpoint", func() error { return p.loseFirst(h, hns.Endpoint, "VIPEndpoint") }},
		{"load balancers and endpoints, as the service restarts", func() error {
			return h.HNS().Restart(p.t.Context(), hns.LoadBalancer, hns.Endpoint)
		}},
		{"everything, as the service restarts", func() error {
			return h.HNS().Restart(p.t.Context(), hns.LoadBalancer, hns.Endpoint, hns.Network)
		}},
	}
	if testing.Short() {
		return all[len(all)-1:]
	}
	return all
}

// loseAndRestore removes objects, and waits until the Node reports the loss and all objects are restored.
func (p harness) loseAndRestore() {
	h, vips := p.Lab.Hosts()[0], p.vips()
	if !testing.Short() {
		time.Sleep(settledAfter)
	}
	for _, loss := range p.losses(h) {
		reasons, stop := p.watchNetwork(h)
		began := time.Now()
		must(p.t, loss.lose())
		p.eventually(loss.what+" is reported", func(context.Context) string {
			if reasons() == "" {
				return "condition WindowsNetworkUnavailable has not been True"
			}
			return ""
		})
		detected := time.Since(began)
		p.eventually("restored: "+loss.what, func(context.Context) string { return p.missingObjects(h, vips) })
		p.t.Logf("lost: %s; reported after %s, restored after %s (%s)", loss.what, detected.Round(100*time.Millisecond), time.Since(began).Round(100*time.Millisecond), reasons())
		p.expectRemotes()
		p.eventually("condition WindowsNetworkUnavailable is False again", func(context.Context) string {
			if c := p.networkCondition(h); c.Status != corev1.ConditionFalse {
				return c.Reason + ": " + c.Message
			}
			return ""
		})
		stop()
	}
	if repairs := p.repairEvents(h); repairs == 0 {
		p.t.Error("no event reports a repair")
	}
}

// loseFirst removes the first object of a kind with a name, or the first load balancer of the test's Services if name is empty.
func (p harness) loseFirst(h *lab.Host, kind hns.Kind, name string) error {
	for _, o := range p.objects(h, kind) {
		vips := vipsOf(o)
		isOfTest := len(vips) > 0 && slices.Contains(p.vips(), vips[0])
		if name != "" && o["Name"] == name || name == "" && isOfTest {
			return h.HNS().LoseOne(kind, fmt.Sprint(o["ID"]))
		}
	}
	return fmt.Errorf("no %s %q found", kind, name)
}

// missingObjects returns the missing objects of a host's network.
func (p harness) missingObjects(h *lab.Host, vips []string) string {
	if !p.hasObject(h, hns.Network, overlay.Network) {
		return "the network"
	}
	if !p.hasObject(h, hns.Endpoint, "VIPEndpoint") {
		return "the host's endpoint"
	}
	return p.missingLoadBalancers(h, vips)
}

func (p harness) networkCondition(h *lab.Host) (c corev1.NodeCondition) {
	var node corev1.Node
	if err := p.Client.Get(p.t.Context(), types.NamespacedName{Name: strings.ToLower(h.Name())}, &node); err != nil {
		return c
	}
	if found := nodestate.Condition(&node, api.ConditionWindowsNetworkUnavailable); found != nil {
		return *found
	}
	return c
}

// watchNetwork polls the condition until stop is called. reasons returns the reasons with which it was True.
func (p harness) watchNetwork(h *lab.Host) (reasons func() string, stop func()) {
	var mu sync.Mutex
	var seen []string
	stop = p.repeat(100*time.Millisecond, func(context.Context) {
		c := p.networkCondition(h)
		mu.Lock()
		defer mu.Unlock()
		if c.Status == corev1.ConditionTrue && !slices.Contains(seen, c.Reason) {
			seen = append(seen, c.Reason)
		}
	})
	return func() string {
		mu.Lock()
		defer mu.Unlock()
		return strings.Join(seen, ", ")
	}, stop
}

// repairEvents returns the number of events about repairs of a host's network.
func (p harness) repairEvents(h *lab.Host) (n int) {
	p.t.Helper()
	var list eventsv1.EventList
	must(p.t, p.Client.List(p.t.Context(), &list))
	for _, e := range list.Items {
		if e.Reason == api.ReasonNetworkRepaired && strings.EqualFold(e.Regarding.Name, h.Name()) {
			n++
		}
	}
	return n
}

func (p harness) restoreAfterRestart() {
	ctx, h, vips := p.t.Context(), p.Lab.Hosts()[1], p.vips()
	before, err := h.BootID(ctx)
	must(p.t, err)
	if _, err := h.Exec(ctx, "shutdown.exe /r /t 0"); err != nil {
		p.t.Fatal(err)
	}
	must(p.t, h.WaitForReboot(ctx, before))
	began := time.Now()
	p.eventually("all network objects are restored after the reboot", func(context.Context) string { return p.missingObjects(h, vips) })
	p.t.Logf("all network objects were restored %s after the reboot", time.Since(began).Round(100*time.Millisecond))
	p.expectRemotes()
}
