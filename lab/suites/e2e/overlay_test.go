//go:build linux

package e2e

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/cluster/ovn"
	"github.com/windows-machine-config/wmco/lab/testenv"
)

// overlaySide is an implementation of the hybrid overlay's Linux side.
type overlaySide struct {
	name     string
	programs ovn.Programs
	missing  error
}

func overlaySides() []overlaySide {
	programs := ovn.FromEnvironment()
	return []overlaySide{{name: "stand-in"}, {"programs", programs, programs.Missing()}}
}

// TestHybridOverlay joins hosts to an OpenShift cluster whose Network object follows the documents. The Linux side is the lab's stand-in, and, if the
// environment names them (make e2e-ovn), OVN-Kubernetes' own programs. The Host Network Service of one host has the quirks of the simulation.
func TestHybridOverlay(t *testing.T) {
	needs(t, lab.CanBalance(), lab.CanRunRegistries())
	for _, side := range overlaySides() {
		t.Run(side.name, func(t *testing.T) {
			needs(t, side.missing)
			x := overlayTest{servicesTest{newHarness(t, testenv.Options{
				WineHosts: 2, OpenShift: "None", Network: testenv.NetworkHybridOverlay, Pods: true, OVN: side.programs,
			})}}
			x.setQuirks()
			x.joinAll()
			for _, test := range []struct {
				name string
				run  func(overlayTest)
			}{
				{"OVN-Kubernetes assigns subnets to nodes", overlayTest.expectSubnets},
				{"hosts have routes to each other's subnets", func(x overlayTest) { x.expectRemotes() }},
				{"pods of the hosts reach each other", overlayTest.deploy},
				{"quirks of the network services change no objects", overlayTest.addQuirks},
				{"a Node that registers again gets another subnet", overlayTest.registerAgain},
				{"the hybrid overlay can be disabled and enabled", overlayTest.toggleOverlay},
				{"the network operator rejects changes of a running hybrid overlay", overlayTest.changeWhileRunning},
			} {
				if !t.Run(test.name, func(t *testing.T) { test.run(overlayTest{servicesTest{x.withT(t)}}) }) {
					return
				}
			}
		})
	}
}

type overlayTest struct{ servicesTest }

// networkOperator is the object that configures OpenShift's network.
const networkOperator = "operator.openshift.io/v1 Network cluster"

// subnet returns the subnet of a node. Its length is always 24, because OVN-Kubernetes ignores hostPrefix.
func (x overlayTest) subnet(node string) netip.Prefix {
	x.t.Helper()
	n := x.node(node)
	text := n.Annotations[ovn.SubnetAnnotation]
	subnet, err := netip.ParsePrefix(text)
	if err != nil || subnet.Bits() != 24 || !netip.MustParsePrefix(x.Lab.PodNetwork()).Contains(subnet.Addr()) {
		x.t.Fatalf("subnet of Node %s: got %q, want one of length 24 in %s", node, text, x.Lab.PodNetwork())
	}
	if len(n.Spec.PodCIDRs) > 0 {
		x.t.Fatalf("podCIDRs of Node %s: got %v, want none on OpenShift", node, n.Spec.PodCIDRs)
	}
	return subnet
}

func (x overlayTest) expectSubnets() {
	assigned := map[netip.Prefix]string{}
	for _, h := range x.Lab.Hosts() {
		subnet := x.subnet(h.Name())
		if other, taken := assigned[subnet]; taken {
			x.t.Errorf("%s and %s have the same subnet %s", h.Name(), other, subnet)
		}
		assigned[subnet] = h.Name()
		if mac := x.node(h.Name()).Annotations[ovn.GatewayMACAnnotation]; mac == "" {
			x.t.Errorf("Node %s has no gateway's MAC address", h.Name())
		}
	}
}

// deploy starts a pod on each host, and sends requests from each to the other.
func (x overlayTest) deploy() {
	x.webserver("web", int32(len(x.Lab.Hosts())), onEachHost)
	x.expectTraffic()
}

// expectTraffic waits until each pod is in the subnet of its host, and all pods can reach it.
func (x overlayTest) expectTraffic() {
	x.t.Helper()
	x.ExpectServing(x.t, waitTimeout, "web", len(x.Lab.Hosts()))
	pods := x.webPods()
	for _, pod := range pods {
		if subnet := x.subnet(pod.Spec.NodeName); !subnet.Contains(netip.MustParseAddr(pod.Status.PodIP)) {
			x.t.Errorf("address of pod %s on %s: got %s, want one in %s", pod.Name, pod.Spec.NodeName, pod.Status.PodIP, subnet)
		}
		x.expect(pods, fmt.Sprintf("http://%s:%d", pod.Status.PodIP, firstPort), pod.Name)
	}
}

func (x overlayTest) addLinuxNode() {
	n, err := x.AddLinuxNode(x.t.Context(), "linux-1", "10.99.200.1")
	must(x.t, err)
	x.expectRemotes(testenv.LinuxSubnet(n) + " by 10.99.200.1")
}

// linuxRemote returns the remote subnet of the node of addLinuxNode.
func (x overlayTest) linuxRemote() string {
	return testenv.LinuxSubnet(x.node("linux-1")) + " by 10.99.200.1"
}

// registerAgain deletes the Node of a host. The restarted kubelet registers it again, and OVN-Kubernetes assigns the next free subnet.
func (x overlayTest) registerAgain() {
	if testing.Short() {
		x.t.Skip("SKIPPED: takes a minute and a half; run without -short")
	}
	node := x.node("win-1")
	before := x.subnet("win-1")
	x.remove(node)
	eventuallyOf(x.harness, "Node win-1 is registered again with another subnet", client.ObjectKeyFromObject(node), func(again *corev1.Node) string {
		if again.UID == node.UID || again.Annotations[ovn.SubnetAnnotation] == "" {
			return fmt.Sprintf("got Node %s with subnet %q", again.UID, again.Annotations[ovn.SubnetAnnotation])
		}
		return ""
	})
	if now := x.subnet("win-1"); now == before {
		x.t.Errorf("Node win-1 has subnet %s again, want the next free one", now)
	}
	x.expectAllReady()
	x.expectRemotes(x.linuxRemote())
	x.expectTraffic()
}

// toggleOverlay disables the hybrid overlay, so that OVN-Kubernetes annotates Windows nodes like Linux nodes, and enables it
// again. OVN-Kubernetes' Linux nodes prefer these annotations to the subnets of the hybrid overlay, and do not remove them, so
// the operator must.
func (x overlayTest) toggleOverlay() {
	subnets := map[string]netip.Prefix{}
	for _, h := range x.Lab.Hosts() {
		subnets[h.Name()] = x.subnet(h.Name())
	}
	x.patch(networkOperator, "spec: {defaultNetwork: {ovnKubernetesConfig: {hybridOverlayConfig: null}}}")
	x.eventually("OVN-Kubernetes annotates Windows nodes like Linux nodes", func(context.Context) string {
		for _, h := range x.Lab.Hosts() {
			n := x.node(h.Name())
			for _, key := range linuxAnnotations() {
				if n.Annotations[key] == "" {
					return "Node " + n.Name + " has no " + key
				}
			}
		}
		return ""
	})
	x.expectRemotes() // the Linux node no longer has a gateway
	x.patch(networkOperator, "spec: {defaultNetwork: {ovnKubernetesConfig: {hybridOverlayConfig: "+x.HybridOverlayConfig()+"}}}")
	x.expectRemotes(x.linuxRemote())
	for name, before := range subnets {
		if now := x.subnet(name); now != before {
			x.t.Errorf("subnet of Node %s: got %s, want %s as before", name, now, before)
		}
	}
	x.restartOperator() // the operator checks at startup, and otherwise every five minutes
	x.eventually("the annotations of Linux nodes are removed", func(context.Context) string {
		for _, h := range x.Lab.Hosts() {
			n := x.node(h.Name())
			for _, key := range linuxAnnotations() {
				if value, left := n.Annotations[key]; left {
					return fmt.Sprintf("Node %s still has %s=%s", n.Name, key, value)
				}
			}
		}
		return ""
	})
	x.expectTraffic()
}

// linuxAnnotations returns the annotations that OVN-Kubernetes writes on Linux nodes.
func linuxAnnotations() []string {
	return []string{ovn.NodeSubnetsAnnotation, ovn.NodeIDAnnotation, ovn.TransitAnnotation}
}

// changeWhileRunning applies patches that the network operator rejects. The old configuration must stay in effect.
func (x overlayTest) changeWhileRunning() {
	x.patch(networkOperator, "spec: {defaultNetwork: {ovnKubernetesConfig: {hybridOverlayConfig: {hybridOverlayVXLANPort: 9898}}}}")
	x.expectDegraded("True")
	x.patch(networkOperator, "spec: {defaultNetwork: {ovnKubernetesConfig: {hybridOverlayConfig: {hybridOverlayVXLANPort: null}}}}")
	x.expectDegraded("False")
	x.expectSubnets()
}

func (x overlayTest) expectDegraded(status string) {
	x.t.Helper()
	x.eventually("the network operator is degraded: "+status, func(ctx context.Context) string {
		n, _ := patchOf(x.t, networkOperator, "{}")
		if err := x.Client.Get(ctx, client.ObjectKeyFromObject(n), n); err != nil {
			return err.Error()
		}
		text, err := n.MarshalJSON()
		if err != nil || !strings.Contains(string(text), `"status":"`+status+`"`) {
			return string(text)
		}
		return ""
	})
}
