//go:build linux

package e2e

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/testenv"
	"github.com/windows-machine-config/wmco/lab/windows/hns"
)

// Ports of the pods of TestServices.
const (
	firstPort  = testenv.WebserverPort
	secondPort = 8081
)

// TestServices connects pods on two Windows hosts through Services: the real kube-proxy creates load balancers, which the lab implements.
func TestServices(t *testing.T) {
	needs(t, lab.CanBalance(), lab.CanRunRegistries())
	s := servicesTest{newHarness(t, testenv.Options{WineHosts: 2, Network: testenv.NetworkHybridOverlay, Pods: true})}
	s.joinAll()
	s.webserver("web", 2, onEachHost)
	s.ExpectServing(t, waitTimeout, "web", 2)
	for _, test := range []struct {
		name string
		run  func(servicesTest)
	}{
		{"a ClusterIP reaches all pods", servicesTest.clusterIP},
		{"all ports of a Service reach all pods", servicesTest.ports},
		{"a NodePort of each host reaches all pods", servicesTest.nodePort},
		{"session affinity keeps clients on one pod", servicesTest.affinity},
		{"externalTrafficPolicy Local preserves client addresses", servicesTest.localPolicy},
		{"a load balancer address is reachable from pods", servicesTest.loadBalancer},
		{"named ports reach only pods that have them", servicesTest.differentPods},
		{"Service names resolve in pods", servicesTest.names},
		{"deleted pods no longer get connections", servicesTest.follow},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(servicesTest{s.withT(t)}) })
	}
}

type servicesTest struct{ harness }

// onEachHost puts one pod of a Deployment on each host.
func onEachHost(d *appsv1.Deployment) {
	d.Spec.Template.Spec = testenv.WebserverPod(fmt.Sprintf("PORT=%d,%d", firstPort, secondPort))
	d.Spec.Template.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{{LabelSelector: d.Spec.Selector, TopologyKey: corev1.LabelHostname}},
	}}
}

// service creates a Service for an app with a TCP port 80.
func (s servicesTest) service(name string, change func(*corev1.ServiceSpec)) *corev1.Service {
	s.t.Helper()
	o := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name}, Spec: corev1.ServiceSpec{
		Selector: map[string]string{"app": "web"},
		Ports:    []corev1.ServicePort{{Name: "first", Port: 80, TargetPort: intstr.FromInt32(firstPort)}},
	}}
	if change != nil {
		change(&o.Spec)
	}
	s.create(o)
	s.t.Cleanup(func() { _ = s.Client.Delete(context.Background(), o) })
	return o
}

func (s servicesTest) webPods() []corev1.Pod {
	s.t.Helper()
	pods, err := s.Pods(s.t.Context(), "web")
	must(s.t, err)
	return pods
}

// get sends requests from a pod, and returns the answers.
func (s servicesTest) get(ctx context.Context, from *corev1.Pod, urls ...string) ([]string, error) {
	output, code, err := s.Exec(ctx, from, "", append([]string{"webserver", "get"}, urls...)...)
	if err == nil && code != 0 {
		err = fmt.Errorf("exit code %d: %s", code, output)
	}
	return strings.Split(strings.TrimSpace(output), "\n"), err
}

// expect waits until requests of each pod to a URL are answered by exactly the given servers.
func (s servicesTest) expect(from []corev1.Pod, url string, servers ...string) {
	s.t.Helper()
	slices.Sort(servers)
	for i := range from {
		s.eventually(fmt.Sprintf("%s is answered by %v in %s", url, servers, from[i].Name), func(ctx context.Context) string {
			responses, err := s.get(ctx, &from[i], slices.Repeat([]string{url}, 2*len(servers))...)
			slices.Sort(responses)
			if responses = slices.Compact(responses); err != nil || !slices.Equal(responses, servers) {
				return fmt.Sprintf("got answers of %q (%v)", responses, err)
			}
			return ""
		})
	}
}

func namesOf(pods []corev1.Pod) (names []string) {
	for _, p := range pods {
		names = append(names, p.Name)
	}
	return names
}

func (s servicesTest) clusterIP() {
	o, pods := s.service("cluster-ip", nil), s.webPods()
	s.expect(pods, "http://"+o.Spec.ClusterIP, namesOf(pods)...)
}

// ports sends requests to both ports of a Service.
func (s servicesTest) ports() {
	o, pods := s.service("ports", func(spec *corev1.ServiceSpec) {
		spec.Ports = append(spec.Ports, corev1.ServicePort{Name: "second", Port: 81, TargetPort: intstr.FromInt32(secondPort)})
	}), s.webPods()
	for _, url := range []string{"http://%s:80", "http://%s:81"} {
		s.expect(pods, fmt.Sprintf(url, o.Spec.ClusterIP), namesOf(pods)...)
	}
}

// fromMachine waits until requests of this machine to a port of a host are answered by exactly the given servers.
func (s servicesTest) fromMachine(address string, port int32, servers ...string) {
	s.t.Helper()
	slices.Sort(servers)
	s.eventually(fmt.Sprintf("port %d of %s is answered by %v", port, address, servers), func(ctx context.Context) string {
		var answers []string
		for range 2 * len(servers) {
			response, err := testenv.CallPort(ctx, address, int(port), "/")
			if err != nil {
				return err.Error()
			}
			answers = append(answers, response)
		}
		slices.Sort(answers)
		if answers = slices.Compact(answers); !slices.Equal(answers, servers) {
			return fmt.Sprintf("got answers of %q", answers)
		}
		return ""
	})
}

func (s servicesTest) nodePort() {
	o, pods := s.service("node-port", func(spec *corev1.ServiceSpec) { spec.Type = corev1.ServiceTypeNodePort }), s.webPods()
	for _, h := range s.Lab.Hosts() {
		s.fromMachine(h.Address(), o.Spec.Ports[0].NodePort, namesOf(pods)...)
		s.expect(pods, "http://"+net.JoinHostPort(h.Address(), fmt.Sprint(o.Spec.Ports[0].NodePort)), namesOf(pods)...)
		s.expectClient(h.Address(), o.Spec.Ports[0].NodePort, s.sourceVIP(h, o.Spec.Ports[0].NodePort))
	}
}

// sourceVIP returns the address that replaces the client's in a host's load balancer for a port of the host.
func (s servicesTest) sourceVIP(h *lab.Host, port int32) string {
	s.t.Helper()
	for _, o := range s.objects(h, hns.LoadBalancer) {
		var lb struct {
			SourceVIP    string
			PortMappings []struct{ ExternalPort int32 }
		}
		if decode(o, &lb); len(lb.PortMappings) == 1 && lb.PortMappings[0].ExternalPort == port && lb.SourceVIP != "" {
			return lb.SourceVIP
		}
	}
	s.t.Fatalf("%s has no load balancer with a source address for port %d", h.Name(), port)
	return ""
}

// expectClient checks the client address that a pod sees when this machine connects to a port of a host.
func (s servicesTest) expectClient(address string, port int32, want string) {
	s.t.Helper()
	client, err := testenv.CallPort(s.t.Context(), address, int(port), "/client")
	if got, _, _ := net.SplitHostPort(client); err != nil || got != want {
		s.t.Errorf("client address at port %d of %s: got %s (%v), want %s", port, address, client, err, want)
	}
}

// affinity checks that a Service with session affinity always sends a client to the same pod.
func (s servicesTest) affinity() {
	o, pods := s.service("affinity", func(spec *corev1.ServiceSpec) { spec.SessionAffinity = corev1.ServiceAffinityClientIP }), s.webPods()
	for i := range pods {
		s.eventually("a client reaches only one pod", func(ctx context.Context) string {
			responses, err := s.get(ctx, &pods[i], slices.Repeat([]string{"http://" + o.Spec.ClusterIP}, 6)...)
			slices.Sort(responses)
			if responses = slices.Compact(responses); err != nil || len(responses) != 1 || !slices.Contains(namesOf(pods), responses[0]) {
				return fmt.Sprintf("got answers of %q (%v)", responses, err)
			}
			return ""
		})
	}
}

// localPolicy checks a NodePort with externalTrafficPolicy Local, which reaches only pods of the same host.
func (s servicesTest) localPolicy() {
	o := s.service("local", func(spec *corev1.ServiceSpec) {
		spec.Type, spec.ExternalTrafficPolicy = corev1.ServiceTypeNodePort, corev1.ServiceExternalTrafficPolicyLocal
	})
	for _, pod := range s.webPods() {
		address, port := pod.Status.HostIP, o.Spec.Ports[0].NodePort
		s.fromMachine(address, port, pod.Name)
		s.expectClient(address, port, s.Lab.Address())
	}
}

func (s servicesTest) loadBalancer() {
	const address = "203.0.113.7"
	o, pods := s.service("load-balancer", func(spec *corev1.ServiceSpec) { spec.Type = corev1.ServiceTypeLoadBalancer }), s.webPods()
	before := o.DeepCopy()
	o.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: address}}
	must(s.t, s.Client.Status().Patch(s.t.Context(), o, client.MergeFrom(before)))
	s.expect(pods, "http://"+address, namesOf(pods)...)
	local := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"externalTrafficPolicy":"Local"}}`))
	must(s.t, s.Client.Patch(s.t.Context(), o, local))
	for i := range pods {
		s.expect(pods[i:i+1], "http://"+address, pods[i].Name) // only the pod on the same host
	}
}

// differentPods checks a Service with two named ports, each of which only one pod has, while pods are added and removed.
func (s servicesTest) differentPods() {
	o := s.service("different", func(spec *corev1.ServiceSpec) {
		spec.Selector = map[string]string{"app": "different"}
		spec.Ports = []corev1.ServicePort{
			{Name: "one", Port: 80, TargetPort: intstr.FromString("one")}, {Name: "two", Port: 81, TargetPort: intstr.FromString("two")},
		}
	})
	url1, url2 := fmt.Sprintf("http://%s:80", o.Spec.ClusterIP), fmt.Sprintf("http://%s:81", o.Spec.ClusterIP)
	from := s.webPods()
	first := s.podWithPort("first", "one", 8090)
	s.expect(from, url1, "first")
	s.podWithPort("second", "two", 8091)
	s.expect(from, url1, "first")
	s.expect(from, url2, "second")
	s.remove(first)
	s.expectGone(client.ObjectKeyFromObject(first), &corev1.Pod{})
	s.expect(from, url2, "second")
	s.podWithPort("third", "one", 8092)
	s.expect(from, url1, "third")
	s.expect(from, url2, "second")
}

// podWithPort creates a pod with one named port.
func (s servicesTest) podWithPort(name, port string, number int32) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name, Labels: map[string]string{"app": "different"}},
		Spec:       testenv.WebserverPod(fmt.Sprintf("PORT=%d", number)),
	}
	c := &pod.Spec.Containers[0]
	c.Ports = []corev1.ContainerPort{{Name: port, ContainerPort: number}}
	c.ReadinessProbe.TCPSocket.Port = intstr.FromInt32(number)
	s.create(pod)
	s.t.Cleanup(func() { _ = s.Client.Delete(context.Background(), pod) })
	return pod
}

// follow scales down to one pod, and expects only that one to answer.
func (s servicesTest) follow() {
	o := s.service("follow", nil)
	s.expect(s.webPods(), "http://"+o.Spec.ClusterIP, namesOf(s.webPods())...)
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "web"}}
	must(s.t, s.Client.Patch(s.t.Context(), d, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"replicas":1}}`))))
	left := s.ExpectServing(s.t, waitTimeout, "web", 1)
	s.expect(left, "http://"+o.Spec.ClusterIP, left[0].Name)
}
