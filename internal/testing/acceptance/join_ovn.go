package acceptance

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
)

// The annotations of OVN-Kubernetes, as internal/node/overlay reads them.
const (
	hybridSubnet = "k8s.ovn.org/hybrid-overlay-node-subnet"
	routerMAC    = "k8s.ovn.org/hybrid-overlay-distributed-router-gateway-mac"
	linuxSubnets = "k8s.ovn.org/node-subnets"
)

// The ranges of a cluster with OVN-Kubernetes (OpenShift's defaults), and the subnet of this node.
const (
	clusterRange = "10.128.0.0/14"
	hybridRange  = "10.132.0.0/14"
	ownSubnet    = "10.132.0.0/23"
	// linuxNodes is the number of simulated Linux nodes: more than the overlay puts into one request to the Host Network Service.
	linuxNodes = 300
)

// ovnNetwork returns the part of WindowsConfig that an administrator of a cluster with OVN-Kubernetes writes.
func ovnNetwork() v1alpha1.NetworkSpec {
	return v1alpha1.NetworkSpec{
		Provider: v1alpha1.NetworkOVNHybridOverlay,
		OVN:      &v1alpha1.OVNNetwork{ClusterSubnets: clusterRange + "/23", HybridClusterSubnets: hybridRange + "/23"},
	}
}

// linuxNode returns the Node of a nonexistent Linux computer with the annotations of OVN-Kubernetes. Its address is from the benchmark range (RFC
// 2544).
func linuxNode(i int) corev1.Node {
	subnet := netip.AddrFrom4([4]byte{10, 128 + byte(i>>7), byte(i&0x7f) << 1, 0})
	return corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name:   fmt.Sprintf("linux-%d", i),
			Labels: map[string]string{corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64"},
			Annotations: map[string]string{
				linuxSubnets: fmt.Sprintf(`{"default":["%s/23"]}`, subnet),
				routerMAC:    fmt.Sprintf("0a:58:0a:80:%02x:%02x", i>>8, i&0xff),
			},
		},
		Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "wmco-acceptance", Effect: corev1.TaintEffectNoSchedule}}},
		Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: netip.AddrFrom4([4]byte{198, 18, byte(i >> 8), byte(i)}).String()},
		}},
	}
}

// makeLinuxNodes creates the Nodes of the rest of the cluster.
func (j *joining) makeLinuxNodes(ctx context.Context) error {
	for i := 1; i <= linuxNodes; i++ {
		if err := j.api.create(ctx, "/api/v1/nodes", linuxNode(i), nil); err != nil {
			return err
		}
	}
	return nil
}

// assignSubnet assigns this node its subnet, as the control plane of OVN-Kubernetes does.
func (j *joining) assignSubnet(ctx context.Context) error {
	node, err := j.node(ctx)
	if err != nil || node.Annotations[hybridSubnet] != "" {
		return nil // there is no node yet, or it has a subnet
	}
	return j.api.patch(ctx, "/api/v1/nodes/"+node.Name, map[string]any{"metadata": map[string]any{"annotations": map[string]string{hybridSubnet: ownSubnet}}})
}

// podRange returns the pod range of a node.
func podRange(node corev1.Node) string {
	if node.Spec.PodCIDR != "" {
		return node.Spec.PodCIDR
	}
	return node.Annotations[hybridSubnet]
}

// overlayTimeout is how long the overlay may take for the subnets of all nodes.
const overlayTimeout = 3 * time.Minute

// awaitRemotes waits until the Host Network Service has the subnets of all Linux nodes.
func (j *joining) awaitRemotes(ctx context.Context) (string, error) {
	began := time.Now()
	ctx, cancel := context.WithTimeout(ctx, overlayTimeout)
	defer cancel()
	err := j.await(ctx, "the overlay is missing node subnets", func(ctx context.Context) (string, error) {
		state, err := j.Host.Networks.List(ctx)
		if err != nil {
			return err.Error(), nil
		}
		most := 0
		for _, n := range state.Networks {
			most = max(most, len(n.Remotes))
		}
		if most < linuxNodes {
			return fmt.Sprintf("it has %d of %d", most, linuxNodes), nil
		}
		return "", nil
	})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf(", with the subnets of %d nodes %.0f s later", linuxNodes, time.Since(began).Seconds()), nil
}
