//go:build linux

package e2e

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/overlay"
	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/hns"
	"github.com/windows-machine-config/wmco/lab/hostspec"
	"github.com/windows-machine-config/wmco/lab/world"
)

var updateNetworks = flag.Bool("update-networks", false, "rewrite the golden file of network objects")

// What TestNetwork has of Services.
const (
	endpointsEach = 5
	// settledAfter is how long WICD waits longer for load balancers after many Services have changed.
	settledAfter = 35 * time.Second
)

// manyServices is how many there are: too many for kube-proxy to have them in a moment, but with -short.
func manyServices() int {
	if testing.Short() {
		return 8
	}
	return 200
}

// TestNetwork has three Windows hosts with the real kube-proxy and our hybrid-overlay-node on the lab's network service.
func TestNetwork(t *testing.T) {
	needs(t, lab.CanRunWindows())
	p := newPlace(t, world.Options{WineHosts: 3, Overlay: true})
	p.joinAll()
	_ = t.Run("nodes know each other's subnets", func(t *testing.T) { p.in(t).expectWays() }) &&
		t.Run("networks are those of OVN-Kubernetes", func(t *testing.T) { p.in(t).compareNetworks() }) &&
		t.Run("a Linux node comes, changes and goes", func(t *testing.T) { p.in(t).linuxNode() }) &&
		t.Run("the overlay gets another port", func(t *testing.T) { p.in(t).anotherPort(9898) }) &&
		t.Run("Services become load balancers", func(t *testing.T) { p.in(t).services(manyServices()) }) &&
		t.Run("what Windows loses comes back", func(t *testing.T) { p.in(t).loseAndRestore() }) &&
		t.Run("after a restart of the host, too", func(t *testing.T) { p.in(t).restoreAfterRestart() }) &&
		t.Run("nothing is left of Services that are gone", func(t *testing.T) { p.in(t).noServices() })
}

// ways are the subnets of other nodes that a network of a host leads to, each with the address of its host.
func (p place) ways(h *lab.Host, network string) (ways []string) {
	for _, n := range p.objects(h, hns.Network) {
		if n["Name"] != network {
			continue
		}
		policies, _ := n["Policies"].([]any)
		for _, policy := range policies {
			var way struct {
				Type     string
				Settings struct{ DestinationPrefix, ProviderAddress, DistributedRouterMacAddress string }
			}
			if decode(policy, &way); way.Type == "RemoteSubnetRoute" {
				ways = append(ways, way.Settings.DestinationPrefix+" by "+way.Settings.ProviderAddress)
			}
		}
	}
	slices.Sort(ways)
	return ways
}

func decode(from, into any) {
	b, err := json.Marshal(from)
	if err == nil {
		_ = json.Unmarshal(b, into)
	}
}

func (p place) objects(h *lab.Host, kind hns.Kind) []hns.Object {
	p.t.Helper()
	found, err := h.NetworkObjects(kind)
	if err != nil {
		p.t.Fatal(err)
	}
	return found
}

func (p place) has(h *lab.Host, kind hns.Kind, name string) bool {
	p.t.Helper()
	return slices.ContainsFunc(p.objects(h, kind), func(o hns.Object) bool { return o["Name"] == name })
}

// expectWays waits until each host has a way to the subnet of each other Windows node, and to those of Linux nodes.
func (p place) expectWays(linux ...string) {
	p.t.Helper()
	p.expectWaysOf(overlay.Network, func(n corev1.Node) string {
		if n.Labels[corev1.LabelOSStable] != "windows" {
			return ""
		}
		return n.Annotations[overlay.SubnetAnnotation] + " by " + n.Status.Addresses[0].Address
	}, linux...)
}

// expectWaysOf waits until a network leads from each host to each other node that there is a way to, and by others.
func (p place) expectWaysOf(network string, wayTo func(corev1.Node) string, others ...string) {
	p.t.Helper()
	p.eventually("each host has the ways to all others", func(ctx context.Context) string {
		var nodes corev1.NodeList
		if err := p.Client.List(ctx, &nodes); err != nil {
			return err.Error()
		}
		for _, h := range p.Lab.Hosts() {
			want := slices.Clone(others)
			for _, n := range nodes.Items {
				if way := wayTo(n); way != "" && !strings.EqualFold(n.Name, h.Name()) {
					want = append(want, way)
				}
			}
			slices.Sort(want)
			if got := p.ways(h, network); !slices.Equal(got, want) {
				return fmt.Sprintf("%s has %v, want %v", h.Name(), got, want)
			}
		}
		return ""
	})
}

// compareNetworks compares all objects of a host with a golden file, in which everything that differs from run to run has a name.
func (p place) compareNetworks() {
	h := p.Lab.Hosts()[0]
	p.eventually("kube-proxy has made the load balancers of the cluster's own Services", func(context.Context) string {
		if len(p.objects(h, hns.LoadBalancer)) == 0 {
			return "there are none"
		}
		return ""
	})
	all := map[hns.Kind][]hns.Object{}
	for _, kind := range []hns.Kind{hns.Network, hns.Endpoint, hns.LoadBalancer} {
		all[kind] = slices.DeleteFunc(p.objects(h, kind), isNotCompared)
		slices.SortFunc(all[kind], func(a, b hns.Object) int { return strings.Compare(orderOf(a), orderOf(b)) })
	}
	b, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		p.t.Fatal(err)
	}
	text := nameWhatDiffers(string(b)) + "\n"
	golden := filepath.Join("testdata", "networks.golden")
	if *updateNetworks {
		if err := os.WriteFile(golden, []byte(text), 0o644); err != nil {
			p.t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		p.t.Fatalf("%v; run this test with -update-networks and read the file", err)
	}
	if diff := cmp.Diff(string(want), text); diff != "" {
		p.t.Errorf("network objects (-want +got), if it is meant run with -update-networks:\n%s", diff)
	}
}

// isNotCompared tells whether an object is the lab's own network, or of a Service whose address is by chance: any but
// default/kubernetes.
func isNotCompared(o hns.Object) bool {
	return o["Name"] == hostspec.PodNetworkName || slices.ContainsFunc(append(vipsOf(o), addressesOf(o)...), func(vip string) bool {
		return strings.HasPrefix(vip, "10.96.") && vip != "10.96.0.1"
	})
}

// vipsOf are the addresses of Services that a load balancer is for.
func vipsOf(o hns.Object) []string {
	var balancer struct{ FrontendVIPs []string }
	decode(o, &balancer)
	return balancer.FrontendVIPs
}

// addressesOf are the addresses that an endpoint has.
func addressesOf(o hns.Object) (addresses []string) {
	var endpoint struct{ IpConfigurations []struct{ IpAddress string } }
	decode(o, &endpoint)
	for _, c := range endpoint.IpConfigurations {
		addresses = append(addresses, c.IpAddress)
	}
	return addresses
}

// orderOf puts objects in an order that is the same in each run: by name, then by kind of address.
func orderOf(o hns.Object) string {
	b, _ := json.Marshal(o["IpConfigurations"])
	return fmt.Sprint(o["Name"], string(b))
}

// nameWhatDiffers gives identifiers and addresses names in the order in which they are met.
func nameWhatDiffers(text string) string {
	for _, kind := range []struct{ name, pattern string }{
		{"guid", `(?i)[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`},
		{"mac", `(?i)\b[0-9a-f]{2}(?:[-:][0-9a-f]{2}){5}\b`},
		{"port", `\b[0-9]{5}\b`},
		{"address", `\b10\.\d+\.\d+\.\d+(?:/\d+)?`},
	} {
		names := map[string]string{}
		text = regexp.MustCompile(kind.pattern).ReplaceAllStringFunc(text, func(found string) string {
			key := strings.ToLower(found)
			if names[key] == "" {
				names[key] = fmt.Sprintf("<%s %d>", kind.name, len(names)+1)
			}
			return names[key]
		})
	}
	return text
}

func (p place) linuxNode() {
	ctx := p.t.Context()
	n, err := p.AddLinuxNode(ctx, "linux-1", "10.99.200.1", "10.132.100.0/24", "0a:58:64:40:00:01")
	if err != nil {
		p.t.Fatal(err)
	}
	p.expectWays("10.132.100.0/24 by 10.99.200.1")
	was := n.DeepCopy()
	n.Annotations[overlay.LinuxSubnetsAnnotation] = `{"default":["10.132.101.0/24"]}`
	if err := p.Client.Patch(ctx, n, client.MergeFrom(was)); err != nil {
		p.t.Fatal(err)
	}
	p.expectWays("10.132.101.0/24 by 10.99.200.1")
	p.remove(n)
	p.expectWays()
}

// anotherPort changes the UDP port of the overlay, which takes new networks on each host.
func (p place) anotherPort(port int32) {
	p.configure(func(s *v1alpha1.WindowsConfigSpec) { s.Network.OVN = &v1alpha1.OVNNetwork{VXLANPort: port} })
	for _, h := range p.Lab.Hosts() {
		p.eventually(fmt.Sprintf("%s has the overlay on port %d", h.Name(), port), func(context.Context) string {
			if is := p.portOf(h); is != port {
				return fmt.Sprintf("it is on port %d", is)
			}
			if c := p.networkCondition(h); c.Status != corev1.ConditionFalse {
				return c.Reason + ": " + c.Message
			}
			return p.lacks(h, nil)
		})
	}
	p.expectWays()
}

// portOf is the port that a host's overlay was given; 0 when that is VXLAN's own, or there is no overlay.
func (p place) portOf(h *lab.Host) (port int32) {
	for _, n := range p.objects(h, hns.Network) {
		var network struct {
			Name     string
			Policies []struct {
				Type     string
				Settings struct{ Port int32 }
			}
		}
		if decode(n, &network); network.Name != overlay.Network {
			continue
		}
		for _, policy := range network.Policies {
			if policy.Type == "VxlanPort" {
				port = policy.Settings.Port
			}
		}
	}
	return port
}

// services makes Services whose endpoints are on other hosts, and waits for their load balancers on each host.
func (p place) services(count int) {
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
	p.t.Logf("%d Services with %d endpoints were made in %s", count, count*endpointsEach, time.Since(began).Round(time.Millisecond))
	for _, h := range p.Lab.Hosts() {
		p.eventually(h.Name()+" has a load balancer for each Service", func(context.Context) string { return p.missing(h, p.vips()) })
	}
	p.t.Logf("all hosts had them after %s", time.Since(began).Round(100*time.Millisecond))
}

func (p place) createService(i int) error {
	var addresses []string
	for n := range endpointsEach {
		number := i*endpointsEach + n
		addresses = append(addresses, fmt.Sprintf("10.132.%d.%d", 200+number/250, number%250+1))
	}
	_, err := world.AddService(p.t.Context(), p.Clients, fmt.Sprintf("many-%d", i), addresses...)
	return err
}

// vips are the addresses of the Services that services made.
func (p place) vips() []string {
	p.t.Helper()
	var list corev1.ServiceList
	if err := p.Client.List(p.t.Context(), &list, client.InNamespace(metav1.NamespaceDefault)); err != nil {
		p.t.Fatal(err)
	}
	var vips []string
	for _, s := range list.Items {
		if strings.HasPrefix(s.Name, "many-") {
			vips = append(vips, s.Spec.ClusterIP)
		}
	}
	return vips
}

// missing says how many of some Services have no load balancer on a host; empty when all have one.
func (p place) missing(h *lab.Host, vips []string) string {
	has := map[string]bool{}
	for _, b := range p.objects(h, hns.LoadBalancer) {
		for _, vip := range vipsOf(b) {
			has[vip] = true
		}
	}
	without := slices.DeleteFunc(slices.Clone(vips), func(vip string) bool { return has[vip] })
	if len(without) > 0 {
		return fmt.Sprintf("%d of %d Services have no load balancer, %s for one", len(without), len(vips), without[0])
	}
	return ""
}

// A loss is something that Windows is known to lose.
type loss struct {
	what string
	lose func() error
}

// losses are of all kinds; with -short only the last, which has something of all others.
func (p place) losses(h *lab.Host) []loss {
	all := []loss{
		{"a load balancer", func() error { return p.loseFirst(h, hns.LoadBalancer, "") }},
		{"all load balancers", func() error { return h.LoseNetworkObjects(hns.LoadBalancer) }},
		{"the host's endpoint", func() error { return p.loseFirst(h, hns.Endpoint, "VIPEndpoint") }},
		{"load balancers and endpoints, as the service restarts", func() error {
			return h.RestartNetworkService(p.t.Context(), hns.LoadBalancer, hns.Endpoint)
		}},
		{"everything, as the service restarts", func() error {
			return h.RestartNetworkService(p.t.Context(), hns.LoadBalancer, hns.Endpoint, hns.Network)
		}},
	}
	if testing.Short() {
		return all[len(all)-1:]
	}
	return all
}

// loseAndRestore takes away what Windows is known to lose, and waits until all of it is back; the Node has to say so meanwhile.
func (p place) loseAndRestore() {
	h, vips := p.Lab.Hosts()[0], p.vips()
	if !testing.Short() {
		time.Sleep(settledAfter)
	}
	for _, loss := range p.losses(h) {
		told, stop := p.watchNetwork(h)
		began := time.Now()
		if err := loss.lose(); err != nil {
			p.t.Fatal(err)
		}
		p.eventually(loss.what+" is told", func(context.Context) string {
			if told() == "" {
				return "condition WindowsNetworkUnavailable was not True"
			}
			return ""
		})
		noticed := time.Since(began)
		p.eventually("what is lost is back: "+loss.what, func(context.Context) string { return p.lacks(h, vips) })
		p.t.Logf("lost: %s; noticed after %s, back after %s (%s)", loss.what, noticed.Round(100*time.Millisecond), time.Since(began).Round(100*time.Millisecond), told())
		p.expectWays()
		p.eventually("the Node says that all is well", func(context.Context) string {
			if c := p.networkCondition(h); c.Status != corev1.ConditionFalse {
				return c.Reason + ": " + c.Message
			}
			return ""
		})
		stop()
	}
	if told := p.repairsTold(h); told == 0 {
		p.t.Error("no event tells of a repair")
	}
}

// loseFirst loses the first object of a kind with a name.
func (p place) loseFirst(h *lab.Host, kind hns.Kind, name string) error {
	for _, o := range p.objects(h, kind) {
		own := vipsOf(o)
		isMany := len(own) > 0 && slices.Contains(p.vips(), own[0])
		if name != "" && o["Name"] == name || name == "" && isMany {
			return h.LoseNetworkObject(kind, fmt.Sprint(o["ID"]))
		}
	}
	return fmt.Errorf("there is no %s %q", kind, name)
}

// lacks says what a host lacks of its network.
func (p place) lacks(h *lab.Host, vips []string) string {
	if !p.has(h, hns.Network, overlay.Network) {
		return "the network"
	}
	if !p.has(h, hns.Endpoint, "VIPEndpoint") {
		return "the host's endpoint"
	}
	return p.missing(h, vips)
}

func (p place) networkCondition(h *lab.Host) (c corev1.NodeCondition) {
	var node corev1.Node
	if err := p.Client.Get(p.t.Context(), types.NamespacedName{Name: strings.ToLower(h.Name())}, &node); err != nil {
		return c
	}
	for _, c := range node.Status.Conditions {
		if c.Type == api.ConditionWindowsNetworkUnavailable {
			return c
		}
	}
	return c
}

// watchNetwork looks all the time, and told says with which reasons the condition was True.
func (p place) watchNetwork(h *lab.Host) (told func() string, stop func()) {
	var mu sync.Mutex
	var reasons []string
	stop = p.repeat(100*time.Millisecond, func(context.Context) {
		c := p.networkCondition(h)
		mu.Lock()
		defer mu.Unlock()
		if c.Status == corev1.ConditionTrue && !slices.Contains(reasons, c.Reason) {
			reasons = append(reasons, c.Reason)
		}
	})
	return func() string {
		mu.Lock()
		defer mu.Unlock()
		return strings.Join(reasons, ", ")
	}, stop
}

// repairsTold is how many events tell of repairs of a host's network.
func (p place) repairsTold(h *lab.Host) (n int) {
	p.t.Helper()
	var list eventsv1.EventList
	if err := p.Client.List(p.t.Context(), &list); err != nil {
		p.t.Fatal(err)
	}
	for _, e := range list.Items {
		if e.Reason == api.ReasonNetworkRepaired && strings.EqualFold(e.Regarding.Name, h.Name()) {
			n++
		}
	}
	return n
}

func (p place) restoreAfterRestart() {
	ctx, h, vips := p.t.Context(), p.Lab.Hosts()[1], p.vips()
	before, err := h.BootID(ctx)
	if err != nil {
		p.t.Fatal(err)
	}
	if _, err := h.Exec(ctx, "shutdown.exe /r /t 0"); err != nil {
		p.t.Fatal(err)
	}
	if err := h.WaitForReboot(ctx, before); err != nil {
		p.t.Fatal(err)
	}
	began := time.Now()
	p.eventually("all is back after the restart", func(context.Context) string { return p.lacks(h, vips) })
	p.t.Logf("all was back %s after the host", time.Since(began).Round(100*time.Millisecond))
	p.expectWays()
}

func (p place) noServices() {
	ctx, vips := p.t.Context(), p.vips()
	for i := range manyServices() {
		s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: fmt.Sprintf("many-%d", i)}}
		slice := &discoveryv1.EndpointSlice{ObjectMeta: s.ObjectMeta}
		for _, o := range []client.Object{s, slice} {
			if err := client.IgnoreNotFound(p.Client.Delete(ctx, o)); err != nil {
				p.t.Fatal(err)
			}
		}
	}
	for _, h := range p.Lab.Hosts() {
		p.eventually("nothing is left on "+h.Name(), func(context.Context) string {
			for _, b := range p.objects(h, hns.LoadBalancer) {
				if own := vipsOf(b); len(own) > 0 && slices.Contains(vips, own[0]) {
					return "the load balancer of " + own[0]
				}
			}
			for _, e := range p.objects(h, hns.Endpoint) {
				for _, address := range addressesOf(e) {
					if slices.Contains(vips, address) || strings.HasPrefix(address, "10.132.20") {
						return "the endpoint of " + address
					}
				}
			}
			return ""
		})
	}
}
