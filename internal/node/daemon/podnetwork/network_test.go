package podnetwork_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/cri"
	"github.com/windows-machine-config/wmco/internal/node/daemon/daemontest"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/hns"
	"github.com/windows-machine-config/wmco/internal/shared/nodestate"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

// overlaid is a member whose pods are on a network of a simulated overlay, with Services that a simulated kube-proxy serves.
type overlaid struct {
	*daemontest.Member
	hns      *sim.HNS
	services int
}

const (
	overlayName = "OVNKubernetesHybridOverlayNetwork"
	proxyConfig = `C:\k\kube-proxy.conf`
	// restored is how long anything that Windows loses may be missing: a single load balancer is missing for 15 seconds before kube-proxy is
	// restarted, which takes as long.
	restored = 45 * time.Second
)

// newOverlaid joins a host after a preparation.
func newOverlaid(t *testing.T, services int, prepare func(*overlaid)) *overlaid {
	t.Helper()
	o := &overlaid{services: services}
	c := daemontest.NewPayload("1")
	c.Add("kube-proxy.exe", []byte("kube-proxy"))
	daemontest.NewMember(t, daemontest.Options{
		Windows: sim.WindowsOptions{
			NoQuirks: "the time until WICD repairs a loss is measured", RestartDelay: daemontest.Never,
			Programs: map[string]sim.Program{"hybrid-overlay-node": o.makeNetwork, "kube-proxy": o.serve},
		},
		Heartbeat: 5 * time.Minute, Payload: c,
		Prepare: func(m *daemontest.Member) {
			o.Member, o.hns = m, m.Windows.HNS()
			for i := range services {
				o.putService(t, i)
			}
			declareOverlay(&m.Request.Desired)
			prepare(o)
		},
	})
	return o
}

// newServing returns a node that serves its Services.
func newServing(t *testing.T, services int) *overlaid {
	t.Helper()
	o := newOverlaid(t, services, func(*overlaid) {})
	o.AwaitVersion(t)
	time.Sleep(time.Minute)
	return o
}

// declareOverlay declares the network and the services that create and use it.
func declareOverlay(n *desired.Node) {
	folder := desired.VersionFolder(n.Digest)
	overlay := daemontest.Service("hybrid-overlay-node", folder+`\kubelet.exe --v=4`, "kubelet")
	proxy := daemontest.Service("kube-proxy", folder+`\kube-proxy.exe --config=`+proxyConfig, "hybrid-overlay-node")
	proxy.Needs = []string{proxyConfig}
	n.Services = slices.Insert(n.Services, len(n.Services)-1, overlay, proxy)
	n.CNI = nil
	n.Network = &desired.Network{
		Name: overlayName, MadeBy: "hybrid-overlay-node", Endpoint: "VIPEndpoint", Proxy: "kube-proxy", ServiceCIDR: "10.96.0.0/16",
		Files: []desired.File{
			{Path: daemontest.CNIConfig, Content: `{"name":"{{.Network}}","subnet":"{{.PodCIDR}}","until":"{{.LastPodIP}}","provider":"{{.ManagementIP}}"}`},
			{Path: proxyConfig, Content: `{"node":"{{.Node}}","vip":"{{.SourceVIP}}"}`},
		},
	}
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
	if err := errors.Join(o.Cluster.Put("/api/v1/namespaces/ns/services/"+name, service),
		o.Cluster.Put("/apis/discovery.k8s.io/v1/namespaces/ns/endpointslices/"+name, slice)); err != nil {
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

// serve is a kube-proxy: it creates load balancers after it has started, and never again.
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
	<-ctx.Done()
	return 0
}

func networkCondition(m *daemontest.Member) corev1.NodeCondition {
	return m.Condition(api.ConditionWindowsNetworkUnavailable)
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
	for o.missing() != "" || reported == "" || networkCondition(o.Member).Status != corev1.ConditionFalse {
		if c := networkCondition(o.Member); c.Status == corev1.ConditionTrue {
			reported += c.Reason + " "
		}
		if time.Since(began) > restored {
			t.Fatalf("after %v %q is missing; the condition is %+v", restored, o.missing(), networkCondition(o.Member))
		}
		time.Sleep(500 * time.Millisecond)
	}
	if !strings.Contains(reported, reason) {
		t.Errorf("reported %q, want %s", reported, reason)
	}
	t.Logf("%s: restored after %v", reason, time.Since(began))
}

func TestLostNetworkIsRestored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newServing(t, 20)
		if missing := o.missing(); missing != "" {
			t.Fatalf("after the join, %s is missing", missing)
		}
		disk := o.Windows.Disk()
		daemontest.ExpectContent(t, disk, daemontest.CNIConfig, `{"name":"`+overlayName+`","subnet":"10.132.1.0/24","until":"10.132.1.253","provider":"192.0.2.10"}`)
		daemontest.ExpectContent(t, disk, proxyConfig, `{"node":"win-1","vip":"10.132.1.254"}`)
		if c := networkCondition(o.Member); c.Status != corev1.ConditionFalse || c.Reason != api.ReasonNetworkWorks {
			t.Errorf("the condition is %+v", c)
		}
		kubelet, overlay := o.Windows.Service("kubelet").PID, o.Windows.Service("hybrid-overlay-node").PID
		for _, step := range []struct {
			what, reason string
			disrupt      func()
		}{
			{"HNS restarts and has lost everything", api.ReasonHNSNetworkMissing, func() { o.hns.Restart(true) }},
			{"HNS is unavailable for a while", api.ReasonHNSUnavailable, func() { o.hns.Stop(); time.Sleep(5 * time.Second); o.hns.Start(false) }},
			{"all load balancers are lost", api.ReasonLoadBalancersLost, o.hns.LoseLoadBalancers},
			{"one load balancer is lost", api.ReasonLoadBalancersLost, func() { o.hns.Lose(o.hns.State().LoadBalancers[3].ID) }},
			{"the host's endpoint is lost", api.ReasonHNSEndpointLost, func() { o.hns.Lose(o.hns.State().Endpoints[0].ID) }},
			{"the network is lost, and re-created at once", api.ReasonHNSEndpointLost, func() { o.hns.Lose(o.hns.State().Networks[0].ID) }},
		} {
			t.Log(step.what)
			step.disrupt()
			o.restore(t, step.reason)
			time.Sleep(2 * time.Hour)
			if missing := o.missing(); missing != "" {
				t.Fatalf("%s is missing again", missing)
			}
		}
		if o.Windows.Service("kubelet").PID != kubelet || o.Windows.Service("hybrid-overlay-node").PID != overlay {
			t.Error("unrelated services were restarted")
		}
		if o.Cluster.Count("POST", "/events") == 0 {
			t.Error("no event reports a repair")
		}
		writes := o.Cluster.Count("PATCH", "") + o.Cluster.Count("POST", "")
		calls := o.hns.Calls()["CreateEndpoint"] + o.hns.Calls()["Remove"]
		time.Sleep(4 * time.Minute)
		if more := o.Cluster.Count("PATCH", "") + o.Cluster.Count("POST", "") - writes; more > 0 {
			t.Errorf("%d writes to the cluster of an idle node", more)
		}
		if more := o.hns.Calls()["CreateEndpoint"] + o.hns.Calls()["Remove"] - calls; more > 0 {
			t.Errorf("%d changes of the network of an idle node", more)
		}
	})
}

// TestProxyConfigRequiresHostEndpoint: with a source address that no endpoint has, kube-proxy would create load balancers that lead nowhere.
func TestProxyConfigRequiresHostEndpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newServing(t, 1)
		disk := o.Windows.Disk()
		if err := disk.Remove(proxyConfig); err != nil {
			t.Fatal(err)
		}
		o.hns.Refuse("CreateEndpoint", errors.New("no"))
		o.hns.Lose(o.hns.State().Endpoints[0].ID)
		time.Sleep(time.Minute)
		if disk.Exists(proxyConfig) || networkCondition(o.Member).Reason != api.ReasonHNSEndpointLost {
			t.Errorf("without the host's endpoint, kube-proxy's configuration is written (%v); the condition is %+v", disk.Exists(proxyConfig), networkCondition(o.Member))
		}
		o.hns.Refuse("CreateEndpoint", nil)
		time.Sleep(5 * time.Second)
		daemontest.ExpectContent(t, disk, proxyConfig, `{"node":"win-1","vip":"10.132.1.254"}`)
	})
}

// If a service creates the pod network, everything is created except for the file that makes the node Ready.
func TestOverlayWaitsForSandboxImage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const image = "mcr.test/pause:1"
		o := newOverlaid(t, 1, func(o *overlaid) {
			o.Request.Desired.SandboxImage = image
			o.Windows.RefuseImage(image, &cri.Error{Code: cri.NotFound, Message: "not found"})
		})
		daemontest.Await(t, "the image is missing", func() bool {
			return o.Condition(api.ConditionSandboxImage).Reason == api.ReasonSandboxImageNotFound
		})
		time.Sleep(10 * time.Minute)
		disk, node := o.Windows.Disk(), o.Node()
		if disk.Exists(daemontest.CNIConfig) || !disk.Exists(proxyConfig) || nodestate.IsReady(&node) {
			t.Errorf("%s exists: %v, %s: %v, the node is Ready: %v", daemontest.CNIConfig, disk.Exists(daemontest.CNIConfig), proxyConfig, disk.Exists(proxyConfig), nodestate.IsReady(&node))
		}
		o.Windows.RefuseImage(image, nil)
		time.Sleep(5 * time.Minute)
		o.AwaitVersion(t)
	})
}

// TestQuirksStopNoPod simulates hours of a node on many kinds of Windows whose Host Network Service restarts, lists objects late or without
// some fields, or lists removed ones. Nothing was lost, so no pod is ended, nothing is removed, and a service that creates the network only at its
// start is not restarted.
func TestQuirksStopNoPod(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				quirks := sim.RandomQuirks(seed).Network
				quirks.Ports, quirks.NeedsAdapter = 0, false // these lose load balancers, and the network
				o := newOverlaid(t, 5, func(o *overlaid) { o.Request.Desired.Network.Once = seed%2 == 0 })
				o.AwaitVersion(t)
				time.Sleep(time.Minute)
				creator := o.Windows.Service("hybrid-overlay-node").PID
				for i := range 6 {
					o.putPod(t, i)
				}
				time.Sleep(time.Minute)
				before := o.hns.State()
				process, containers := o.Windows.Service("kube-proxy").PID, len(o.Windows.Remnants())
				o.hns.SetQuirks(quirks)
				o.hns.ResetCalls()
				for range 3 {
					o.hns.Restart(false)
					time.Sleep(15 * time.Minute)
				}
				after, calls := o.hns.State(), o.hns.Calls()
				if calls["CreateEndpoint"] > 0 || len(after.Endpoints) != len(before.Endpoints) || len(after.LoadBalancers) != len(before.LoadBalancers) {
					t.Errorf("calls %v, %d endpoints and %d load balancers of %d and %d; %+v", calls, len(after.Endpoints), len(after.LoadBalancers),
						len(before.Endpoints), len(before.LoadBalancers), quirks)
				}
				if got := o.Windows.Remnants(); len(got) != containers {
					t.Errorf("there are containers %v, want %d; the condition is %+v; %+v", got, containers, networkCondition(o.Member), quirks)
				}
				if pid := o.Windows.Service("hybrid-overlay-node").PID; pid != creator {
					t.Errorf("the service that creates the network was restarted; %+v", quirks)
				}
				// A Host Network Service that starts late is more than a quirk for kube-proxy: all its objects seem gone, and it is restarted.
				if pid := o.Windows.Service("kube-proxy").PID; quirks.StartsLate == 0 && (pid != process || calls["Remove"] > 0) {
					t.Errorf("kube-proxy was restarted, calls %v; the condition is %+v; %+v", calls, networkCondition(o.Member), quirks)
				}
			})
		})
	}
}

// putPod creates a pod with an endpoint.
func (o *overlaid) putPod(t *testing.T, i int) {
	t.Helper()
	name, address := fmt.Sprintf("sandbox-%d", i), fmt.Sprintf("10.132.1.%d", i+10)
	o.hns.Add(hns.State{Endpoints: []hns.Endpoint{{Network: o.hns.State().Networks[0].ID, Name: name, Address: netip.MustParseAddr(address)}}})
	daemontest.MustWrite(t, o.Windows.Disk(), desired.CNIResults+`\`+name, fmt.Sprintf(`{"containerId":%q,"result":{"ips":[{"address":"%s/24"}]}}`, name, address))
	o.Windows.AddContainer(name, "")
}
