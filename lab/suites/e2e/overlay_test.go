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

// overlaySide is a Linux side with which the hybrid overlay is tested.
type overlaySide struct {
	name     string
	programs ovn.Programs
	missing  error
}

func overlaySides() []overlaySide {
	programs := ovn.FromEnvironment()
	return []overlaySide{{name: "stand-in"}, {"programs", programs, programs.Missing()}}
}

// TestHybridOverlay joins hosts to an OpenShift cluster whose Network object follows the documents. The Linux side is the lab's stand-in, and
// OVN-Kubernetes' own programs where the environment names them (make e2e-ovn). The Host Network Service of a host is as unkind as that of the
// simulation.
func TestHybridOverlay(t *testing.T) {
	needs(t, lab.CanBalance(), lab.CanRunRegistries())
	for _, side := range overlaySides() {
		t.Run(side.name, func(t *testing.T) {
			needs(t, side.missing)
			x := overlayTest{servicesTest{newPlace(t, testenv.Options{
				WineHosts: 2, OpenShift: "None", Network: testenv.NetworkHybridOverlay, Pods: true, OVN: side.programs,
			})}}
			x.makeUnkind()
			x.joinAll()
			for _, test := range []struct {
				name string
				run  func(overlayTest)
			}{
				{"nodes have the subnets that OVN-Kubernetes gives", overlayTest.expectSubnets},
				{"each host has the subnets of all others", func(x overlayTest) { x.expectRemotes() }},
				{"pods of the hosts reach each other", overlayTest.deploy},
				{"a Linux node comes while the network services are unkind", overlayTest.keepUnkind},
				{"a Node that registers again has another subnet", overlayTest.registerAgain},
				{"the hybrid overlay is off for a while", overlayTest.offAndOn},
				{"a running hybrid overlay cannot be changed", overlayTest.changeWhileRunning},
			} {
				if !t.Run(test.name, func(t *testing.T) { test.run(overlayTest{servicesTest{x.in(t)}}) }) {
					return
				}
			}
		})
	}
}

type overlayTest struct{ servicesTest }

// networkOperator is the object that configures OpenShift's network.
const networkOperator = "operator.openshift.io/v1 Network cluster"

// subnet returns the subnet of a node, of length 24: OVN-Kubernetes does not get hostPrefix.
func (x overlayTest) subnet(node string) netip.Prefix {
	x.t.Helper()
	n := x.node(node)
	text := n.Annotations[ovn.SubnetAnnotation]
	subnet, err := netip.ParsePrefix(text)
	if err != nil || subnet.Bits() != 24 || !netip.MustParsePrefix(x.Lab.PodNetwork()).Contains(subnet.Addr()) {
		x.t.Fatalf("Node %s has subnet %q, want one of length 24 in %s", node, text, x.Lab.PodNetwork())
	}
	if len(n.Spec.PodCIDRs) > 0 {
		x.t.Fatalf("Node %s has podCIDRs %v, which it does not have on OpenShift", node, n.Spec.PodCIDRs)
	}
	return subnet
}

func (x overlayTest) expectSubnets() {
	given := map[netip.Prefix]string{}
	for _, h := range x.Lab.Hosts() {
		subnet := x.subnet(h.Name())
		if other, taken := given[subnet]; taken {
			x.t.Errorf("%s and %s have subnet %s", h.Name(), other, subnet)
		}
		given[subnet] = h.Name()
		if mac := x.node(h.Name()).Annotations[ovn.GatewayMACAnnotation]; mac == "" {
			x.t.Errorf("Node %s has no gateway", h.Name())
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
	x.ExpectServing(x.t, patience, "web", len(x.Lab.Hosts()))
	pods := x.webPods()
	for _, pod := range pods {
		if subnet := x.subnet(pod.Spec.NodeName); !subnet.Contains(netip.MustParseAddr(pod.Status.PodIP)) {
			x.t.Errorf("pod %s on %s has address %s outside of %s", pod.Name, pod.Spec.NodeName, pod.Status.PodIP, subnet)
		}
		x.expect(pods, fmt.Sprintf("http://%s:%d", pod.Status.PodIP, firstPort), pod.Name)
	}
}

func (x overlayTest) linuxNodeComes() {
	n, err := x.AddLinuxNode(x.t.Context(), "linux-1", "10.99.200.1")
	must(x.t, err)
	x.expectRemotes(testenv.LinuxSubnet(n) + " by 10.99.200.1")
}

// linuxRemote is the remote subnet of linuxNodeComes.
func (x overlayTest) linuxRemote() string {
	return testenv.LinuxSubnet(x.node("linux-1")) + " by 10.99.200.1"
}

// registerAgain deletes the Node of a host. The restarted kubelet registers it again, and OVN-Kubernetes assigns the next free subnet.
func (x overlayTest) registerAgain() {
	if testing.Short() {
		x.t.Skip("SKIPPED: it takes a minute and a half; run without -short")
	}
	node := x.node("win-1")
	before := x.subnet("win-1")
	x.remove(node)
	eventuallyOf(x.place, "Node win-1 is there again with another subnet", client.ObjectKeyFromObject(node), func(again *corev1.Node) string {
		if again.UID == node.UID || again.Annotations[ovn.SubnetAnnotation] == "" {
			return fmt.Sprintf("it is %s with subnet %q", again.UID, again.Annotations[ovn.SubnetAnnotation])
		}
		return ""
	})
	if now := x.subnet("win-1"); now == before {
		x.t.Errorf("Node win-1 has subnet %s again; OVN-Kubernetes gives the next one", now)
	}
	x.expectAllReady()
	x.expectRemotes(x.linuxRemote())
	x.expectTraffic()
}

// offAndOn disables the hybrid overlay, so that OVN-Kubernetes treats Windows nodes as its own, and enables it again. Its Linux nodes prefer the
// annotations written in between to the subnets of the hybrid overlay, and do not remove them: the operator does.
func (x overlayTest) offAndOn() {
	subnets := map[string]netip.Prefix{}
	for _, h := range x.Lab.Hosts() {
		subnets[h.Name()] = x.subnet(h.Name())
	}
	x.patch(networkOperator, "spec: {defaultNetwork: {ovnKubernetesConfig: {hybridOverlayConfig: null}}}")
	x.eventually("OVN-Kubernetes takes Windows nodes for its own", func(context.Context) string {
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
			x.t.Errorf("Node %s has subnet %s, had %s", name, now, before)
		}
	}
	x.restartOperator() // it checks at startup, and otherwise every five minutes
	x.eventually("nothing of the time in between is left", func(context.Context) string {
		for _, h := range x.Lab.Hosts() {
			n := x.node(h.Name())
			for _, key := range linuxAnnotations() {
				if value, left := n.Annotations[key]; left {
					return fmt.Sprintf("Node %s has %s=%s", n.Name, key, value)
				}
			}
		}
		return ""
	})
	x.expectTraffic()
}

// linuxAnnotations returns the annotations that OVN-Kubernetes writes on Nodes that it treats as its own.
func linuxAnnotations() []string {
	return []string{ovn.NodeSubnetsAnnotation, ovn.NodeIDAnnotation, ovn.TransitAnnotation}
}

// changeWhileRunning applies patches that the network operator refuses. The old configuration stays in effect.
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
