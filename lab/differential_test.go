//go:build linux

package lab_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/windows-machine-config/wmco/internal/node/kubeproxy"
	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/testenv"
	"github.com/windows-machine-config/wmco/lab/windows/hns"
	"github.com/windows-machine-config/wmco/payload/build"

	windowshns "github.com/windows-machine-config/wmco/internal/shared/hns"
)

const (
	// differentialSeeds is the number of seeds; WMCO_PROXY_SEEDS sets another.
	differentialSeeds = 3
	// differentialServices is the number of Services of each seed, differentialChanges how many of them change while kube-proxy runs.
	differentialServices = 150
	differentialChanges  = 50
	// settledFor is how long nothing may change before the state counts as final: kube-proxy retries failed load balancers every 30 seconds.
	settledFor = 40 * time.Second
	equalFor   = 6 * time.Second
	podHere    = "10.132.7.77"
)

// TestKubeProxyMatchesPredictions creates random Services and EndpointSlices for the real kube-proxy.exe of each minor version,
// and compares its load balancers and their back ends with the predictions of package kubeproxy, after its start and after
// changes.
func TestKubeProxyMatchesPredictions(t *testing.T) {
	seeds := differentialSeeds
	if text := os.Getenv("WMCO_PROXY_SEEDS"); text != "" {
		var err error
		if seeds, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	// The newest version first, then the oldest ones, which make e2e builds anyway. More seeds also run the others.
	minors := build.Minors()
	minors = append(minors[len(minors)-1:], minors[:len(minors)-1]...)
	for seed := range seeds {
		minor := minors[seed%len(minors)]
		t.Run(fmt.Sprintf("seed %d with %s", seed, minor), func(t *testing.T) {
			l := lab.Start(t, lab.Options{Hosts: []string{"win-1"}, DualStack: true})
			config := l.ControlPlane.RESTConfig()
			config.WarningHandler = rest.NoWarnings{} // about external addresses
			client, err := kubernetes.NewForConfig(config)
			must(t, err)
			d := differential{networks{t: t, lab: l, host: l.Hosts()[0], client: client}, rand.New(rand.NewPCG(uint64(seed), 7))}
			d.makeNode()
			d.copyPrograms(minor, "kube-proxy")
			d.makeNetwork()
			pod := fields{"HostComputeNetwork": d.network["ID"], "Name": "pod", "IpConfigurations": []fields{{"IpAddress": podHere, "PrefixLength": 24}}}
			if _, err := d.host.HNS().Create(hns.Endpoint, pod); err != nil {
				t.Fatal(err)
			}
			d.inParallel(differentialServices, d.create)
			defer d.startProxy()()
			d.compare("after its start")
			d.inParallel(differentialChanges, d.change)
			d.compare("after changes")
		})
	}
}

// differential is a host with kube-proxy, and a source of random numbers.
type differential struct {
	networks
	random *rand.Rand
}

// chance returns true once in n calls, on average.
func (d differential) chance(n int) bool { return d.random.IntN(n) == 0 }

func (d differential) pick(list ...string) string { return list[d.random.IntN(len(list))] }

// randomCondition returns a random condition of an endpoint.
func (d differential) randomCondition() *bool {
	switch d.random.IntN(4) {
	case 0:
		return nil
	case 1:
		return new(false)
	}
	return new(true)
}

// inParallel generates objects one after the other, so that a seed always gives the same ones, and sends them to the API server in parallel.
func (d differential) inParallel(count int, draw func(number int) (send func(context.Context) error)) {
	d.t.Helper()
	sends := make([]func(context.Context) error, count)
	for i := range sends {
		sends[i] = draw(i)
	}
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			for i := worker; i < count; i += 8 {
				if err := sends[i](d.t.Context()); err != nil {
					d.t.Errorf("object %d: %v", i, err)
				}
			}
		})
	}
	all.Wait()
	if d.t.Failed() {
		d.t.FailNow()
	}
}

// compare waits until kube-proxy has the expected state, or nothing has changed for a while, and reports the differences.
func (d differential) compare(when string) {
	d.t.Helper()
	began := time.Now()
	var last, differences string
	since := began
	testenv.Eventually(d.t, networkTimeout, "kube-proxy has finished its changes", func(ctx context.Context) string {
		got := d.actual()
		if text := fmt.Sprint(got); text != last {
			last, since = text, time.Now()
		}
		differences = d.differences(ctx, got)
		quiet := time.Since(since)
		if differences == "" && quiet > equalFor || quiet > settledFor {
			return ""
		}
		return fmt.Sprintf("the last change was %v ago: %s", quiet.Round(time.Second), differences)
	})
	d.t.Logf("%s: %d load balancers after %v", when, len(d.actual()), time.Since(began).Round(time.Second))
	if differences != "" {
		d.t.Errorf("%s: %s\n%s\nkube-proxy: %s", when, differences, d.objectsOf(differences), d.failures())
	}
}

// objectsOf returns the Services named in differences, with their EndpointSlices.
func (d differential) objectsOf(differences string) string {
	services, err := d.client.CoreV1().Services("default").List(d.t.Context(), metav1.ListOptions{})
	if err != nil {
		return err.Error()
	}
	var all []string
	for _, s := range services.Items {
		if !slices.ContainsFunc(s.Spec.ClusterIPs, func(ip string) bool { return strings.Contains(differences, ip+":") }) {
			continue
		}
		spec, _ := json.Marshal(s.Spec)
		all = append(all, fmt.Sprintf("%s %v %v %s", s.Name, s.Labels, s.Annotations, spec))
		list, err := d.client.DiscoveryV1().EndpointSlices("default").List(d.t.Context(), metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + s.Name})
		if err != nil {
			return err.Error()
		}
		for _, e := range list.Items {
			ends, _ := json.Marshal([]any{e.Ports, e.Endpoints})
			all = append(all, fmt.Sprintf("  %s %v %s", e.Name, e.Labels, ends))
		}
	}
	return strings.Join(all, "\n")
}

// failures returns the errors in kube-proxy's log, except those that are expected for Services without endpoints.
func (d differential) failures() string {
	var lines []string
	for line := range strings.Lines(d.log(proxyLogFile)) {
		if strings.HasPrefix(line, "E") && !strings.Contains(line, "Local endpoint not found") && !strings.Contains(line, "Endpoint information not available") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return strings.Join(lines[max(0, len(lines)-20):], "\n")
}

// actual returns the back ends of the host's load balancers.
func (d differential) actual() map[kubeproxy.Frontend][]netip.Addr {
	d.t.Helper()
	addresses := map[string]netip.Addr{}
	for _, e := range d.objects(hns.Endpoint) {
		addresses[strings.ToUpper(fmt.Sprint(e["ID"]))], _ = netip.ParseAddr(addressOf(e))
	}
	got := map[kubeproxy.Frontend][]netip.Addr{}
	for _, o := range d.objects(hns.LoadBalancer) {
		lb := loadBalancerOf(d.t, o)
		for _, p := range lb.PortMappings {
			front := kubeproxy.Frontend{Port: uint16(p.ExternalPort), Protocol: windowshns.Protocol(p.Protocol)}
			if len(lb.FrontendVIPs) > 0 {
				front.VIP, _ = netip.ParseAddr(lb.FrontendVIPs[0])
			}
			backends := []netip.Addr{}
			for _, id := range lb.HostComputeEndpoints {
				backends = append(backends, addresses[strings.ToUpper(id)])
			}
			got[front] = slices.Compact(slices.SortedFunc(slices.Values(backends), netip.Addr.Compare))
		}
	}
	return got
}

// differences compares the host's load balancers with the predictions of package kubeproxy.
func (d differential) differences(ctx context.Context, got map[kubeproxy.Frontend][]netip.Addr) string {
	want, undecided, err := d.expected(ctx)
	if err != nil {
		return err.Error()
	}
	var all []string
	for front, b := range want {
		if backends, exists := got[front]; !exists {
			all = append(all, fmt.Sprintf("missing: %s with %v", front, b))
		} else if !slices.Equal(backends, b) {
			all = append(all, fmt.Sprintf("back ends of %s: got %v, want %v", front, backends, b))
		}
	}
	for front := range got {
		if _, isExpected := want[front]; !isExpected && !undecided[front] {
			all = append(all, fmt.Sprintf("unexpected: %s with %v", front, got[front]))
		}
	}
	slices.Sort(all)
	return strings.Join(all, "\n")
}

// expected returns the back ends by frontend, without the undecided ones.
func (d differential) expected(ctx context.Context) (want map[kubeproxy.Frontend][]netip.Addr, undecided map[kubeproxy.Frontend]bool, err error) {
	services, err := d.client.CoreV1().Services("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, nil, err
	}
	endpoints, err := d.client.DiscoveryV1().EndpointSlices("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, nil, err
	}
	bySlice := map[types.NamespacedName][]kubeproxy.EndpointSlice{}
	for i := range endpoints.Items {
		e := kubeproxy.ReadEndpointSlice(&endpoints.Items[i], d.host.Name())
		bySlice[e.Service] = append(bySlice[e.Service], e)
	}
	want, undecided = map[kubeproxy.Frontend][]netip.Addr{}, map[kubeproxy.Frontend]bool{}
	onHost := d.presence()
	for i := range services.Items {
		s := &services.Items[i]
		for _, b := range kubeproxy.ReadService(s).Balancers(bySlice[types.NamespacedName{Namespace: s.Namespace, Name: s.Name}], onHost) {
			if _, isContested := want[b.Frontend]; isContested || !b.Certain {
				undecided[b.Frontend] = true
			}
			want[b.Frontend] = b.Backends
		}
	}
	maps.DeleteFunc(want, func(front kubeproxy.Frontend, _ []netip.Addr) bool { return undecided[front] })
	return want, undecided, nil
}

func (d differential) presence() kubeproxy.Presence {
	onHost := kubeproxy.Presence{}
	for _, e := range d.objects(hns.Endpoint) {
		if a, err := netip.ParseAddr(addressOf(e)); err == nil {
			onHost[a] = onHost[a] || e["Flags"] != 1.0
		}
	}
	return onHost
}
