package source

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/controllertest"
)

// A user who may write entries must not be able to direct the operator, which has the SSH key of the hosts, to its own machine, a cloud's metadata or
// the cluster.
func TestReservedEntriesGetNoInstances(t *testing.T) {
	faults := map[string]string{
		"0.0.0.0":                "no particular host",
		"127.0.0.1":              "loopback",
		"169.254.169.254":        "link-local",
		"224.0.0.1":              "multicast",
		"255.255.255.255":        "broadcast",
		"240.1.2.3":              "class E",
		"10.96.0.10":             "Services",
		"10.3.0.5":               "API server",
		"10.0.0.9":               "Node linux-1",
		"self.example":           "127.0.0.1 is a loopback address",
		"localhost":              "has no dot",
		"kubernetes.default.svc": "is a name of the cluster's own DNS",
		"two.example":            "10.96.0.1 is in",
	}
	for key, reason := range faults {
		t.Run(key, func(t *testing.T) {
			w := newSources(t, append(controllertest.PlainCluster(), controllertest.Node("linux-1", "10.0.0.9"), userMap(key, "10.0.0.1"))...)
			w.names["self.example"] = []string{"127.0.0.1"}
			w.names["two.example"] = []string{"10.0.0.7", "10.96.0.1"}
			w.pass()
			w.expect("10.0.0.1 ConfigMap 10.0.0.1")
			w.expectEvent(corev1.EventTypeWarning, api.EventInstanceInvalid, key, reason)
		})
	}
}

// A valid entry keeps its instance when another object claims the address: a claim must not remove a node.
func TestLaterAddressClaimKeepsInstance(t *testing.T) {
	w := newSources(t, append(controllertest.PlainCluster(), controllertest.Node("linux-1", "10.0.0.1"), userMap("10.0.0.1"),
		controllertest.Instance("10.0.0.1", "ConfigMap", "", "10.0.0.1"), aMachine("machine", "m", "10.0.0.2"), controllertest.Node("linux-2", "10.0.0.2"),
		controllertest.Instance("m", "Machine", "openshift-machine-api/m", "10.0.0.2"))...)
	w.pass()
	w.expect("10.0.0.1 ConfigMap 10.0.0.1", "m Machine 10.0.0.2")
	w.expectNoEvent()
}

func TestMachineWithReservedAddressIsRejected(t *testing.T) {
	for address, reason := range map[string]string{"127.0.0.1": "no usable IPv4 address", "10.96.0.10": "Services", "10.3.0.5": "API server", "10.0.0.9": "Node linux-1"} {
		w := newSources(t, append(controllertest.PlainCluster(), controllertest.Node("linux-1", "10.0.0.9"), aMachine("machine", "m", address))...)
		w.pass()
		w.expect()
		w.expectEvent(corev1.EventTypeWarning, api.EventInstanceInvalid, reason)
		if strings.HasPrefix(reason, "Node") {
			w.expectEvent(corev1.EventTypeWarning, api.EventAddressDisputed, "linux-1", "10.0.0.9", "Machine openshift-machine-api/m")
		}
	}
	both := aMachine("machine", "m", "10.96.0.10")
	both.Object["status"].(map[string]any)["addresses"] = []any{
		map[string]any{"type": "InternalIP", "address": "10.96.0.10"}, map[string]any{"type": "InternalIP", "address": "10.0.0.4"},
	}
	w := newSources(t, append(controllertest.PlainCluster(), both)...)
	w.pass()
	w.expect("m Machine 10.0.0.4")
}
