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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/hns"
	"github.com/windows-machine-config/wmco/lab/world"
)

// TestFlannel has two Windows hosts with the real flanneld and kube-proxy on the lab's network service.
func TestFlannel(t *testing.T) {
	if missing := lab.CanRunWindows(); missing != nil {
		t.Skip("SKIPPED:", missing)
	}
	p := newPlace(t, world.Options{WineHosts: 2, Flannel: true})
	fresh := takeSnapshot(t, p.Lab.Hosts()[1])
	p.joinAll()
	_ = t.Run("nodes know each other's ranges", func(t *testing.T) { p.in(t).expectFlannelWays() }) &&
		t.Run("a Linux node comes and goes", func(t *testing.T) { p.in(t).flannelNode() }) &&
		t.Run("Services become load balancers", func(t *testing.T) { p.in(t).flannelServices() }) &&
		t.Run("what Windows loses comes back", func(t *testing.T) { p.in(t).flannelRestores() }) &&
		t.Run("flanneld lives and dies with its service", func(t *testing.T) { p.in(t).flannelDies() }) &&
		t.Run("nothing stays on a host that leaves", func(t *testing.T) { p.in(t).flannelLeaves(fresh) })
}

// expectFlannelWays waits until each host has a way to the range of each other node.
func (p place) expectFlannelWays() {
	p.t.Helper()
	p.eventually("each host has the ways to all others", func(ctx context.Context) string {
		var nodes corev1.NodeList
		if err := p.Client.List(ctx, &nodes); err != nil {
			return err.Error()
		}
		for _, h := range p.Lab.Hosts() {
			var want []string
			for _, n := range nodes.Items {
				if !strings.EqualFold(n.Name, h.Name()) {
					want = append(want, n.Spec.PodCIDR+" by "+n.Annotations[world.AnnotationFlannel+"public-ip"])
				}
			}
			slices.Sort(want)
			if got := p.ways(h, world.FlannelNetwork); !slices.Equal(got, want) {
				return fmt.Sprintf("%s has %v, want %v", h.Name(), got, want)
			}
		}
		return ""
	})
}

func (p place) flannelNode() {
	n, err := p.AddFlannelNode(p.t.Context(), "linux-1", "10.99.200.1", "0a:58:64:40:00:01")
	if err != nil {
		p.t.Fatal(err)
	}
	p.expectFlannelWays()
	if ways := p.ways(p.Lab.Hosts()[0], world.FlannelNetwork); !slices.Contains(ways, n.Spec.PodCIDR+" by 10.99.200.1") {
		p.t.Errorf("the ways are %v", ways)
	}
	if err := p.Client.Delete(p.t.Context(), n); err != nil {
		p.t.Fatal(err)
	}
	p.expectFlannelWays()
}

func (p place) flannelServices() {
	for i := range 3 {
		if err := p.createService(i); err != nil {
			p.t.Fatal(err)
		}
	}
	for _, h := range p.Lab.Hosts() {
		p.eventually(h.Name()+" has a load balancer for each Service", func(context.Context) string { return p.missing(h, p.vips()) })
	}
}

// flannelRestores has the host's network service lose everything. flanneld does not notice until it is started again.
func (p place) flannelRestores() {
	h := p.Lab.Hosts()[0]
	told, stop := p.watchNetwork(h)
	defer stop()
	began := time.Now()
	if err := h.RestartNetworkService(p.t.Context(), hns.LoadBalancer, hns.Endpoint, hns.Network); err != nil {
		p.t.Fatal(err)
	}
	p.eventually("all is back", func(context.Context) string {
		if told() == "" {
			return "condition WindowsNetworkUnavailable was not True"
		}
		if !p.hasFlannel(h) {
			return "the network is not there"
		}
		if c := p.networkCondition(h); c.Status != corev1.ConditionFalse {
			return c.Reason + ": " + c.Message
		}
		return p.missing(h, p.vips())
	})
	p.t.Logf("all was back after %s (%s)", time.Since(began).Round(100*time.Millisecond), told())
	p.expectFlannelWays()
}

func (p place) hasFlannel(h *lab.Host) bool {
	return slices.ContainsFunc(p.objects(h, hns.Network), func(o hns.Object) bool { return o["Name"] == world.FlannelNetwork })
}

// running are flanneld's processes on a host, each as its command line.
func (p place) running(h *lab.Host) (found []string) {
	p.t.Helper()
	all, err := h.Processes()
	if err != nil {
		p.t.Fatal(err)
	}
	for _, line := range all {
		if strings.Contains(line, "flanneld.exe") && !strings.Contains(line, "host --windows-service") {
			found = append(found, line)
		}
	}
	return found
}

// flannelDies ends flanneld, and the process of its service: each time, one new flanneld is to run.
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
		if err != nil {
			p.t.Fatal(err)
		}
		if err := end(); err != nil {
			p.t.Fatal(err)
		}
		p.eventually("another flanneld runs, after "+what+" was ended", func(ctx context.Context) string {
			s, _, err := h.Service(ctx, "flanneld")
			if running := p.running(h); err != nil || s.State != "running" || s.PID == before.PID || len(running) != 1 {
				return fmt.Sprintf("the service is %+v (%v), was %d, and there run %q", s, err, before.PID, running)
			}
			return ""
		})
	}
	p.expectFlannelWays()
}

func (p place) flannelLeaves(fresh snapshot) {
	ctx, h := p.t.Context(), p.Lab.Hosts()[1]
	var entries corev1.ConfigMap
	if err := p.Client.Get(ctx, types.NamespacedName{Namespace: v1alpha1.DefaultNamespace, Name: v1alpha1.InstancesConfigMap}, &entries); err != nil {
		p.t.Fatal(err)
	}
	was := entries.DeepCopy()
	delete(entries.Data, h.Address())
	if err := p.Client.Patch(ctx, &entries, client.MergeFrom(was)); err != nil {
		p.t.Fatal(err)
	}
	p.eventually(h.Name()+" has left", func(ctx context.Context) string {
		var i v1alpha1.WindowsInstance
		if err := p.Client.Get(ctx, types.NamespacedName{Namespace: v1alpha1.DefaultNamespace, Name: h.Address()}, &i); !apierrors.IsNotFound(err) {
			return fmt.Sprintf("its instance is there (%v): %+v", err, i.Status.Maintenance)
		}
		return ""
	})
	for _, difference := range fresh.compare(takeSnapshot(p.t, h), p.noteOf(h.Address(), v1alpha1.EventHostLeft)) {
		p.t.Error(difference)
	}
	if running := p.running(h); len(running) > 0 || p.hasFlannel(h) {
		p.t.Errorf("there run %q, and the network is there: %v", running, p.hasFlannel(h))
	}
}
