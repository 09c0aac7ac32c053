//go:build linux

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/lab/testenv"
)

// randomRounds is the number of random lists of policies. WMCO_POLICY_SEEDS=100 tries more.
const randomRounds = 8

// randomPolicies has random policies and compares which of all connections between four pods pass with what the text of the API says. The
// pods are in two namespaces and on two hosts. It shares no code with the operator. What it cannot say, because the lab's web server has no
// other, are connections of UDP, and those with addresses that no pod has.
func (s policiesTest) randomPolicies() {
	rounds := randomRounds
	if text := os.Getenv("WMCO_POLICY_SEEDS"); text != "" {
		var err error
		rounds, err = strconv.Atoi(text)
		must(s.t, err)
	}
	pods := s.randomPods()
	for seed := range rounds {
		r := randomNetwork{rand.New(rand.NewPCG(uint64(seed), 0)), pods}
		policies := r.policies()
		for _, namespace := range randomNamespaces() {
			must(s.t, s.Client.DeleteAllOf(s.t.Context(), &networkingv1.NetworkPolicy{}, client.InNamespace(namespace)))
		}
		text, err := json.Marshal(policies)
		must(s.t, err)
		for i := range policies {
			s.create(&policies[i])
		}
		s.eventually(fmt.Sprintf("connections pass as in seed %d: %s", seed, text), func(ctx context.Context) string {
			return s.differences(ctx, pods, policies)
		})
	}
}

func randomNamespaces() []string { return []string{"random-a", "random-b"} }

// randomPods starts two pods in each namespace, one on each host.
func (s policiesTest) randomPods() (pods []*corev1.Pod) {
	s.t.Helper()
	for i, namespace := range randomNamespaces() {
		s.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
		for j, h := range s.Lab.Hosts()[:2] {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
				Namespace: namespace, Name: fmt.Sprintf("pod-%d", 2*i+j), Labels: map[string]string{"app": fmt.Sprint("a-", j), "tier": fmt.Sprint("t-", i)},
			}}
			pod.Spec = testenv.WebserverPod(fmt.Sprintf("PORT=%d,%d", firstPort, secondPort))
			pod.Spec.NodeSelector[corev1.LabelHostname] = strings.ToLower(h.Name())
			s.eventually("namespace "+namespace+" accepts pods", func(ctx context.Context) string { // once it has its ServiceAccount
				if err := s.Client.Create(ctx, pod.DeepCopy()); err != nil {
					return err.Error()
				}
				return ""
			})
			pods = append(pods, pod)
		}
	}
	for _, pod := range pods {
		s.awaitReady(pod)
	}
	return pods
}

// differences opens all connections between the pods, and returns the first ones that should not have passed or failed.
func (s policiesTest) differences(ctx context.Context, pods []*corev1.Pod, policies []networkingv1.NetworkPolicy) string {
	found := make([]string, len(pods))
	var work sync.WaitGroup
	for i, from := range pods {
		work.Go(func() { found[i] = s.differencesFrom(ctx, from, pods, policies) })
	}
	work.Wait()
	return strings.Join(slices.DeleteFunc(found, func(text string) bool { return text == "" }), "; ")
}

func (s policiesTest) differencesFrom(ctx context.Context, from *corev1.Pod, pods []*corev1.Pod, policies []networkingv1.NetworkPolicy) string {
	var urls, differing []string
	var targets []target
	for _, to := range pods {
		for _, port := range []int32{firstPort, secondPort} {
			urls, targets = append(urls, urlOf(to, port)), append(targets, target{to, port})
		}
	}
	answers, err := s.get(ctx, from, urls...)
	if err != nil || len(answers) != len(urls) {
		return fmt.Sprintf("%s got %d answers: %v", from.Name, len(answers), err)
	}
	for i, to := range targets {
		passed, timedOut := answers[i] == to.Name, strings.HasPrefix(answers[i], "error: ") && strings.Contains(answers[i], "Client.Timeout")
		wanted := from.UID == to.UID || permits(policies, from, to.Pod, to.port, networkingv1.PolicyTypeEgress) &&
			permits(policies, to.Pod, from, to.port, networkingv1.PolicyTypeIngress)
		if wanted != passed || !wanted && !timedOut {
			differing = append(differing, fmt.Sprintf("port %d of %s answers %q to %s, and should pass: %v", to.port, to.Name, answers[i], from.Name, wanted))
		}
	}
	return strings.Join(differing, "; ")
}

type target struct {
	*corev1.Pod
	port int32
}

// permits reports whether policies let a pod have a connection with another one, in one direction.
func permits(policies []networkingv1.NetworkPolicy, pod, other *corev1.Pod, port int32, direction networkingv1.PolicyType) bool {
	isolated := false
	for i := range policies {
		p := &policies[i]
		if p.Namespace != pod.Namespace || !slices.Contains(p.Spec.PolicyTypes, direction) || !selects(&p.Spec.PodSelector, pod.Labels) {
			continue
		}
		isolated = true
		if direction == networkingv1.PolicyTypeIngress {
			for _, r := range p.Spec.Ingress {
				if portMatches(r.Ports, port) && peerMatches(r.From, p.Namespace, other) {
					return true
				}
			}
			continue
		}
		for _, r := range p.Spec.Egress {
			if portMatches(r.Ports, port) && peerMatches(r.To, p.Namespace, other) {
				return true
			}
		}
	}
	return !isolated
}

func selects(selector *metav1.LabelSelector, set map[string]string) bool {
	s, err := metav1.LabelSelectorAsSelector(selector)
	return err == nil && s.Matches(labels.Set(set))
}

func portMatches(ports []networkingv1.NetworkPolicyPort, port int32) bool {
	return len(ports) == 0 || slices.ContainsFunc(ports, func(p networkingv1.NetworkPolicyPort) bool {
		last := p.Port.IntVal
		if p.EndPort != nil {
			last = *p.EndPort
		}
		return p.Port.IntVal <= port && port <= last
	})
}

func peerMatches(peers []networkingv1.NetworkPolicyPeer, namespace string, pod *corev1.Pod) bool {
	return len(peers) == 0 || slices.ContainsFunc(peers, func(p networkingv1.NetworkPolicyPeer) bool {
		if p.IPBlock != nil {
			address := netip.MustParseAddr(pod.Status.PodIP)
			contains := func(cidr string) bool { return netip.MustParsePrefix(cidr).Contains(address) }
			return contains(p.IPBlock.CIDR) && !slices.ContainsFunc(p.IPBlock.Except, contains)
		}
		inNamespace := pod.Namespace == namespace
		if p.NamespaceSelector != nil {
			inNamespace = selects(p.NamespaceSelector, map[string]string{corev1.LabelMetadataName: pod.Namespace})
		}
		return inNamespace && (p.PodSelector == nil || selects(p.PodSelector, pod.Labels))
	})
}

// randomNetwork makes policies of few labels, ports and addresses, which collide often.
type randomNetwork struct {
	*rand.Rand
	pods []*corev1.Pod
}

func oneOf[T any](r randomNetwork, values ...T) T { return values[r.IntN(len(values))] }

func (r randomNetwork) policies() (all []networkingv1.NetworkPolicy) {
	const ingress, egress = networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress
	for n := range 1 + r.IntN(4) {
		p := networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{
			Namespace: oneOf(r, randomNamespaces()...), Name: fmt.Sprint("p-", n),
		}}
		p.Spec.PodSelector = r.selector("app", "a-")
		p.Spec.PolicyTypes = oneOf(r, []networkingv1.PolicyType{ingress}, []networkingv1.PolicyType{egress}, []networkingv1.PolicyType{ingress, egress})
		for range r.IntN(3) {
			if slices.Contains(p.Spec.PolicyTypes, ingress) {
				p.Spec.Ingress = append(p.Spec.Ingress, networkingv1.NetworkPolicyIngressRule{Ports: r.ports(), From: r.peers()})
			}
			if slices.Contains(p.Spec.PolicyTypes, egress) {
				p.Spec.Egress = append(p.Spec.Egress, networkingv1.NetworkPolicyEgressRule{Ports: r.ports(), To: r.peers()})
			}
		}
		all = append(all, p)
	}
	return all
}

// selector selects all, those with one value of a label, or those without it.
func (r randomNetwork) selector(key, prefix string) metav1.LabelSelector {
	value := prefix + strconv.Itoa(r.IntN(2))
	not := metav1.LabelSelectorRequirement{Key: key, Operator: metav1.LabelSelectorOpNotIn, Values: []string{value}}
	return oneOf(r, metav1.LabelSelector{}, metav1.LabelSelector{MatchLabels: map[string]string{key: value}},
		metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{not}})
}

func (r randomNetwork) ports() []networkingv1.NetworkPolicyPort {
	port := func(first, last int32) []networkingv1.NetworkPolicyPort {
		p := networkingv1.NetworkPolicyPort{Port: new(intstr.FromInt32(first))}
		if last > first {
			p.EndPort = &last
		}
		return []networkingv1.NetworkPolicyPort{p}
	}
	return oneOf(r, nil, port(firstPort, 0), port(secondPort, 0), port(firstPort, secondPort), port(1, firstPort-1),
		slices.Concat(port(firstPort, 0), port(secondPort, 9000)))
}

func (r randomNetwork) peers() (peers []networkingv1.NetworkPolicyPeer) {
	for range r.IntN(3) {
		var p networkingv1.NetworkPolicyPeer
		kind := r.IntN(4)
		if kind == 0 {
			one := func() string { return oneOf(r, r.pods...).Status.PodIP + "/32" }
			p.IPBlock = oneOf(r, &networkingv1.IPBlock{CIDR: one()}, &networkingv1.IPBlock{CIDR: "0.0.0.0/0", Except: []string{one()}})
		}
		if kind == 1 || kind == 2 {
			p.PodSelector = new(oneOf(r, r.selector("app", "a-"), r.selector("tier", "t-")))
		}
		if kind == 2 || kind == 3 {
			p.NamespaceSelector = &metav1.LabelSelector{MatchLabels: oneOf(r, nil, map[string]string{corev1.LabelMetadataName: oneOf(r, randomNamespaces()...)})}
		}
		peers = append(peers, p)
	}
	return peers
}
