package source

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/operator/addresses"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/controllertest"
)

// aService returns a tenant's Service with the given YAML.
func aService(t *testing.T, name, manifest string) *corev1.Service {
	t.Helper()
	s := &corev1.Service{}
	if err := yaml.UnmarshalStrict([]byte(manifest), s); err != nil {
		t.Fatal(err)
	}
	s.Namespace, s.Name = "tenant", name
	return s
}

// kube-proxy sends connections to a Service's addresses to its pods: they would pose as the new host.
func TestServiceAddressIsRefusedForNewHosts(t *testing.T) {
	for manifest, want := range map[string]string{
		"spec: {externalIPs: [192.0.2.1, 10.0.0.1]}":                             "spec.externalIPs of Service tenant/web",
		"spec: {externalIPs: ['::ffff:10.0.0.1']}":                               "spec.externalIPs of Service tenant/web",
		"status: {loadBalancer: {ingress: [{hostname: x}, {ip: 10.0.0.1}]}}":     "status.loadBalancer of Service tenant/web",
		"spec: {clusterIP: 10.0.0.1, clusterIPs: [10.0.0.1]}":                    "spec.clusterIPs of Service tenant/web",
		"spec: {type: LoadBalancer, loadBalancerIP: 10.0.0.1}":                   "spec.loadBalancerIP of Service tenant/web",
		"spec: {clusterIPs: [None], externalIPs: [10.0.0.10, 'fd00::10.0.0.1']}": "",
		"spec: {type: ExternalName, externalName: 10.0.0.1}":                     "",
	} {
		t.Run(manifest, func(t *testing.T) {
			w := newSources(t, append(controllertest.PlainCluster(), userMap("10.0.0.1", "host.example"), aMachine("machine", "m", "10.0.0.2"), aService(t, "web", manifest),
				aService(t, "other", "spec: {externalIPs: [10.0.0.2]}"))...)
			w.names["host.example"] = []string{"10.0.0.3", "10.0.0.1"}
			w.pass()
			w.expectEvent(corev1.EventTypeWarning, api.EventInstanceInvalid, " m ", "spec.externalIPs of Service tenant/other")
			if want == "" {
				w.expect("10.0.0.1 ConfigMap 10.0.0.1", "host.example ConfigMap host.example")
				return
			}
			w.expect()
			for _, entry := range []string{"10.0.0.1", "host.example"} {
				w.expectEvent(corev1.EventTypeWarning, api.EventInstanceInvalid, fmt.Sprintf("entry %q", entry), want, "remove it from the Service", "windows-known-hosts")
			}
		})
	}
}

// Claims of others do not count against a host that proves its identity.
func TestKnownHostBecomesInstanceDespiteClaims(t *testing.T) {
	fakeNode := controllertest.Node("linux-7", "10.0.0.2")
	w := newSources(t, append(controllertest.PlainCluster(), userMap("10.0.0.1", "10.0.0.2", "10.0.0.9"), aService(t, "web", "spec: {externalIPs: [10.0.0.1, 10.0.0.9]}"), fakeNode,
		knownHostsMap("10.0.0.1,10.0.0.2 "+aHostKey(t, 1)), controllertest.Instance("10.0.0.9", "ConfigMap", "", "10.0.0.9"))...)
	w.pass()
	w.expect("10.0.0.1 ConfigMap 10.0.0.1", "10.0.0.2 ConfigMap 10.0.0.2", "10.0.0.9 ConfigMap 10.0.0.9")
}

// A kubelet writes its Node's addresses. It can prevent only a few hosts from joining, and an event names it.
func TestNodeWithManyAddressesBlocksFewHosts(t *testing.T) {
	fakeNode, keys := controllertest.Node("linux-7", "10.0.0.200"), []string{}
	for n := range 100 {
		address := fmt.Sprintf("10.0.0.%d", n+1)
		keys = append(keys, address)
		fakeNode.Status.Addresses = append(fakeNode.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeExternalIP, Address: address})
	}
	w := newSources(t, append(controllertest.PlainCluster(), fakeNode, userMap(append(keys, "10.0.0.200")...))...)
	w.pass()
	if got, want := len(w.instances()), 101-nodeAddresses; got != want {
		t.Errorf("%d instances, want %d", got, want)
	}
	w.expectEvent(corev1.EventTypeWarning, api.EventInstanceInvalid, `entry "10.0.0.200"`, "Node linux-7", "windows-known-hosts")
	w.expectEvent(corev1.EventTypeWarning, api.EventAddressDisputed, "linux-7", "10.0.0.")
}

// The cache keeps a bounded part of each Service. If a part is missing, every address counts as claimed.
func TestCachedServiceKeepsAddresses(t *testing.T) {
	large := aService(t, "large", "metadata: {annotations: {a: b}, labels: {c: d}}")
	large.Spec.Selector, large.ManagedFields = map[string]string{"app": "x"}, []metav1.ManagedFieldsEntry{{Manager: "x"}}
	large.Spec.Ports = make([]corev1.ServicePort, 1000)
	for n := range 50_000 {
		large.Spec.ExternalIPs = append(large.Spec.ExternalIPs, fmt.Sprintf("10.%d.%d.1", 100+n/250, n%250))
		large.Status.LoadBalancer.Ingress = append(large.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{Hostname: strings.Repeat("x", 100)})
	}
	kept, err := Services().Transform(large)
	if err != nil {
		t.Fatal(err)
	}
	if size := kept.(*corev1.Service).Size(); size > 64<<10 {
		t.Errorf("of a Service, %d bytes are kept", size)
	}
	w := newSources(t, append(controllertest.PlainCluster(), userMap("10.0.0.1"), kept.(*corev1.Service))...)
	w.pass()
	w.expect()
	w.expectEvent(corev1.EventTypeWarning, api.EventInstanceInvalid, `entry "10.0.0.1"`, "Service tenant/large", "too many addresses to compare")
	short := aService(t, "short", "spec: {externalIPs: [10.0.0.1], type: LoadBalancer, loadBalancerIP: 10.0.0.2, clusterIPs: [10.0.0.3]}\nstatus: {loadBalancer: {ingress: [{ip: 10.0.0.4}]}}")
	kept, err = Services().Transform(short.DeepCopy())
	if err != nil {
		t.Fatal(err)
	}
	before, got := claims{claimants: map[netip.Addr]string{}}, claims{claimants: map[netip.Addr]string{}}
	before.add(short)
	got.add(kept.(*corev1.Service))
	if len(before.claimants) != 4 || fmt.Sprint(before) != fmt.Sprint(got) {
		t.Errorf("of %v, %v is kept", before, got)
	}
}

// An address that a Service claimed a moment ago counts as claimed: kube-proxy may not have observed its end, and an attacker could pose as the host
// by deleting the Service at the right moment.
func TestReleasedAddressStaysClaimed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSources(t, controllertest.PlainCluster()...)
		known, began := w.configMap.Reserved.services, time.Now()
		before := aService(t, "web", "spec: {externalIPs: [10.0.0.1, 10.0.0.2]}")
		after := aService(t, "web", "spec: {externalIPs: [10.0.0.2]}")
		known.changed(before, after)
		refuse := func(ip string, since time.Time) string {
			t.Helper()
			current, err := w.configMap.Reserved.Live(t.Context(), "", since)
			if err != nil {
				t.Fatal(err)
			}
			return current.Refuse(netip.MustParseAddr(ip))
		}
		expect := func(ip string, since time.Time, reason string) {
			t.Helper()
			if got := refuse(ip, since); (reason == "") != (got == "") || !strings.Contains(got, reason) {
				t.Errorf("after %s, %s is refused because it %q, want %q", time.Since(began), ip, got, reason)
			}
		}
		expect("10.0.0.1", time.Now(), "was until recently in spec.externalIPs of Service tenant/web")
		expect("10.0.0.2", time.Now(), "")
		time.Sleep(releaseGrace + time.Second)
		expect("10.0.0.1", time.Now(), "")
		expect("10.0.0.1", began, "until recently") // for a connection that began then
		known.changed(after, nil)
		expect("10.0.0.2", time.Now(), "until recently")
		large := aService(t, "large", "{}")
		for n := range serviceAddresses + 1 {
			large.Spec.ExternalIPs = append(large.Spec.ExternalIPs, fmt.Sprintf("192.168.%d.%d", n/250, n%250))
		}
		known.changed(large, nil)
		expect("10.0.0.7", time.Now(), "may be claimed by Service tenant/large")
		time.Sleep(releaseHistory + time.Second)
		known.changed(before, before)
		if len(known.released) > 0 {
			t.Errorf("%d released addresses are remembered after the history ends", len(known.released))
		}
	})
}

// A live read returns what the API server has after the request. Concurrent requests share a read.
func TestLiveServicesAreReadAfterRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newSources(t)
		live := &pagedReader{Reader: w.WithWatch}
		known := newServices(w.WithWatch, live)
		request := func() chan addresses.Cluster {
			answer := make(chan addresses.Cluster, 1)
			go func() {
				var got addresses.Cluster
				if err := known.addLive(t.Context(), &got, time.Now()); err != nil {
					t.Error(err)
				}
				answer <- got
			}()
			return answer
		}
		first := request()
		time.Sleep(time.Second) // the read is in progress
		for n := range 120 {
			w.must(w.Create(t.Context(), aService(t, fmt.Sprintf("web-%d", n), fmt.Sprintf("spec: {externalIPs: [10.0.0.%d]}", n+1))))
		}
		later := []chan addresses.Cluster{request(), request(), request()}
		<-first
		for _, answer := range later {
			if got := <-answer; len(got.Claimed) != 120 {
				t.Errorf("%d addresses are known to be claimed, want 120", len(got.Claimed))
			}
		}
		if live.lists != 2 {
			t.Errorf("Services were read %d times, want twice", live.lists)
		}
		if live.limit != servicesPage {
			t.Errorf("%d Services are read at a time, want %d", live.limit, servicesPage)
		}
	})
}

// pagedReader takes two seconds for each list.
type pagedReader struct {
	client.Reader
	lists int
	limit int64
}

func (r *pagedReader) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	r.lists++
	requested := client.ListOptions{}
	r.limit = requested.ApplyOptions(options).Limit
	time.Sleep(2 * time.Second)
	return r.Reader.List(ctx, list)
}
