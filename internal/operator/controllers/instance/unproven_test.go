package instance

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/controllertest"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
	"github.com/windows-machine-config/wmco/internal/shared/nodestate"
)

// A host with an identity of a name writes its own address into the Node that another machine has just registered under that name.
func TestNodeOwnershipIsDecidedAtCreation(t *testing.T) {
	node := func(address string) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "pool-7", UID: "u1", Labels: map[string]string{corev1.LabelOSStable: "windows"}}}
		if address != "" {
			n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}}
		}
		return n
	}
	operatorNode := func(address string) *corev1.Node {
		n := node(address)
		n.Labels[api.LabelOSID] = "Windows"
		return n
	}
	for name, test := range map[string]struct {
		created    ctrlevent.CreateEvent
		remembered types.UID
		deleted    bool
		want       nodestate.Claim
	}{
		"by the host":        {ctrlevent.CreateEvent{Object: node("10.0.0.1")}, "", false, nodestate.Own},
		"by another machine": {ctrlevent.CreateEvent{Object: node("10.99.99.99")}, "", false, nodestate.Foreign},
		"without an address": {ctrlevent.CreateEvent{Object: node("")}, "", false, nodestate.Foreign},
		"by a kubelet of the operator without an address": {ctrlevent.CreateEvent{Object: operatorNode("")}, "", false, nodestate.Own},
		"by a kubelet of the operator on another machine": {ctrlevent.CreateEvent{Object: operatorNode("10.99.99.99")}, "", false, nodestate.Foreign},
		"before the operator started":                     {ctrlevent.CreateEvent{Object: node(""), IsInInitialList: true}, "", false, nodestate.Own},
		"by the host, which is recorded":                  {ctrlevent.CreateEvent{Object: node("10.99.99.99")}, "u1", false, nodestate.Own},
		"deleted already":                                 {ctrlevent.CreateEvent{Object: node("10.99.99.99")}, "", true, nodestate.Own},
	} {
		t.Run(name, func(t *testing.T) {
			i := controllertest.Instance("win-1", "User", "", "10.0.0.1")
			i.Status.Hostname, i.Status.NodeIP = "pool-7", "10.0.0.1"
			if test.remembered != "" {
				i.Status.NodeRef = &v1alpha1.NodeReference{Name: "pool-7", UID: test.remembered}
			}
			cache := fake.NewClientBuilder().WithScheme(controllertest.Scheme(t)).WithObjects(i).
				WithIndex(&v1alpha1.WindowsInstance{}, HostnameIndex, Indexes()[HostnameIndex]).Build()
			c := &Controller{Options: Options{Client: cache, Slots: &kube.Slots{}}}
			queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
			defer queue.ShutDown()
			c.NodeEvents().Create(t.Context(), test.created, queue)
			if test.deleted {
				c.NodeEvents().Delete(t.Context(), ctrlevent.DeleteEvent{Object: test.created.Object}, queue)
			}
			if got := c.claimOf(i, node("10.0.0.1")); got != test.want {
				t.Errorf("the Node has claim %d, want %d", got, test.want)
			}
			if queue.Len() != 1 {
				t.Errorf("%d instances are enqueued, want 1", queue.Len())
			}
		})
	}
}
