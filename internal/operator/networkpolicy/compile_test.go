package networkpolicy_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/internal/operator/networkpolicy"
	"github.com/windows-machine-config/wmco/internal/shared/hns"
	"github.com/windows-machine-config/wmco/internal/shared/policyset"
)

// TestAPIExamples decides connections by the rules of both endpoints, as far as they are on Windows nodes.
func TestAPIExamples(t *testing.T) {
	for _, e := range examples(t, "examples.txt") {
		c := compile(t, shop(e.policies...))
		if len(c.problems) > 0 {
			t.Errorf("%s: %v", e.name, c.problems)
		}
		for text, want := range e.connections {
			if got := c.allows(t, text); got != want {
				t.Errorf("%s: %s is %t, want %t", e.name, text, got, want)
			}
		}
	}
}

func (c compiled) allows(t *testing.T, text string) bool {
	t.Helper()
	from, to, conn := parse(t, c.cluster, text)
	allowed := true
	if to != nil && c.isEnforced(to) {
		allowed = decide(t, c.acls(t, to), hns.In, conn)
	}
	if from != nil && c.isEnforced(from) {
		allowed = allowed && decide(t, c.acls(t, from), hns.Out, conn)
	}
	return allowed
}

// TestInvalidPoliciesAllowLess: each problem is reported with its field, and what is invalid allows nothing.
func TestInvalidPoliciesAllowLess(t *testing.T) {
	for _, e := range examples(t, "invalid.txt") {
		c := compile(t, shop(e.policies...))
		if len(c.problems) != 1 || string(c.problems[0].Reason) != e.reason || !strings.Contains(c.problems[0].Message, e.message) ||
			c.problems[0].Policy != "p-0" || c.problems[0].Namespace != "shop" {
			t.Errorf("%s: got %+v, want %s with %q", e.name, c.problems, e.reason, e.message)
		}
		for text, want := range e.connections {
			if got := c.allows(t, text); got != want {
				t.Errorf("%s: %s is %t, want %t", e.name, text, got, want)
			}
		}
	}
}

// TestSetListsPodsOnWindowsNodes: a pod that no policy selects is listed, too, so that its node knows it; policies without pods are left
// out.
func TestSetListsPodsOnWindowsNodes(t *testing.T) {
	policies := specs(t,
		`{podSelector: {matchLabels: {app: db}}, ingress: [{from: [{podSelector: {}}], ports: [{port: http}, {port: 80}, {port: 81}]}]}`,
		`{podSelector: {matchLabels: {app: none}}, policyTypes: [Egress], egress: [{to: [{ipBlock: {cidr: 8.0.0.0/8}}]}]}`,
		`{podSelector: {}}`)
	policies[2].Namespace = "bank"
	sets, problems := compileSets(t, shop(policies...))
	both, ingress := policyset.Directions{Ingress: true, Egress: true}, policyset.Directions{Ingress: true}
	want := []policyset.Set{
		{Namespace: "bank", Unlisted: ingress},
		{
			Namespace: "shop", Unlisted: both,
			Policies: []policyset.Policy{{Name: "p-0", Isolates: ingress, Ingress: []policyset.Rule{{
				Peers: new(0), Ports: []policyset.Port{{Protocol: hns.TCP, First: 80, Last: 81}, {Protocol: hns.TCP, Name: "http"}},
			}}}},
			Addresses: sets[1].Addresses,
			Pods: []policyset.Pod{
				{Name: "db", UID: "uid-db", Policies: []int{0}, Ports: []policyset.NamedPort{{Name: "http", Protocol: 6, Port: 9090}}},
				{Name: "web", UID: "uid-web"},
			},
		},
	}
	if !reflect.DeepEqual(sets, want) || len(problems) > 0 {
		t.Errorf("got  %+v\nwant %+v\nproblems %v", sets, want, problems)
	}
	if got := fmt.Sprint(sets[1].Addresses); got != "[[10.1.1.1/32 10.1.1.10/32 10.1.2.10/32 192.168.1.1/32]]" {
		t.Errorf("the peers are %s", got)
	}
	if sets, problems := compileSets(t, shop()); len(sets)+len(problems) > 0 {
		t.Errorf("without policies, there are %v and %v", sets, problems)
	}
}

// TestStaticPodsAreListedByNodeUID: their mirrors in the API have UIDs of their own.
func TestStaticPodsAreListedByNodeUID(t *testing.T) {
	const hash = "0123456789abcdef0123456789abcdef"
	for annotation, want := range map[string]string{"": "uid-web", hash: hash, "x y": "uid-web"} {
		cluster := shop(specs(t, `{podSelector: {}}`)...)
		cluster.Pods[0].Annotations = map[string]string{corev1.MirrorPodAnnotationKey: annotation}
		sets, problems := compileSets(t, cluster)
		if len(problems) > 0 || sets[0].Pods[1].UID != want {
			t.Errorf("with annotation %q: got %+v and problems %v, want UID %s", annotation, sets[0].Pods, problems, want)
		}
	}
}

// TestNamedPorts: names of other protocols, of init containers that end, and of invalid ports are no ports.
func TestNamedPorts(t *testing.T) {
	policies := specs(t, `{podSelector: {}, ingress: [{ports: [{port: http}]}]}`)
	cluster := shop(policies...)
	web := cluster.Pods[0]
	port := func(n int32, protocol corev1.Protocol) []corev1.ContainerPort {
		return []corev1.ContainerPort{{Name: "http", ContainerPort: n, Protocol: protocol}}
	}
	web.Spec.Containers = []corev1.Container{
		{Ports: port(1, corev1.ProtocolUDP)}, {Ports: port(70000, "")}, {Ports: []corev1.ContainerPort{{ContainerPort: 3}}},
	}
	web.Spec.InitContainers = []corev1.Container{
		{Ports: port(4, "")}, {Ports: port(5, ""), RestartPolicy: new(corev1.ContainerRestartPolicyAlways)},
	}
	c := compile(t, cluster)
	for n := range 10 {
		if got, want := c.allows(t, fmt.Sprintf("8.8.8.8 > shop/web TCP/%d", n)), n == 5; got != want {
			t.Errorf("port %d is allowed: %t", n, got)
		}
	}
}

// TestPeerAddresses: of all addresses in a status, only usable IPv4 addresses count.
func TestPeerAddresses(t *testing.T) {
	policies := specs(t, `{podSelector: {}, ingress: [{from: [{namespaceSelector: {matchLabels: {team: bank}}}]}]}`)
	cluster := shop(policies...)
	for i, p := range cluster.Pods {
		if p.Namespace == "bank" && p.Name != "agent" {
			cluster.Pods[i].Status.PodIP = ""
			for _, text := range []string{"fd00::1", "10.1.3.77", "0.0.0.0", "127.0.0.1", "224.0.0.1", "x"} {
				cluster.Pods[i].Status.PodIPs = append(cluster.Pods[i].Status.PodIPs, corev1.PodIP{IP: text})
			}
		}
		cluster.Pods[i].Status.HostIPs = []corev1.HostIP{{IP: "192.168.7.7"}}
	}
	sets, _ := compileSets(t, cluster)
	if got := fmt.Sprint(sets[0].Addresses); got != "[[10.1.3.1/32 10.1.3.77/32 192.168.1.3/32 192.168.7.7/32]]" {
		t.Errorf("the peers are %s", got)
	}
}

// TestUnknownNamespaceIsNoPeer: NotIn would select it otherwise.
func TestUnknownNamespaceIsNoPeer(t *testing.T) {
	policies := specs(t,
		`{podSelector: {}, ingress: [{from: [{namespaceSelector: {matchExpressions: [{key: x, operator: DoesNotExist}]}}]}]}`)
	cluster := shop(policies...)
	cluster.Namespaces = slices.DeleteFunc(cluster.Namespaces, func(n *corev1.Namespace) bool { return n.Name == "bank" })
	c := compile(t, cluster)
	if c.allows(t, "bank/client > shop/web TCP/1") || !c.allows(t, "shop/db > shop/web TCP/1") {
		t.Error("the namespace is a peer, or the other is none")
	}
}

// TestInvalidObjectsClose: two policies of one name, for example, would be a broken cache.
func TestInvalidObjectsClose(t *testing.T) {
	open := networkingv1.NetworkPolicySpec{PodSelector: metav1.LabelSelector{}, Ingress: []networkingv1.NetworkPolicyIngressRule{{}}}
	sets, problems := compileSets(t, shop(policy("shop", "same", open), policy("shop", "same", open)))
	want := []policyset.Set{policyset.Closed("shop")}
	if !reflect.DeepEqual(sets, want) || len(problems) != 2 || problems[0].Reason != networkpolicy.Invalid {
		t.Errorf("got %+v and %+v", sets, problems)
	}
}
