package daemon_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/hns"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
	"github.com/windows-machine-config/wmco/internal/testing/sim/servers"
)

// overlaid is a member whose pods are on a network of a simulated overlay, with Services that a simulated kube-proxy serves.
type overlaid struct {
	*member
	hns      *sim.HNS
	services int
	// ends counts how often kube-proxy exited because its Node's addresses changed; follows means that it does so.
	ends    atomic.Int64
	follows bool
}

const (
	overlayName = "OVNKubernetesHybridOverlayNetwork"
	cniConfig   = `C:\k\cni\config\cni.conf`
	proxyConfig = `C:\k\kube-proxy.conf`
	// restored is how long anything that Windows loses may be missing: a single load balancer is missing for 15 seconds before kube-proxy is
	// restarted, which takes as long.
	restored = 45 * time.Second
)

func newOverlaid(t *testing.T, services int) *overlaid {
	t.Helper()
	o := newOverlaidWith(t, services, func(*overlaid) {})
	o.awaitVersion(t)
	return o
}

// newOverlaidWith does the same with a preparation before the host joins, and does not wait for the version.
func newOverlaidWith(t *testing.T, services int, prepare func(*overlaid)) *overlaid {
	t.Helper()
	cluster, err := servers.NewIsolatedCluster()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	o := &overlaid{services: services, member: &member{cluster: cluster, stop: func() {}}}
	for i := range services {
		o.putService(t, i)
	}
	c := newCargo("1")
	c.add("kube-proxy.exe", []byte("kube-proxy"))
	o.request = newMemberRequest(cluster, c)
	o.request.Desired.CNI = nil
	folder := desired.VersionFolder(c.digest())
	proxy := ours("kube-proxy", folder+`\kube-proxy.exe --config=`+proxyConfig, "hybrid-overlay-node")
	proxy.Needs = []string{proxyConfig}
	own := len(o.request.Desired.Services) - 1
	o.request.Desired.Services = append(o.request.Desired.Services[:own:own],
		ours("hybrid-overlay-node", folder+`\kubelet.exe --v=4`, "kubelet"), proxy, o.request.Desired.Services[own])
	o.request.Desired.Network = &desired.Network{
		Name: overlayName, MadeBy: "hybrid-overlay-node", Endpoint: "VIPEndpoint", Proxy: "kube-proxy", ServiceCIDR: "10.96.0.0/16",
		Files: []desired.File{
			{Path: cniConfig, Content: `{"name":"{{.Network}}","subnet":"{{.PodCIDR}}","until":"{{.LastPodIP}}","provider":"{{.ManagementIP}}"}`},
			{Path: proxyConfig, Content: `{"node":"{{.Node}}","vip":"{{.SourceVIP}}"}`},
		},
	}
	o.windows = newWindows(t, sim.WindowsOptions{
		Kind: "what WICD notices, and how soon, is measured", Dial: cluster.Dial, RestartDelay: never,
		Programs: map[string]sim.Program{
			"kubelet": sim.KubeletOptions{Heartbeat: 5 * time.Minute}.Program(), "hybrid-overlay-node": o.makeNetwork, "kube-proxy": o.serve,
		},
	})
	o.hns = o.windows.HNS()
	prepare(o)
	mustSend(t, o.windows, c)
	mustJoin(t, o.windows, o.request)
	t.Cleanup(func() { o.stop() })
	o.start(t)
	return o
}

func vip(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, 96, 1, byte(i + 1)}) }

// putService creates a Service with an endpoint.
func (o *overlaid) putService(t *testing.T, i int) {
	t.Helper()
	name := fmt.Sprintf("s%d", i)
	service := map[string]any{
		"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{"namespace": "ns", "name": name},
		"spec": map[string]any{"clusterIP": vip(i).String(), "ports": []any{map[string]any{"name": "web", "port": 80, "protocol": "TCP"}}},
	}
	slice := map[string]any{
		"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
		"metadata":    map[string]any{"namespace": "ns", "name": name, "labels": map[string]any{"kubernetes.io/service-name": name}},
		"addressType": "IPv4", "ports": []any{map[string]any{"name": "web", "port": 8080}},
		"endpoints": []any{map[string]any{"addresses": []any{"10.132.9.9"}, "conditions": map[string]any{"ready": true}}},
	}
	if err := errors.Join(o.cluster.Put("/api/v1/namespaces/ns/services/"+name, service),
		o.cluster.Put("/apis/discovery.k8s.io/v1/namespaces/ns/endpointslices/"+name, slice)); err != nil {
		t.Fatal(err)
	}
}

// makeNetwork is the overlay's program: it creates the network whenever it is missing.
func (o *overlaid) makeNetwork(ctx context.Context, _ sim.Process) uint32 {
	for ctx.Err() == nil {
		networks, err := o.hns.Networks(ctx)
		if err == nil && len(networks) == 0 {
			_, _ = o.hns.CreateNetwork(ctx, hns.Network{Name: overlayName, Type: hns.Overlay, Subnets: []hns.Subnet{
				{Prefix: netip.MustParsePrefix("10.132.1.0/24"), Gateway: netip.MustParseAddr("10.132.1.1"), VNI: 4097},
			}})
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
	return 0
}

// serve is a kube-proxy: it creates load balancers after it has started, and never again; that of 1.37 exits when its Node's addresses change.
func (o *overlaid) serve(ctx context.Context, _ sim.Process) uint32 {
	_ = o.hns.Remove(ctx, hns.State{LoadBalancers: o.hns.State().LoadBalancers})
	select {
	case <-ctx.Done():
		return 0
	case <-time.After(10 * time.Second):
	}
	var all hns.State
	for i := range o.services {
		all.LoadBalancers = append(all.LoadBalancers, hns.LoadBalancer{VIPs: []netip.Addr{vip(i)}, Protocol: hns.TCP, External: 80, Internal: 8080})
	}
	o.hns.Add(all)
	for addresses := o.node().Status.Addresses; ctx.Err() == nil; {
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
		if o.follows && !slices.Equal(o.node().Status.Addresses, addresses) {
			o.ends.Add(1)
			return 1
		}
	}
	return 0
}

func (o *overlaid) condition() (c corev1.NodeCondition) {
	for _, c := range o.node().Status.Conditions {
		if c.Type == api.ConditionWindowsNetworkUnavailable {
			return c
		}
	}
	return c
}

// missing returns what is missing of the network; empty when nothing is.
func (o *overlaid) missing() string {
	s := o.hns.State()
	switch {
	case len(s.Networks) != 1:
		return "the network"
	case len(s.Endpoints) != 1 || s.Endpoints[0].Name != "VIPEndpoint" || !s.Endpoints[0].Host:
		return "the host's endpoint"
	case len(s.LoadBalancers) != o.services:
		return fmt.Sprintf("%d load balancers", o.services-len(s.LoadBalancers))
	}
	return ""
}

// restore waits until everything is restored and the Node reports that. Meanwhile, the Node must have reported the reason.
func (o *overlaid) restore(t *testing.T, reason string) {
	t.Helper()
	began, reported := time.Now(), ""
	for o.missing() != "" || reported == "" || o.condition().Status != corev1.ConditionFalse {
		if c := o.condition(); c.Status == corev1.ConditionTrue {
			reported += c.Reason + " "
		}
		if time.Since(began) > restored {
			t.Fatalf("after %v %q is missing; the condition is %+v", restored, o.missing(), o.condition())
		}
		time.Sleep(500 * time.Millisecond)
	}
	if !strings.Contains(reported, reason) {
		t.Errorf("the Node was told %q, want %s", reported, reason)
	}
	t.Logf("%s: restored after %v", reason, time.Since(began))
}

func TestTheNetworkIsRestored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOverlaid(t, 20)
		time.Sleep(time.Minute)
		if missing := o.missing(); missing != "" {
			t.Fatalf("after the join, %s is missing", missing)
		}
		disk := o.windows.Disk()
		expectContent(t, disk, cniConfig, `{"name":"`+overlayName+`","subnet":"10.132.1.0/24","until":"10.132.1.253","provider":"192.0.2.10"}`)
		expectContent(t, disk, proxyConfig, `{"node":"win-1","vip":"10.132.1.254"}`)
		if c := o.condition(); c.Status != corev1.ConditionFalse || c.Reason != api.ReasonNetworkWorks {
			t.Errorf("the condition is %+v", c)
		}
		kubelet, overlay := o.windows.Service("kubelet").PID, o.windows.Service("hybrid-overlay-node").PID
		for _, step := range []struct {
			what, reason string
			harm         func()
		}{
			{"HNS restarts and has lost everything", api.ReasonHNSNetworkMissing, func() { o.hns.Restart(true) }},
			{"HNS is away for a while", api.ReasonHNSUnavailable, func() { o.hns.Stop(); time.Sleep(5 * time.Second); o.hns.Start(false) }},
			{"all load balancers are lost", api.ReasonLoadBalancersLost, o.hns.LoseLoadBalancers},
			{"one is lost", api.ReasonLoadBalancersLost, func() { o.hns.Lose(o.hns.State().LoadBalancers[3].ID) }},
			{"the host's endpoint is lost", api.ReasonHNSEndpointLost, func() { o.hns.Lose(o.hns.State().Endpoints[0].ID) }},
			{"the network is lost, and made again at once", api.ReasonHNSEndpointLost, func() { o.hns.Lose(o.hns.State().Networks[0].ID) }},
		} {
			t.Log(step.what)
			step.harm()
			o.restore(t, step.reason)
			time.Sleep(2 * time.Hour)
			if missing := o.missing(); missing != "" {
				t.Fatalf("%s is missing again", missing)
			}
		}
		if o.windows.Service("kubelet").PID != kubelet || o.windows.Service("hybrid-overlay-node").PID != overlay {
			t.Error("services were restarted that had nothing to do with it")
		}
		if o.cluster.Count("POST", "/events") == 0 {
			t.Error("no event tells of a repair")
		}
		writes := o.cluster.Count("PATCH", "") + o.cluster.Count("POST", "")
		calls := o.hns.Calls()["CreateEndpoint"] + o.hns.Calls()["Remove"]
		time.Sleep(4 * time.Minute)
		if more := o.cluster.Count("PATCH", "") + o.cluster.Count("POST", "") - writes; more > 0 {
			t.Errorf("%d writes to the cluster while nothing happens", more)
		}
		if more := o.hns.Calls()["CreateEndpoint"] + o.hns.Calls()["Remove"] - calls; more > 0 {
			t.Errorf("%d changes of the network while nothing happens", more)
		}
	})
}

// TestProxyConfigRequiresHostEndpoint: with a source address that no endpoint has, kube-proxy would create load balancers that lead nowhere.
func TestProxyConfigRequiresHostEndpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOverlaid(t, 1)
		time.Sleep(time.Minute)
		disk := o.windows.Disk()
		if err := disk.Remove(proxyConfig); err != nil {
			t.Fatal(err)
		}
		o.hns.Refuse("CreateEndpoint", errors.New("no"))
		o.hns.Lose(o.hns.State().Endpoints[0].ID)
		time.Sleep(time.Minute)
		if disk.Exists(proxyConfig) || o.condition().Reason != api.ReasonHNSEndpointLost {
			t.Errorf("without the host's endpoint, kube-proxy's configuration is written (%v); the condition is %+v", disk.Exists(proxyConfig), o.condition())
		}
		o.hns.Refuse("CreateEndpoint", nil)
		time.Sleep(5 * time.Second)
		expectContent(t, disk, proxyConfig, `{"node":"win-1","vip":"10.132.1.254"}`)
	})
}

func TestLeaveRemovesOwnNetworks(t *testing.T) {
	w, c := newWindows(t, sim.WindowsOptions{Kind: "the networks are added just before the leave, and must be listed"}), newCargo("1")
	mustSend(t, w, c)
	r := newRequest(c)
	r.Desired.Network = &desired.Network{Name: overlayName, Base: "Base" + overlayName, MadeBy: "kubelet", Endpoint: "VIPEndpoint", Proxy: "kube-proxy"}
	mustJoin(t, w, r)
	w.HNS().Add(hns.State{
		Networks:      []hns.Network{{ID: "n1", Name: overlayName}, {ID: "n0", Name: "Base" + overlayName}, {ID: "nat", Name: "nat"}},
		Endpoints:     []hns.Endpoint{{ID: "e1", Network: "n1"}, {ID: "e2", Network: "n1", Remote: true}, {ID: "others", Network: "nat"}},
		LoadBalancers: []hns.LoadBalancer{{ID: "b1", Protocol: hns.TCP, External: 80}},
	})
	mustLeave(t, w, r.Cluster)
	got := w.HNS().State()
	if len(got.Networks) != 1 || got.Networks[0].Name != "nat" || len(got.Endpoints) != 1 || len(got.LoadBalancers) != 0 {
		t.Errorf("there remain %+v", got)
	}
}

func TestAddressesOfAnotherClusterAreForgotten(t *testing.T) {
	const reserved = desired.CNIData + `\networks\` + overlayName + `\10.132.0.2`
	for name, test := range map[string]struct {
		prepare func(*sim.Windows)
		stays   bool
	}{
		"nothing runs":        {prepare: func(*sim.Windows) {}},
		"a container has one": {prepare: func(w *sim.Windows) { w.AddContainer("pause", shim) }, stays: true},
	} {
		t.Run(name, func(t *testing.T) {
			w, c := newWindows(t, sim.WindowsOptions{}), newCargo("1")
			mustWrite(t, w.Disk(), reserved, "x")
			mustWrite(t, w.Disk(), shim, "a shim")
			test.prepare(w)
			mustSend(t, w, c)
			r := newRequest(c)
			mustJoin(t, w, r)
			if w.Disk().Exists(reserved) != test.stays {
				t.Errorf("the address is there: %v, want %v", !test.stays, test.stays)
			}
			mustWrite(t, w.Disk(), reserved, "x")
			mustJoin(t, w, r)
			if !w.Disk().Exists(reserved) {
				t.Error("a repeated join forgot an address of this cluster")
			}
		})
	}
}
