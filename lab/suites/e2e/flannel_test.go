//go:build linux

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/testenv"
	"github.com/windows-machine-config/wmco/lab/windows/hns"
)

// TestFlannel runs the real flanneld and kube-proxy on two Windows hosts with the lab's network service.
func TestFlannel(t *testing.T) {
	needs(t, lab.CanRunWindows(), lab.CanRunRegistries())
	p := newHarness(t, testenv.Options{WineHosts: 2, Network: testenv.NetworkFlannel})
	fresh := takeSnapshot(t, p.Lab.Hosts()[1])
	p.joinAll()
	_ = t.Run("hosts have routes to each other's subnets", func(t *testing.T) { p.withT(t).expectFlannelRemotes() }) &&
		t.Run("routes follow a Linux node", func(t *testing.T) { p.withT(t).addAndRemoveFlannelNode() }) &&
		t.Run("Services become load balancers", func(t *testing.T) { p.withT(t).createServices(3) }) &&
		t.Run("lost objects are restored", func(t *testing.T) { p.withT(t).restoreFlannelObjects() }) &&
		t.Run("flanneld is restarted after a crash", func(t *testing.T) { p.withT(t).killFlanneld() }) &&
		t.Run("a removed host is restored", func(t *testing.T) { p.withT(t).removeFlannelHost(fresh) })
}

// expectFlannelRemotes waits until each host has the subnets of all other nodes.
func (p harness) expectFlannelRemotes() {
	p.t.Helper()
	p.expectRemotesOf(testenv.FlannelNetwork, func(n corev1.Node) string {
		return n.Spec.PodCIDR + " by " + n.Annotations[testenv.AnnotationFlannel+"public-ip"]
	})
}

func (p harness) addAndRemoveFlannelNode() {
	n, err := p.AddFlannelNode(p.t.Context(), "linux-1", "10.99.200.1", "0a:58:64:40:00:01")
	must(p.t, err)
	p.expectFlannelRemotes()
	if remotes := p.remotes(p.Lab.Hosts()[0], testenv.FlannelNetwork); !slices.Contains(remotes, n.Spec.PodCIDR+" by 10.99.200.1") {
		p.t.Errorf("remote subnets: got %v, want %s among them", remotes, n.Spec.PodCIDR)
	}
	p.remove(n)
	p.expectFlannelRemotes()
}

// restoreFlannelObjects makes the network service lose all objects, which flanneld does not detect until it is restarted.
func (p harness) restoreFlannelObjects() {
	h := p.Lab.Hosts()[0]
	reasons, stop := p.watchNetwork(h)
	defer stop()
	began := time.Now()
	must(p.t, h.HNS().Restart(p.t.Context(), hns.LoadBalancer, hns.Endpoint, hns.Network))
	p.eventually("all network objects are restored", func(context.Context) string {
		if reasons() == "" {
			return "condition WindowsNetworkUnavailable has not been True"
		}
		if !p.hasObject(h, hns.Network, testenv.FlannelNetwork) {
			return "network " + testenv.FlannelNetwork + " is missing"
		}
		if c := p.networkCondition(h); c.Status != corev1.ConditionFalse {
			return c.Reason + ": " + c.Message
		}
		return p.missingLoadBalancers(h, p.vips())
	})
	p.t.Logf("all network objects were restored after %s (%s)", time.Since(began).Round(100*time.Millisecond), reasons())
	p.expectFlannelRemotes()
}

// flanneldProcesses returns the command lines of flanneld's processes on a host.
func (p harness) flanneldProcesses(h *lab.Host) (found []string) {
	p.t.Helper()
	all, err := h.Processes()
	must(p.t, err)
	for _, line := range all {
		if strings.Contains(line, "flanneld.exe") && !strings.Contains(line, "host --windows-service") {
			found = append(found, line)
		}
	}
	return found
}

// killFlanneld kills flanneld, and then the process of its service. Each time exactly one new flanneld must run.
func (p harness) killFlanneld() {
	ctx, h := p.t.Context(), p.Lab.Hosts()[0]
	lines, err := h.ReadFile(`C:\var\log\flanneld\flanneld.log`)
	if err != nil || !strings.Contains(string(lines), "Running backend") {
		p.t.Errorf("flanneld's log (%v) lacks \"Running backend\": %s", err, lines)
	}
	for what, end := range map[string]func() error{
		"flanneld":    func() error { _, err := h.Exec(ctx, "taskkill.exe /f /im flanneld.exe"); return err },
		"the service": func() error { return h.KillService(ctx, "flanneld") },
	} {
		before, _, err := h.Service(ctx, "flanneld")
		must(p.t, err)
		must(p.t, end())
		p.eventually("another flanneld runs after "+what+" was killed", func(ctx context.Context) string {
			s, _, err := h.Service(ctx, "flanneld")
			if running := p.flanneldProcesses(h); err != nil || s.State != "running" || s.PID == before.PID || len(running) != 1 {
				return fmt.Sprintf("service %+v (%v) with previous process %d; running: %q", s, err, before.PID, running)
			}
			return ""
		})
	}
	p.expectFlannelRemotes()
}

func (p harness) removeFlannelHost(fresh snapshot) {
	h := p.Lab.Hosts()[1]
	p.leave(h, fresh)
	running, got := p.flanneldProcesses(h), p.hasObject(h, hns.Network, testenv.FlannelNetwork)
	if len(running) > 0 || got {
		p.t.Errorf("running: %q, network present: %v", running, got)
	}
}
