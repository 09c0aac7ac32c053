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
	p := newPlace(t, testenv.Options{WineHosts: 2, Network: testenv.NetworkFlannel})
	fresh := takeSnapshot(t, p.Lab.Hosts()[1])
	p.joinAll()
	_ = t.Run("nodes have each other's subnets", func(t *testing.T) { p.in(t).expectFlannelRemotes() }) &&
		t.Run("a Linux node comes and goes", func(t *testing.T) { p.in(t).flannelNode() }) &&
		t.Run("Services become load balancers", func(t *testing.T) { p.in(t).services(3) }) &&
		t.Run("lost objects are restored", func(t *testing.T) { p.in(t).flannelRestores() }) &&
		t.Run("flanneld and its service end together", func(t *testing.T) { p.in(t).flannelDies() }) &&
		t.Run("nothing stays on a host that leaves", func(t *testing.T) { p.in(t).flannelLeaves(fresh) })
}

// expectFlannelRemotes waits until each host has the subnets of all other nodes.
func (p place) expectFlannelRemotes() {
	p.t.Helper()
	p.expectRemotesOf(testenv.FlannelNetwork, func(n corev1.Node) string {
		return n.Spec.PodCIDR + " by " + n.Annotations[testenv.AnnotationFlannel+"public-ip"]
	})
}

func (p place) flannelNode() {
	n, err := p.AddFlannelNode(p.t.Context(), "linux-1", "10.99.200.1", "0a:58:64:40:00:01")
	must(p.t, err)
	p.expectFlannelRemotes()
	if remotes := p.remotes(p.Lab.Hosts()[0], testenv.FlannelNetwork); !slices.Contains(remotes, n.Spec.PodCIDR+" by 10.99.200.1") {
		p.t.Errorf("the remote subnets are %v", remotes)
	}
	p.remove(n)
	p.expectFlannelRemotes()
}

// flannelRestores makes the network service lose all objects. flanneld does not notice until it is started again.
func (p place) flannelRestores() {
	h := p.Lab.Hosts()[0]
	reasons, stop := p.watchNetwork(h)
	defer stop()
	began := time.Now()
	must(p.t, h.HNS().Restart(p.t.Context(), hns.LoadBalancer, hns.Endpoint, hns.Network))
	p.eventually("all is back", func(context.Context) string {
		if reasons() == "" {
			return "condition WindowsNetworkUnavailable was not True"
		}
		if !p.has(h, hns.Network, testenv.FlannelNetwork) {
			return "the network is not there"
		}
		if c := p.networkCondition(h); c.Status != corev1.ConditionFalse {
			return c.Reason + ": " + c.Message
		}
		return p.missing(h, p.vips())
	})
	p.t.Logf("all was back after %s (%s)", time.Since(began).Round(100*time.Millisecond), reasons())
	p.expectFlannelRemotes()
}

// running returns the command lines of flanneld's processes on a host.
func (p place) running(h *lab.Host) (found []string) {
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

// flannelDies kills flanneld, and then the process of its service. Each time exactly one new flanneld must run.
func (p place) flannelDies() {
	ctx, h := p.t.Context(), p.Lab.Hosts()[0]
	lines, err := h.ReadFile(`C:\var\log\flanneld\flanneld.log`)
	if err != nil || !strings.Contains(string(lines), "Running backend") {
		p.t.Errorf("the log (%v): %s", err, lines)
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
			if running := p.running(h); err != nil || s.State != "running" || s.PID == before.PID || len(running) != 1 {
				return fmt.Sprintf("the service is %+v (%v), was %d, and there run %q", s, err, before.PID, running)
			}
			return ""
		})
	}
	p.expectFlannelRemotes()
}

func (p place) flannelLeaves(fresh snapshot) {
	h := p.Lab.Hosts()[1]
	p.leave(h, fresh)
	running, got := p.running(h), p.has(h, hns.Network, testenv.FlannelNetwork)
	if len(running) > 0 || got {
		p.t.Errorf("running: %q, network present: %v", running, got)
	}
}
