package networkpolicy_test

import (
	"cmp"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/windows-machine-config/wmco/internal/operator/networkpolicy"
)

// shop returns a cluster with a few pods. web and db of namespace shop are on Windows nodes; the pods of namespace bank are on a Linux
// node, and host and agent are on the host network.
func shop(policies ...*networkingv1.NetworkPolicy) networkpolicy.Cluster {
	node := func(isWindows bool, texts ...string) networkpolicy.Node {
		n := networkpolicy.Node{Windows: isWindows}
		for _, text := range texts {
			n.Addresses = append(n.Addresses, netip.MustParseAddr(text))
		}
		return n
	}
	named := func(name string, port int32, protocol corev1.Protocol) corev1.ContainerPort {
		return corev1.ContainerPort{Name: name, ContainerPort: port, Protocol: protocol}
	}
	job := newPod("shop/job", "win-1", "10.1.1.11", map[string]string{"app": "job"})
	job.Status.Phase = corev1.PodSucceeded
	host := newPod("shop/host", "win-1", "192.168.1.1", map[string]string{"app": "host"})
	agent := newPod("bank/agent", "linux-1", "192.168.1.3", map[string]string{"app": "agent"}, named("http", 9100, ""))
	host.Spec.HostNetwork, agent.Spec.HostNetwork = true, true
	return networkpolicy.Cluster{
		Policies: policies,
		Namespaces: []*corev1.Namespace{
			{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"team": "shop"}}},
			{ObjectMeta: metav1.ObjectMeta{Name: "bank", Labels: map[string]string{"team": "bank", "open": "yes"}}},
		},
		Nodes: map[string]networkpolicy.Node{
			"win-1": node(true, "192.168.1.1", "10.1.1.1"), "win-2": node(true, "192.168.1.2", "10.1.2.1"),
			"linux-1": node(false, "192.168.1.3", "10.1.3.1"),
		},
		Pods: []*corev1.Pod{
			newPod("shop/web", "win-1", "10.1.1.10", map[string]string{"app": "web", "tier": "front"},
				named("http", 8080, ""), named("dns", 5353, corev1.ProtocolUDP)),
			newPod("shop/db", "win-2", "10.1.2.10", map[string]string{"app": "db"}, named("http", 9090, corev1.ProtocolTCP)),
			newPod("bank/client", "linux-1", "10.1.3.10", map[string]string{"app": "client"}),
			newPod("bank/web", "linux-1", "10.1.3.11", map[string]string{"app": "web"}, named("http", 80, "")),
			newPod("shop/pending", "", "", map[string]string{"app": "web"}), job, host, agent,
		},
	}
}

// newPod returns a pod; its name is <namespace>/<name>.
func newPod(name, node, ip string, labels map[string]string, ports ...corev1.ContainerPort) *corev1.Pod {
	namespace, name, _ := strings.Cut(name, "/")
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("uid-" + name), Labels: labels}}
	p.Spec.NodeName, p.Status.PodIP, p.Status.Phase = node, ip, corev1.PodRunning
	p.Spec.Containers = []corev1.Container{{Ports: ports}}
	return p
}

// example is a paragraph of a file in testdata.
type example struct {
	name     string
	policies []*networkingv1.NetworkPolicy
	// connections are like "shop/web > 10.9.9.9 TCP/80", with what is expected.
	connections map[string]bool
	// reason and message are of the expected problem.
	reason, message string
}

// examples reads a file in testdata. Lines that begin with # are comments, those that begin with two spaces continue the one before.
func examples(t *testing.T, file string) (all []example) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	for paragraph := range strings.SplitSeq(strings.ReplaceAll(string(text), "\n  ", " "), "\n\n") {
		e := example{connections: map[string]bool{}}
		var texts []string
		for line := range strings.Lines(paragraph) {
			key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
			switch key {
			case "#":
			case "case":
				e.name = value
			case "policy":
				texts = append(texts, value)
				e.name = cmp.Or(e.name, value)
			case "problem":
				e.reason, e.message, _ = strings.Cut(value, " ")
			case "allow", "deny":
				for connection := range strings.SplitSeq(value, "; ") {
					e.connections[connection] = key == "allow"
				}
			default:
				t.Fatalf("%s: unknown word %q", file, key)
			}
		}
		if e.policies = specs(t, texts...); len(e.connections) > 0 {
			all = append(all, e)
		}
	}
	if len(all) < 20 {
		t.Fatalf("%s has %d examples", file, len(all))
	}
	return all
}

// specs returns policies of namespace shop, written as YAML.
func specs(t *testing.T, texts ...string) (policies []*networkingv1.NetworkPolicy) {
	t.Helper()
	for i, text := range texts {
		var spec networkingv1.NetworkPolicySpec
		if err := yaml.UnmarshalStrict([]byte(text), &spec); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		policies = append(policies, policy("shop", fmt.Sprint("p-", i), spec))
	}
	return policies
}

// parse returns a connection, and the pods that it connects, or nil for other addresses.
func parse(t *testing.T, cluster networkpolicy.Cluster, text string) (from, to *corev1.Pod, c connection) {
	t.Helper()
	end := func(name string) (*corev1.Pod, netip.Addr) {
		for _, p := range cluster.Pods {
			if p.Namespace+"/"+p.Name == name {
				return p, netip.MustParseAddr(p.Status.PodIP)
			}
		}
		address, err := netip.ParseAddr(name)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		return nil, address
	}
	words := strings.Fields(text)
	from, c.from = end(words[0])
	to, c.to = end(words[2])
	protocol, port, _ := strings.Cut(words[3], "/")
	c.protocol = corev1.Protocol(protocol)
	if port != "" {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		c.port = uint16(n)
	}
	return from, to, c
}
