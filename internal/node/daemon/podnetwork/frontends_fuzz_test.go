package podnetwork

import (
	"encoding/json"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windows-machine-config/wmco/internal/shared/hns"
)

// FuzzFrontends: users write Services and EndpointSlices in any namespace. Only IPv4 frontends of protocols that Windows' load balancers
// support are expected, identical objects are not a change, and nothing remains of deleted ones.
func FuzzFrontends(f *testing.F) {
	f.Add([]byte(`{"metadata":{"name":"a","namespace":"b"},"spec":{"clusterIP":"10.96.0.1","ports":[{"name":"x","port":443},{"port":53,"protocol":"UDP"},{"port":1,"protocol":"SCTP"}]}}`),
		[]byte(`{"metadata":{"name":"a-1","namespace":"b","labels":{"kubernetes.io/service-name":"a"}},"addressType":"IPv4","endpoints":[{"addresses":["10.132.1.2"]}],"ports":[{"name":"x"},{}]}`))
	f.Add([]byte(`{"spec":{"clusterIP":"None"}}`), []byte(`{"addressType":"IPv4","endpoints":[{"addresses":["x","::1",""],"conditions":{"ready":false}}]}`))
	f.Fuzz(func(t *testing.T, service, slice []byte) {
		var s corev1.Service
		var e discoveryv1.EndpointSlice
		if json.Unmarshal(service, &s) != nil || json.Unmarshal(slice, &e) != nil {
			return
		}
		all := newFrontends("win-1")
		began := time.Unix(1, 0)
		for _, now := range []time.Time{began, began.Add(time.Hour)} {
			all.readService(&s, now)
			all.readSlice(&e, now)
		}
		for name, kept := range all.services {
			if kept.since != began {
				t.Errorf("an equal version of Service %s counts as a change", name)
			}
		}
		for front := range all.expected(began.Add(time.Hour), lostAfter, nil) {
			if front.VIP.IsValid() && !front.VIP.Is4() || front.Protocol != hns.TCP && front.Protocol != hns.UDP {
				t.Errorf("frontend %s", front)
			}
		}
		for a, count := range all.owned {
			if !a.Is4() || count < 1 {
				t.Errorf("address %s has %d owners", a, count)
			}
		}
		serviceStore{all}.Remove(types.NamespacedName{Namespace: s.Namespace, Name: s.Name})
		sliceStore{all}.Remove(types.NamespacedName{Namespace: e.Namespace, Name: e.Name})
		if len(all.services)+len(all.owners)+len(all.owned) != 0 {
			t.Errorf("remaining after removal: %v, %v, %v", all.services, all.owners, all.owned)
		}
	})
}
