package machines

import (
	"encoding/json"
	"net/netip"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// FuzzDecide uses arbitrary JSON as a Machine: it is rejected, or leads to a valid decision.
func FuzzDecide(f *testing.F) {
	for _, manifest := range []string{
		`{"apiVersion":"machine.openshift.io/v1beta1","metadata":{"name":"m","labels":{"machine.openshift.io/os-id":"Windows"}},"status":{"phase":"Running","addresses":[{"type":"InternalIP","address":"10.0.0.5"}]}}`,
		`{"apiVersion":"cluster.x-k8s.io/v1beta2","metadata":{"name":"m","namespace":"n","labels":{"machine.openshift.io/os-id":"Windows"},"annotations":null},"spec":{"infrastructureRef":{"kind":"VSphereMachine"}},"status":{"phase":"Provisioned","addresses":[{"type":"InternalIP","address":"::ffff:10.0.0.5"}]}}`,
		`{"metadata":{"labels":{"machine.openshift.io/os-id":"Windows"},"ownerReferences":[]},"spec":{"providerID":null,"providerSpec":null},"status":{"nodeRef":null,"phase":"Running","addresses":null}}`,
		`{"metadata":null,"spec":null,"status":null}`,
		`{"metadata":{"labels":["machine.openshift.io/os-id"],"deletionTimestamp":7},"status":{"addresses":[null,{"type":"InternalIP"},{"type":"InternalIP","address":null}]}}`,
		`{"spec":{"providerSpec":{"value":{"kind":{}}}},"status":{"phase":["Running"]}}`,
		`{}`,
	} {
		f.Add([]byte(manifest), "VSphere")
	}
	f.Fuzz(func(t *testing.T, manifest []byte, platform string) {
		var o unstructured.Unstructured
		if json.Unmarshal(manifest, &o.Object) != nil {
			return
		}
		m, err := Read(&o)
		if err != nil {
			return
		}
		d := Decide(m, Cluster{Namespace: "operator", Platform: platform})
		if d.Verdict == Want != (d.Instance != nil) || d.Verdict == Want && (d.Fault != "" || len(d.Addresses) == 0) {
			t.Fatalf("%+v contradicts itself", d)
		}
		if d.Verdict == Want && (!m.Windows || m.Ignored || m.Deleting) {
			t.Errorf("a Machine of another cluster gets an instance: %+v", m)
		}
		for _, ip := range d.Addresses {
			if !ip.Is4() || ip.IsUnspecified() || ip.IsMulticast() {
				t.Errorf("address %s is taken for one of a host", ip)
			}
		}
		if d.Instance != nil {
			if _, err := netip.ParseAddr(d.Instance.Spec.Address); err != nil || len(d.Instance.Spec.Hostname) > maxComputerName {
				t.Errorf("the instance cannot be made: %+v (%v)", d.Instance.Spec, err)
			}
		}
		if len(d.Message) > 900 {
			t.Errorf("the message has %d bytes, too many for an event", len(d.Message))
		}
	})
}
