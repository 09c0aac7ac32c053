//go:build linux

package e2e

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"slices"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/shared/nodestate"
	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/testenv"
)

// TestCloud checks that the node of a real kubelet on Wine waits until its cloud initializes it. The cloud is the node controller of all
// cloud-controller-managers with a fake cloud behind it; the operator detects it from a Linux node. The node stays initialized after a reboot of the
// host, and the host's next Node is initialized, too.
func TestCloud(t *testing.T) {
	needs(t, lab.CanRunWindows())
	p := newHarness(t, testenv.Options{WineHosts: 1})
	host := p.Lab.Hosts()[0]
	name := operatorObject(host.Address())
	p.expectCloudProvider(v1alpha1.CloudProviderNone)
	p.addLinuxNodeOf("vsphere://4237")
	must(t, p.Announce(t.Context(), p.Hosts()...))
	p.expectWaitsForCloud(name, "win-1")
	p.startPod("early")

	cloud := p.startCloud()
	cloud.Set("win-1", testenv.CloudMachine("lab:///lab-a/i-1", host.Address()))
	p.expectInitialized("win-1", "lab:///lab-a/i-1")
	p.expectReady(name)
	p.expectScheduled("early")
	removed := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "early"}}
	must(t, p.Client.Delete(t.Context(), removed, client.GracePeriodSeconds(0)))

	t.Run("ListedNamesOfTheCloudAreApproved", func(t *testing.T) { p.withT(t).checkCloudNames(cloud, host, name) })
	t.Run("NodeStaysInitializedAfterReboot", func(t *testing.T) {
		p := p.withT(t)
		p.checkReboot(host, name)
		p.expectInitialized("win-1", "lab:///lab-a/i-1")
	})
	t.Run("RejoinedNodeIsInitializedAgain", func(t *testing.T) {
		p := p.withT(t)
		cloud.Set("win-1", testenv.CloudMachine("lab:///lab-a/i-2", host.Address())) // another machine with this host's name and address
		p.checkRejoin(host, name)
		p.expectInitialized("win-1", "lab:///lab-a/i-2")
	})
}

// addLinuxNodeOf adds a Linux node with a provider ID, from which the operator detects the cloud.
func (p harness) addLinuxNodeOf(providerID string) {
	p.t.Helper()
	linux := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "linux-1", Labels: map[string]string{corev1.LabelOSStable: "linux"}}, Spec: corev1.NodeSpec{ProviderID: providerID},
	}
	if _, err := testenv.AddNode(p.t.Context(), p.Clients, linux, "10.255.255.1"); err != nil {
		p.t.Fatal(err)
	}
	p.expectCloudProvider(v1alpha1.CloudProviderExternal)
}

// checkCloudNames makes the cloud report more names and addresses for the machine. The operator approves the kubelet's request for a certificate with
// them only after the user has listed them for the host.
func (p harness) checkCloudNames(cloud *testenv.Cloud, host *lab.Host, name types.NamespacedName) {
	const internal, external = "win-1.lab.internal", "203.0.113.7"
	cloud.Set("win-1", testenv.CloudMachine("lab:///lab-a/i-1", host.Address(),
		corev1.NodeAddress{Type: corev1.NodeExternalIP, Address: external},
		corev1.NodeAddress{Type: corev1.NodeInternalDNS, Address: internal}, corev1.NodeAddress{Type: corev1.NodeHostName, Address: "win-1"}))
	var request string
	p.eventually("the kubelet requests a certificate for "+internal, func(ctx context.Context) (missing string) {
		request, missing = p.servingRequest(ctx, internal)
		return missing
	})
	p.expectEvent(request, api.EventCertificateRefused, "DNSNameNotOfInstance", internal)
	p.change(name, func(i *v1alpha1.WindowsInstance) { i.Spec.AdditionalAddresses = []string{internal, external} })
	eventuallyOf(p, "the request is approved", types.NamespacedName{Name: request}, func(got *certificatesv1.CertificateSigningRequest) string {
		if len(got.Status.Certificate) == 0 {
			return fmt.Sprintf("got conditions %v", got.Status.Conditions)
		}
		return ""
	})
}

// servingRequest returns the kubelet's request for a name, or what is missing.
func (p harness) servingRequest(ctx context.Context, name string) (request, missing string) {
	var list certificatesv1.CertificateSigningRequestList
	if err := p.Client.List(ctx, &list); err != nil {
		return "", err.Error()
	}
	for _, r := range list.Items {
		block, _ := pem.Decode(r.Spec.Request)
		if r.Spec.SignerName != certificatesv1.KubeletServingSignerName || block == nil {
			continue
		}
		if requested, err := x509.ParseCertificateRequest(block.Bytes); err == nil && slices.Contains(requested.DNSNames, name) {
			return r.Name, ""
		}
	}
	return "", fmt.Sprintf("none of %d requests has the name", len(list.Items))
}

// startCloud starts the cloud's controller, until the test ends.
func (p harness) startCloud() *testenv.Cloud {
	p.t.Helper()
	cloud, err := testenv.StartCloud(p.Clients)
	must(p.t, err)
	p.t.Cleanup(cloud.Stop)
	return cloud
}

// expectCloudProvider waits until the operator has detected the cloud provider.
func (p harness) expectCloudProvider(want v1alpha1.CloudProvider) {
	p.t.Helper()
	eventuallyOf(p, fmt.Sprintf("the cloud provider is %s", want), types.NamespacedName{Name: api.WindowsConfigName}, func(config *v1alpha1.WindowsConfig) string {
		if got := config.Status.CloudProvider; got == nil || got.Mode != want {
			return fmt.Sprintf("got %+v", got)
		}
		return ""
	})
}

// expectWaitsForCloud waits until the kubelet of a node works and the instance reports that only its cloud is missing.
func (p harness) expectWaitsForCloud(name types.NamespacedName, node string) {
	p.t.Helper()
	p.expect(name, api.ConditionReady, api.ReasonWaitingForCloud, api.TaintUninitialized)
	eventuallyOf(p, "node "+node+" is Ready, and WICD has reported its version", types.NamespacedName{Name: node}, func(n *corev1.Node) string {
		if n.Annotations[api.AnnotationVersion] == "" {
			return "annotation " + api.AnnotationVersion + " is missing"
		}
		return notReady(n)
	})
	if n := p.node(node); !nodestate.WaitsForCloud(n) || n.Spec.ProviderID != "" {
		p.t.Errorf("uninitialized node %s has provider ID %q and taints %v", node, n.Spec.ProviderID, n.Spec.Taints)
	}
	p.expect(name, api.ConditionReady, api.ReasonWaitingForCloud)
}

// expectInitialized waits until a node has the values of its cloud's machine, and no taint except that of Windows nodes.
func (p harness) expectInitialized(node, providerID string) {
	p.t.Helper()
	p.expectFromCloud(node, providerID, "lab.large", "lab-a", "lab", func(a []corev1.NodeAddress) bool {
		return len(a) >= 2 && a[0].Type == corev1.NodeInternalIP && a[len(a)-1].Address == node
	})
}

// expectFromCloud waits until a node has the provider ID, instance type, zone, region and addresses of its machine, and no longer the taint of
// uninitialized nodes.
func (p harness) expectFromCloud(node, providerID, instanceType, zone, region string, hasAddresses func([]corev1.NodeAddress) bool) {
	p.t.Helper()
	eventuallyOf(p, "node "+node+" is initialized", types.NamespacedName{Name: node}, func(n *corev1.Node) string {
		if nodestate.WaitsForCloud(n) || n.Spec.ProviderID != providerID {
			return fmt.Sprintf("got provider ID %q and taints %v", n.Spec.ProviderID, n.Spec.Taints)
		}
		for label, want := range map[string]string{
			corev1.LabelInstanceTypeStable: instanceType, corev1.LabelTopologyZone: zone, corev1.LabelTopologyRegion: region,
		} {
			if n.Labels[label] != want {
				return fmt.Sprintf("label %s: got %q, want %q", label, n.Labels[label], want)
			}
		}
		if !hasAddresses(n.Status.Addresses) {
			return fmt.Sprintf("got addresses %v", n.Status.Addresses)
		}
		return ""
	})
}

// startPod creates a pod that tolerates only the taint of Windows nodes, and waits until it is unschedulable.
func (p harness) startPod(name string) {
	p.t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name}, Spec: corev1.PodSpec{
		NodeSelector: map[string]string{corev1.LabelOSStable: "windows"},
		Tolerations:  []corev1.Toleration{{Key: api.TaintKey, Operator: corev1.TolerationOpExists}},
		Containers:   []corev1.Container{{Name: name, Image: "example.invalid/none:1"}},
	}}
	p.create(pod)
	eventuallyOf(p, "the scheduler finds no node for pod "+name, types.NamespacedName{Namespace: metav1.NamespaceDefault, Name: name}, func(got *corev1.Pod) string {
		for _, c := range got.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable {
				return ""
			}
		}
		return fmt.Sprintf("it is scheduled to node %q", got.Spec.NodeName)
	})
}

// expectScheduled waits until a pod is scheduled.
func (p harness) expectScheduled(name string) {
	p.t.Helper()
	eventuallyOf(p, "pod "+name+" is scheduled", types.NamespacedName{Namespace: metav1.NamespaceDefault, Name: name}, func(got *corev1.Pod) string {
		if got.Spec.NodeName == "" {
			return fmt.Sprintf("got conditions %v", got.Status.Conditions)
		}
		return ""
	})
}
