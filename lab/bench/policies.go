//go:build linux

package main

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/lab/testenv"
)

const (
	// podsVariable sets the number of pods: 10,000 if it is empty, always a multiple of podsOfNode. Namespaces and nodes are one for each
	// podsOfNode pods.
	podsVariable = "WMCO_BENCH_PODS"
	allPods      = 10_000
	podsOfNode   = 100
	// policiesOfNamespace is the number of policies of each namespace; the last one allows DNS to all pods.
	policiesOfNamespace = 10
	dnsPolicy           = policiesOfNamespace - 1
	// changedPolicy is the policy that accepts TCP on one port from all pods of its namespace. firstChangedPort is the first that no other
	// policy has.
	changedPolicy    = 1
	firstChangedPort = 20_000
	policyTimeout    = 10 * time.Minute
)

// policyCluster is a cluster with the operator as users install it, Windows Nodes without hosts, and many pods and policies. For the first
// Node, WICD's part runs in this process on a simulated Windows.
type policyCluster struct {
	*stage
	pods, parts int // parts is the number of namespaces, and of nodes
	node        *policyNode
	added       int // pods that came later
}

func measurePolicies(ctx context.Context, s *sheet) error {
	pods, err := strconv.Atoi(os.Getenv(podsVariable))
	if os.Getenv(podsVariable) == "" {
		pods, err = allPods, nil
	}
	if err != nil || pods < podsOfNode || pods > allPods || pods%podsOfNode != 0 {
		return fmt.Errorf("%s is %q; allowed: multiples of %d up to %d", podsVariable, os.Getenv(podsVariable), podsOfNode, allPods)
	}
	st, err := openStage(ctx, s, testenv.Options{Network: testenv.NetworkFlannel})
	if err != nil {
		return err
	}
	defer st.Close()
	p := &policyCluster{stage: st, pods: pods, parts: pods / podsOfNode}
	if err := p.fill(ctx); err != nil {
		return err
	}
	if p.node, err = p.startNode(ctx); err != nil {
		return err
	}
	defer p.node.close()
	if err := p.node.awaitRules(ctx); err != nil {
		return err
	}
	for _, measure := range []func(context.Context) error{
		func(ctx context.Context) error { return p.measureOnePod(ctx, "") },
		p.allowDNS,
		func(ctx context.Context) error {
			return p.measureOnePod(ctx, fmt.Sprintf("_of_%d_namespaces", p.parts))
		},
		p.measureEffect, p.measureIdleBytes, p.measureHeap, p.measurePodStart, p.measureCompile,
	} {
		if err := measure(ctx); err != nil {
			return fmt.Errorf("%w\n%s", err, p.node.log())
		}
	}
	return nil
}

// fill creates nodes, namespaces, pods, and all policies except those for DNS, which the operator compiles.
func (p *policyCluster) fill(ctx context.Context) error {
	p.logf("%d nodes and namespaces, %d pods, %d policies", p.parts, p.pods, p.parts*policiesOfNamespace)
	err := each(ctx, p.parts, func(ctx context.Context, i int) error {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: policyNodeName(i), Labels: map[string]string{corev1.LabelOSStable: "windows"}}}
		n.Spec.PodCIDR = netip.PrefixFrom(policySubnet(i), 24).String()
		n.Spec.PodCIDRs = []string{n.Spec.PodCIDR}
		if _, err := testenv.AddNode(ctx, p.Clients, n, addressOf(i).String()); err != nil {
			return err
		}
		return p.addNamespace(ctx, policyNamespace(i))
	})
	if err != nil {
		return err
	}
	return each(ctx, p.pods, func(ctx context.Context, i int) error { return p.createPod(ctx, p.pod(i)) })
}

// policySubnet returns the network address of a node's pods.
func policySubnet(node int) netip.Addr { return netip.AddrFrom4([4]byte{10, byte(100 + node), 0, 0}) }

func policyNodeName(i int) string  { return fmt.Sprintf("policies-%03d", i) }
func policyNamespace(i int) string { return fmt.Sprintf("ns-%03d", i) }

// benchPod is a pod of the cluster.
type benchPod struct {
	namespace, name, node, app string
	address                    netip.Addr
}

// pod returns the pod with a number. Those of a node are in as many namespaces as possible, and no two addresses can be merged.
func (p *policyCluster) pod(i int) benchPod {
	node, onNode := i/podsOfNode, i%podsOfNode
	return benchPod{
		namespace: policyNamespace(i % p.parts), name: fmt.Sprintf("pod-%05d", i), node: policyNodeName(node), app: fmt.Sprint("a-", i/p.parts%20),
		address: inSubnet(node, 2*(onNode+1)),
	}
}

func inSubnet(node, number int) netip.Addr {
	address := policySubnet(node).As4()
	address[3] = byte(number)
	return netip.AddrFrom4(address)
}

// newPod returns a pod on the last node, with an address between those of others.
func (p *policyCluster) newPod() benchPod {
	pod := p.pod(p.pods - 1)
	pod.namespace, pod.name = policyNamespace(p.added%p.parts), fmt.Sprintf("new-%05d", p.added)
	pod.address = inSubnet(p.parts-1, 2*(p.added%podsOfNode)+5)
	p.added++
	return pod
}

// createPod creates a pod that runs as far as the API server knows. No kubelet exists for it.
func (p *policyCluster) createPod(ctx context.Context, pod benchPod) error {
	if err := p.announcePod(ctx, pod); err != nil {
		return err
	}
	return p.setAddress(ctx, pod)
}

// announcePod creates a pod without an address, as the scheduler leaves it.
func (p *policyCluster) announcePod(ctx context.Context, pod benchPod) error {
	o := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.namespace, Name: pod.name, Labels: map[string]string{"app": pod.app}}}
	o.Spec = corev1.PodSpec{
		NodeName: pod.node, OS: &corev1.PodOS{Name: corev1.Windows}, AutomountServiceAccountToken: new(bool),
		Containers:  []corev1.Container{{Name: "c", Image: "registry.example/app:1", Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: 8080}}}},
		Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}}, // these nodes are never Ready
	}
	if err := p.Client.Create(ctx, o); err != nil {
		return fmt.Errorf("creating pod %s: %w", pod.name, err)
	}
	return nil
}

func (p *policyCluster) setAddress(ctx context.Context, pod benchPod) error {
	patch := fmt.Appendf(nil, `{"status":{"phase":"Running","podIP":%q,"podIPs":[{"ip":%q}]}}`, pod.address, pod.address)
	_, err := p.Clients.CoreV1().Pods(pod.namespace).Patch(ctx, pod.name, types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	if err != nil {
		return fmt.Errorf("setting the address of pod %s: %w", pod.name, err)
	}
	return nil
}

func (p *policyCluster) deletePod(ctx context.Context, pod benchPod) error {
	return p.Clients.CoreV1().Pods(pod.namespace).Delete(ctx, pod.name, metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
}

// addNamespace creates a namespace with all policies except the one for DNS.
func (p *policyCluster) addNamespace(ctx context.Context, name string) error {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "default"}}
	err := p.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	if err == nil {
		err = p.Client.Create(ctx, account) // otherwise, pods would have to wait for it
	}
	for i := 0; i < dnsPolicy && (err == nil || apierrors.IsAlreadyExists(err)); i++ {
		err = p.Client.Create(ctx, policyOf(name, i))
	}
	if err != nil {
		return fmt.Errorf("creating namespace %s: %w", name, err)
	}
	return nil
}

// allowDNS creates the policies that make every pod a peer in every namespace.
func (p *policyCluster) allowDNS(ctx context.Context) error {
	p.logf("All namespaces allow DNS to all pods")
	err := each(ctx, p.parts, func(ctx context.Context, i int) error {
		return p.Client.Create(ctx, policyOf(policyNamespace(i), dnsPolicy))
	})
	if err != nil {
		return err
	}
	last := p.pod(p.pods - 1)
	return p.node.await(ctx, "all pods may send DNS requests to all", p.node.all(), sendsTo(last.address))
}

// policyOf returns a policy of a namespace: the first denies everything, changedPolicy accepts all pods of the namespace, dnsPolicy allows
// DNS, and the others let one application accept another one of the namespace, or send to it and to a range outside.
func policyOf(namespace string, number int) *networkingv1.NetworkPolicy {
	p := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprint("p-", number)}}
	app := func(i int) metav1.LabelSelector {
		return metav1.LabelSelector{MatchLabels: map[string]string{"app": fmt.Sprint("a-", i%20)}}
	}
	tcp, udp := corev1.ProtocolTCP, corev1.ProtocolUDP
	everyone, other := metav1.LabelSelector{}, app(number+1)
	switch {
	case number == 0:
		p.Spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress}
	case number == changedPolicy:
		p.Spec.Ingress = []networkingv1.NetworkPolicyIngressRule{{
			From: []networkingv1.NetworkPolicyPeer{{PodSelector: &everyone}}, Ports: []networkingv1.NetworkPolicyPort{{Protocol: &tcp, Port: new(intstr.FromInt32(8443))}},
		}}
	case number == dnsPolicy:
		p.Spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeEgress}
		p.Spec.Egress = []networkingv1.NetworkPolicyEgressRule{{
			To: []networkingv1.NetworkPolicyPeer{{NamespaceSelector: &everyone}}, Ports: []networkingv1.NetworkPolicyPort{{Protocol: &udp, Port: new(intstr.FromInt32(53))}},
		}}
	case number%2 == 0:
		p.Spec.PodSelector = app(number)
		p.Spec.Ingress = []networkingv1.NetworkPolicyIngressRule{{
			From: []networkingv1.NetworkPolicyPeer{{PodSelector: &other}}, Ports: []networkingv1.NetworkPolicyPort{{Protocol: &tcp, Port: new(intstr.FromString("http"))}},
		}}
	default:
		p.Spec.PodSelector, p.Spec.PolicyTypes = app(number), []networkingv1.PolicyType{networkingv1.PolicyTypeEgress}
		outside := &networkingv1.IPBlock{CIDR: fmt.Sprintf("198.51.%d.0/24", number)}
		p.Spec.Egress = []networkingv1.NetworkPolicyEgressRule{{To: []networkingv1.NetworkPolicyPeer{{PodSelector: &other}, {IPBlock: outside}}}}
	}
	return p
}

// changePort changes the port of a namespace's policy changedPolicy.
func (p *policyCluster) changePort(ctx context.Context, namespace string, port int32) error {
	changed := policyOf(namespace, changedPolicy)
	before := client.MergeFrom(changed.DeepCopy())
	changed.Spec.Ingress[0].Ports[0].Port = new(intstr.FromInt32(port))
	return p.Client.Patch(ctx, changed, before)
}
