package networkpolicy_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/windows-machine-config/wmco/internal/operator/networkpolicy"
	"github.com/windows-machine-config/wmco/internal/shared/hns"
	"github.com/windows-machine-config/wmco/internal/shared/policyset"
)

// large returns a cluster of 10,000 pods in 100 namespaces, on 100 nodes, every other one of which runs Windows. The addresses of a node's pods
// have gaps, so that they cannot be merged.
func large() networkpolicy.Cluster {
	const pods, parts = 10_000, 100
	c := networkpolicy.Cluster{Nodes: map[string]networkpolicy.Node{}}
	for i := range pods {
		namespace, onNode := fmt.Sprintf("ns-%03d", i/parts), i%parts
		if onNode == 0 {
			c.Namespaces = append(c.Namespaces, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace, Labels: map[string]string{
				"kubernetes.io/metadata.name": namespace, "team": fmt.Sprint("t-", i/1000),
			}}})
		}
		node := fmt.Sprint("node-", onNode)
		c.Nodes[node] = networkpolicy.Node{Windows: onNode%2 == 0, Pods: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(onNode), 0, 0}), 24)}
		p := &corev1.Pod{}
		p.Namespace, p.Name, p.UID = namespace, fmt.Sprintf("pod-%05d", i), types.UID(fmt.Sprintf("uid-%036d", i))
		p.Labels = map[string]string{"app": fmt.Sprint("a-", i%20), "pod-template-hash": fmt.Sprint("h-", i/5), "pod": fmt.Sprint("p-", i)}
		p.Spec.NodeName = node
		p.Status.PodIP = netip.AddrFrom4([4]byte{10, byte(onNode), 0, byte(i / parts * 2)}).String()
		p.Spec.Containers = []corev1.Container{{Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: int32(8000 + i%7)}}}}
		c.Pods = append(c.Pods, p)
	}
	return c
}

func from(peers ...networkingv1.NetworkPolicyPeer) []networkingv1.NetworkPolicyIngressRule {
	return []networkingv1.NetworkPolicyIngressRule{{From: peers}}
}

func inBlock(cidr string) networkingv1.NetworkPolicyPeer {
	return networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: cidr}}
}

// usual returns policies like those of many users: deny all, from the own namespace, from others, DNS, and to ranges.
func usual(c networkpolicy.Cluster, count int) (policies []*networkingv1.NetworkPolicy) {
	r := random{rand.New(rand.NewPCG(1, 0))}
	app := func() *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{"app": fmt.Sprint("a-", r.IntN(20))}}
	}
	all := networkingv1.NetworkPolicyPeer{NamespaceSelector: &metav1.LabelSelector{}}
	dns := networkingv1.NetworkPolicyPort{Port: new(intstr.FromInt32(53)), Protocol: new(corev1.ProtocolUDP)}
	http := networkingv1.NetworkPolicyPort{Port: new(intstr.FromString("http"))}
	for i := range count {
		namespace := c.Namespaces[i%len(c.Namespaces)].Name
		var spec networkingv1.NetworkPolicySpec
		team := map[string]string{"team": fmt.Sprint("t-", r.IntN(10))}
		other := networkingv1.NetworkPolicyPeer{NamespaceSelector: &metav1.LabelSelector{MatchLabels: team}, PodSelector: app()}
		switch i / len(c.Namespaces) % 5 {
		case 0:
		case 1:
			spec.Ingress = from(networkingv1.NetworkPolicyPeer{PodSelector: &metav1.LabelSelector{}})
		case 2:
			spec.PodSelector = *app()
			spec.Ingress = from(other, networkingv1.NetworkPolicyPeer{PodSelector: app()})
			spec.Ingress[0].Ports = []networkingv1.NetworkPolicyPort{http}
		case 3:
			spec.Egress = []networkingv1.NetworkPolicyEgressRule{
				{To: []networkingv1.NetworkPolicyPeer{all}, Ports: []networkingv1.NetworkPolicyPort{dns}},
				{To: []networkingv1.NetworkPolicyPeer{other}, Ports: []networkingv1.NetworkPolicyPort{http}},
			}
		default:
			block := &networkingv1.IPBlock{CIDR: "0.0.0.0/0", Except: []string{"10.0.0.0/8", "169.254.169.254/32"}}
			spec.Egress = []networkingv1.NetworkPolicyEgressRule{{To: []networkingv1.NetworkPolicyPeer{{IPBlock: block}}}}
		}
		policies = append(policies, policy(namespace, fmt.Sprintf("p-%04d", i), spec))
	}
	return policies
}

// BenchmarkCompile compiles 1,000 policies with 10,000 pods.
func BenchmarkCompile(b *testing.B) {
	c := large()
	c.Policies = usual(c, 1000)
	b.ReportAllocs()
	size, total := 0, 0
	for b.Loop() {
		sets, problems := networkpolicy.Compile(c)
		if len(sets) != 100 || len(problems) > 0 {
			b.Fatalf("%d sets, problems: %v", len(sets), problems)
		}
		size, total = 0, 0
		for _, s := range sets {
			size, total = max(size, len(s.Encoded)), total+len(s.Encoded)
		}
	}
	b.ReportMetric(float64(size), "bytes/largest-set")
	b.ReportMetric(float64(total), "bytes/all-sets")
}

// TestLargePolicyIsCompiledInBoundedTime: a tenant may write it. The limits are for a slow machine.
func TestLargePolicyIsCompiledInBoundedTime(t *testing.T) {
	if testing.Short() {
		t.Skip("it is about large clusters")
	}
	cluster := large()
	const many = 10_000
	notIn := func(i int) networkingv1.NetworkPolicyPeer {
		others := metav1.LabelSelectorRequirement{Key: "pod", Operator: metav1.LabelSelectorOpNotIn, Values: []string{fmt.Sprint("p-", i)}}
		selector := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{others}}
		return networkingv1.NetworkPolicyPeer{NamespaceSelector: &metav1.LabelSelector{}, PodSelector: selector}
	}
	for name, c := range map[string]struct {
		spec func(i int, s *networkingv1.NetworkPolicySpec)
		want networkpolicy.Reason
	}{
		"peers in one rule": {func(i int, s *networkingv1.NetworkPolicySpec) {
			s.Ingress = from(append(peersOf(s), notIn(i))...)
		}, ""},
		"ranges in one rule": {func(i int, s *networkingv1.NetworkPolicySpec) {
			s.Ingress = from(append(peersOf(s), inBlock(fmt.Sprintf("11.%d.%d.0/25", i/256, i%256)))...)
		}, ""},
		"rules with different peers": {func(i int, s *networkingv1.NetworkPolicySpec) {
			s.Ingress = append(s.Ingress, from(notIn(i))...)
		}, networkpolicy.TooLarge},
		"rules with named ports": {func(i int, s *networkingv1.NetworkPolicySpec) {
			s.Egress = append(s.Egress, networkingv1.NetworkPolicyEgressRule{To: []networkingv1.NetworkPolicyPeer{notIn(i)},
				Ports: []networkingv1.NetworkPolicyPort{{Port: new(intstr.FromString("http"))}}})
		}, networkpolicy.TooLarge},
		"invalid peers": {func(i int, s *networkingv1.NetworkPolicySpec) {
			s.Ingress = append(s.Ingress, from(inBlock(strings.Repeat("x", 1000)))...)
		}, networkpolicy.Invalid},
	} {
		var spec networkingv1.NetworkPolicySpec
		for i := range many {
			c.spec(i, &spec)
		}
		cluster.Policies = []*networkingv1.NetworkPolicy{policy("ns-000", "many", spec)}
		began := time.Now()
		sets, problems := compileSets(t, cluster)
		took := time.Since(began)
		t.Logf("%s: %v", name, took)
		if took > 5*time.Minute {
			t.Errorf("%s: it took %v", name, took)
		}
		var got []networkpolicy.Reason
		for _, p := range problems {
			if got = append(got, p.Reason); len(p.Message) > 4096 {
				t.Errorf("%s: the message has %d bytes", name, len(p.Message))
			}
		}
		want := []networkpolicy.Reason{c.want}
		if c.want == "" {
			want = nil
		}
		if !slices.Equal(got, want) || len(sets) != 1 {
			t.Fatalf("%s: %d sets, problems %v, want %v", name, len(sets), got, want)
		}
		if data, err := policyset.Encode(sets[0]); err != nil {
			t.Errorf("%s: a set of %d bytes: %v", name, len(data), err)
		}
		if c.want == networkpolicy.TooLarge {
			checkOmitted(t, name, sets[0], problems[0])
		}
	}
}

// peersOf returns the peers of the only rule, if there is one.
func peersOf(s *networkingv1.NetworkPolicySpec) []networkingv1.NetworkPolicyPeer {
	if len(s.Ingress) == 0 {
		return nil
	}
	return s.Ingress[0].From
}

// checkOmitted expects a set that closes the pods of its namespace, and says why.
func checkOmitted(t *testing.T, name string, set policyset.Set, problem networkpolicy.Problem) {
	t.Helper()
	result := policyset.ACLs(set, policyset.PodID{Name: "pod-00000", UID: fmt.Sprintf("uid-%036d", 0)}, policyset.Facts{})
	if result.Ingress == nil || len(result.ACLs) < 2 || result.ACLs[0].Action != hns.Block || set.Omitted <= policyset.MaxSize {
		t.Errorf("%s: a pod has %+v", name, result)
	}
	if !strings.Contains(problem.Message, fmt.Sprint(set.Omitted)) || !strings.Contains(problem.Message, fmt.Sprint(policyset.MaxSize)) {
		t.Errorf("%s: the message is %q", name, problem.Message)
	}
}
