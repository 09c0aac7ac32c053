//go:build linux

package e2e

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/testenv"
	"github.com/windows-machine-config/wmco/lab/windows/hns"
)

// TestNetworkPolicies enforces NetworkPolicies from the API server to packets: the operator compiles them, WICD writes rules for the real
// containerd's pods, and the lab's Host Network Service filters.
func TestNetworkPolicies(t *testing.T) {
	s := newPoliciesTest(t, testenv.NetworkHybridOverlay)
	if !t.Run("deny-all closes pods, but not for probes", func(t *testing.T) { s.with(t).denyAll() }) ||
		!t.Run("a policy allows pods by label and port", func(t *testing.T) { s.with(t).allowByLabel() }) ||
		!t.Run("a new pod is closed from its start", func(t *testing.T) { s.with(t).newPod() }) ||
		!t.Run("replies to allowed connections pass where egress is closed", func(t *testing.T) { s.with(t).closedEgress() }) {
		return
	}
	_ = testing.Short() || // make e2e runs these, too
		t.Run("rules stay while WICD and the Host Network Service restart", func(t *testing.T) { s.with(t).restarts() }) &&
			t.Run("rules that another program removed are restored", func(t *testing.T) { s.with(t).removedRules() }) &&
			t.Run("pods are open once their policies are deleted", func(t *testing.T) { s.with(t).deletedPolicies() }) &&
			t.Run("connections pass as the text of the API says", func(t *testing.T) { s.with(t).randomPolicies() })
	t.Run("Off removes all rules", func(t *testing.T) { s.with(t).off() })
}

// TestNetworkPoliciesOnFlannel has the parts of TestNetworkPolicies that depend on the addresses of the network.
func TestNetworkPoliciesOnFlannel(t *testing.T) {
	s := newPoliciesTest(t, testenv.NetworkFlannel)
	_ = t.Run("deny-all closes pods, but not for probes", func(t *testing.T) { s.with(t).denyAll() }) &&
		t.Run("a policy allows pods by label and port", func(t *testing.T) { s.with(t).allowByLabel() }) &&
		t.Run("a new pod is closed from its start", func(t *testing.T) { s.with(t).newPod() })
}

// newPoliciesTest starts pods on two hosts while policies are off, then has them enforced, as by default: these pods have started without
// the plugin.
func newPoliciesTest(t *testing.T, network testenv.Network) policiesTest {
	t.Helper()
	needs(t, lab.CanBalance(), lab.CanRunRegistries())
	s := policiesTest{servicesTest{newHarness(t, testenv.Options{WineHosts: 2, Network: network, Pods: true})}}
	s.configure(func(c *v1alpha1.WindowsConfigSpec) { c.Network.Policies = v1alpha1.PoliciesOff })
	s.joinAll()
	s.webserver("web", 2, onEachHost)
	s.ExpectServing(t, waitTimeout, "web", 2)
	s.configure(func(c *v1alpha1.WindowsConfigSpec) { c.Network.Policies = "" })
	return s
}

type policiesTest struct{ servicesTest }

func (s policiesTest) with(t *testing.T) policiesTest { return policiesTest{servicesTest{s.withT(t)}} }

func (s policiesTest) policy(name string, spec networkingv1.NetworkPolicySpec) *networkingv1.NetworkPolicy {
	s.t.Helper()
	p := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name}, Spec: spec}
	s.create(p)
	return p
}

// urlOf returns the address of a pod's port.
func urlOf(pod *corev1.Pod, port int32) string {
	return "http://" + net.JoinHostPort(pod.Status.PodIP, fmt.Sprint(port))
}

// expectOpen waits until a pod reaches a port of another.
func (s policiesTest) expectOpen(from, to *corev1.Pod, port int32) {
	s.t.Helper()
	s.expect([]corev1.Pod{*from}, urlOf(to, port), to.Name)
}

// expectClosed waits until a pod does not reach a port of another.
func (s policiesTest) expectClosed(from, to *corev1.Pod, port int32) {
	s.t.Helper()
	s.eventually(fmt.Sprintf("%s does not reach port %d of %s", from.Name, port, to.Name), func(ctx context.Context) string {
		return s.passed(ctx, from, to, port)
	})
}

// passed describes why a connection did not time out; empty if it did. An error of another kind proves nothing.
func (s policiesTest) passed(ctx context.Context, from, to *corev1.Pod, port int32) string {
	responses, err := s.get(ctx, from, urlOf(to, port))
	if err != nil {
		return err.Error()
	}
	if text := strings.Join(responses, " "); !strings.HasPrefix(text, "error: ") || !strings.Contains(text, "Client.Timeout") {
		return fmt.Sprintf("got the answer %q", text)
	}
	return ""
}

// pair returns a pod on each host.
func (s policiesTest) pair() (first, second *corev1.Pod) {
	s.t.Helper()
	pods := s.webPods()
	if len(pods) != 2 {
		s.t.Fatalf("got %d pods, want 2", len(pods))
	}
	return &pods[0], &pods[1]
}

// expectReady checks for a few periods of the readiness probe that the pods stay Ready.
func (s policiesTest) expectReady() {
	s.t.Helper()
	for range 5 {
		time.Sleep(time.Second)
		for _, pod := range s.webPods() {
			for _, c := range pod.Status.Conditions {
				if c.Type == corev1.PodReady && c.Status != corev1.ConditionTrue {
					s.t.Fatalf("pod %s is not Ready: %s", pod.Name, c.Message)
				}
			}
		}
	}
}

func (s policiesTest) denyAll() {
	first, second := s.pair()
	s.expectOpen(first, second, firstPort)
	s.policy("deny-all", networkingv1.NetworkPolicySpec{PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}})
	s.expectClosed(first, second, firstPort)
	s.expectClosed(second, first, firstPort)
	s.expectReady()
	s.expectOpen(first, first, firstPort) // a pod always reaches itself
}

func (s policiesTest) allowByLabel() {
	client := s.pod("client", map[string]string{"app": "client"})
	first, second := s.pair()
	port := intstr.FromInt32(firstPort)
	s.policy("allow-client", networkingv1.NetworkPolicySpec{
		PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		Ingress: []networkingv1.NetworkPolicyIngressRule{{
			From:  []networkingv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "client"}}}},
			Ports: []networkingv1.NetworkPolicyPort{{Port: &port}},
		}},
	})
	s.expectOpen(client, first, firstPort)
	s.expectOpen(client, second, firstPort)
	s.expectClosed(client, first, secondPort)
	s.expectClosed(first, second, firstPort)

	everyPod := s.policy("allow-every-pod", networkingv1.NetworkPolicySpec{Ingress: []networkingv1.NetworkPolicyIngressRule{{
		From:  []networkingv1.NetworkPolicyPeer{{NamespaceSelector: &metav1.LabelSelector{}}},
		Ports: []networkingv1.NetworkPolicyPort{{Port: &port}},
	}}})
	s.expectOpen(first, second, firstPort)
	s.expectClosed(first, second, secondPort)
	s.remove(everyPod)
	s.expectClosed(first, second, firstPort)
}

// pod creates a webserver pod on any host, and waits until it is Ready.
func (s policiesTest) pod(name string, labels map[string]string) *corev1.Pod {
	s.t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name, Labels: labels}, Spec: testenv.WebserverPod()}
	s.create(pod)
	s.awaitReady(pod)
	return pod
}

func (s policiesTest) awaitReady(pod *corev1.Pod) {
	s.t.Helper()
	s.eventually("pod "+pod.Name+" is Ready", func(ctx context.Context) string {
		if err := s.Client.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
			return err.Error()
		}
		for _, c := range pod.Status.Conditions {
			if c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
				return ""
			}
		}
		return fmt.Sprintf("got phase %s", pod.Status.Phase)
	})
}

// newPod starts a pod where policies close all pods. The rules were in force before its containers started: it is closed when it is Ready,
// without waiting.
func (s policiesTest) newPod() {
	client := s.pod("another-client", map[string]string{"app": "another"})
	fresh := s.pod("fresh", map[string]string{"app": "fresh"})
	if passed := s.passed(s.t.Context(), client, fresh, firstPort); passed != "" {
		s.t.Errorf("a new pod is open: %s", passed)
	}
	for _, h := range s.Lab.Hosts() {
		if h.Address() == fresh.Status.HostIP && len(s.rules(h, fresh.Status.PodIP)) == 0 {
			s.t.Errorf("the endpoint of pod fresh on %s has no rules", h.Name())
		}
	}
}

// rules returns the ACLs of a pod's endpoint.
func (s policiesTest) rules(h *lab.Host, address string) (rules []any) {
	s.t.Helper()
	for _, e := range s.objects(h, hns.Endpoint) {
		if found := addressesOf(e); len(found) == 0 || found[0] != address {
			continue
		}
		policies, _ := e["Policies"].([]any)
		for _, p := range policies {
			var kind struct{ Type string }
			if decode(p, &kind); kind.Type == "ACL" {
				rules = append(rules, p)
			}
		}
	}
	return rules
}

// closedEgress closes the egress of the web pods: what they answer is no connection of theirs.
func (s policiesTest) closedEgress() {
	first, _ := s.pair()
	var from corev1.Pod
	must(s.t, s.Client.Get(s.t.Context(), client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: "client"}, &from))
	egress := s.policy("closed-egress", networkingv1.NetworkPolicySpec{
		PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}, PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeEgress},
	})
	s.expectClosed(first, &from, firstPort)
	s.expectOpen(&from, first, firstPort)
	s.remove(egress)
}

// restarts kills WICD, starts it again, and restarts the Host Network Service, on all hosts. No connection passes meanwhile, and a pod that
// is created without WICD starts when WICD does.
func (s policiesTest) restarts() {
	first, second := s.pair()
	waiting := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "waiting"}, Spec: testenv.WebserverPod()}
	for _, restart := range []func(*lab.Host) error{
		func(h *lab.Host) error { return h.KillService(s.t.Context(), api.WICDService) }, // Wine does not start it again, as Windows does
		func(h *lab.Host) error { return h.StartService(s.t.Context(), api.WICDService) },
		func(h *lab.Host) error { return h.HNS().Restart(s.t.Context()) },
	} {
		for _, h := range s.Lab.Hosts() {
			must(s.t, restart(h))
		}
		if waiting.UID == "" {
			s.create(waiting)
			s.expectPodEvent(waiting, "FailedCreatePodSandBox", "wicd")
		}
		for range 2 { // each request lasts until its timeout
			if passed := s.passed(s.t.Context(), first, second, firstPort); passed != "" {
				s.t.Fatalf("a connection passed: %s", passed)
			}
		}
	}
	s.awaitReady(waiting)
	s.expectReady()
}

// removedRules removes all policies of an endpoint, as another program could.
func (s policiesTest) removedRules() {
	first, second := s.pair()
	for _, h := range s.Lab.Hosts() {
		if h.Address() != second.Status.HostIP {
			continue
		}
		before := len(s.rules(h, second.Status.PodIP))
		for _, e := range s.objects(h, hns.Endpoint) {
			if found := addressesOf(e); len(found) > 0 && found[0] == second.Status.PodIP {
				none := map[string]any{"ResourceType": "Policy", "RequestType": "Update", "Settings": map[string]any{"Policies": []any{}}}
				must(s.t, h.HNS().Modify(hns.Endpoint, fmt.Sprint(e["ID"]), none))
			}
		}
		s.eventually("the rules are restored", func(context.Context) string {
			if got := len(s.rules(h, second.Status.PodIP)); got != before || got == 0 {
				return fmt.Sprintf("got %d, want %d", got, before)
			}
			return ""
		})
	}
	s.expectClosed(first, second, firstPort)
}

func (s policiesTest) deletedPolicies() {
	first, second := s.pair()
	for _, name := range []string{"deny-all", "allow-client"} {
		s.remove(&networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name}})
	}
	s.expectOpen(first, second, firstPort)
	s.expectNoRules()
}

// expectNoRules waits until no endpoint of any host has rules.
func (s policiesTest) expectNoRules() {
	s.t.Helper()
	for _, h := range s.Lab.Hosts() {
		s.eventually("no endpoint of "+h.Name()+" has rules", func(context.Context) string {
			for _, pod := range s.webPods() {
				if rules := s.rules(h, pod.Status.PodIP); pod.Status.HostIP == h.Address() && len(rules) > 0 {
					return fmt.Sprintf("the endpoint of %s has %d", pod.Name, len(rules))
				}
			}
			return ""
		})
	}
}

func (s policiesTest) off() {
	first, second := s.pair()
	s.policy("deny-again", networkingv1.NetworkPolicySpec{PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}})
	s.expectClosed(first, second, firstPort)
	s.configure(func(c *v1alpha1.WindowsConfigSpec) { c.Network.Policies = v1alpha1.PoliciesOff })
	s.expectOpen(first, second, firstPort)
	s.expectNoRules()
	s.pod("after", map[string]string{"app": "after"}) // starts without the plugin
}
