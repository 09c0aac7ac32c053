package ovn_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/lab/cluster/ovn"
	"github.com/windows-machine-config/wmco/lab/cluster/ovn/story"
)

// TestLinuxNodesAreAnnotatedAsRecorded compares with the annotations of two Linux nodes in recording 11-linux-annotations.
func TestLinuxNodesAreAnnotatedAsRecorded(t *testing.T) {
	steps, err := story.Steps("11-linux-annotations")
	if err != nil {
		t.Fatal(err)
	}
	nodes := map[string]map[string]string{}
	compared := 0
	for _, st := range steps {
		for name, annotations := range st.Nodes {
			nodes[name] = annotations
		}
		for name, written := range st.Annotate {
			if !strings.HasPrefix(name, "linux-") {
				continue
			}
			n := &corev1.Node{}
			n.Name, n.Annotations = name, nodes[name]
			n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: strings.Trim(*written["k8s.ovn.org/node-encap-ips"], `["]`)}}
			got, err := ovn.LinuxAnnotations(n, true)
			if err != nil {
				t.Fatal(err)
			}
			for key, value := range got {
				if key == "k8s.ovn.org/node-chassis-id" { // an arbitrary value in the recording
					continue
				}
				if compared++; written[key] == nil || *written[key] != *value {
					t.Errorf("got %s %q of node %s, want the recorded %v", key, *value, name, written[key])
				}
			}
		}
	}
	if compared == 0 {
		t.Error("compared no annotations")
	}
}

func TestLinuxNodeHasNoGatewayWithoutHybridOverlay(t *testing.T) {
	n := &corev1.Node{}
	if _, err := ovn.LinuxAnnotations(n, true); err == nil {
		t.Error("LinuxAnnotations succeeded for a Node without a subnet")
	}
	n.Annotations = map[string]string{ovn.NodeSubnetsAnnotation: `{"default":["10.128.0.0/23"]}`}
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.77.0.11"}}
	got, err := ovn.LinuxAnnotations(n, false)
	value, removed := got[ovn.GatewayMACAnnotation]
	if err != nil || value != nil || !removed {
		t.Errorf("got annotations %v (error %v), want the gateway removed", got, err)
	}
}
