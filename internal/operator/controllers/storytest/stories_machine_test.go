package storytest

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/source"
)

// withMachines makes instances from Machines of Cluster API. The result reconciles one Machine.
func (s *story) withMachines() (look func(name string)) {
	s.configure(func(c *v1alpha1.WindowsConfigSpec) {
		c.ClusterAPI = &v1alpha1.ClusterAPISpec{Namespace: machinesNamespace, ClusterName: ownCluster}
	})
	s.put(clusterOf(machinesNamespace, ownCluster, "10.3.0.5"))
	machines := source.NewMachines(s.sources, api.SourceClusterAPI)
	kind, err := machines.Kind(s.ctx)
	s.must(err)
	kind.Found(machineKind(), ownMachines{s.live})
	s.sources.Hosts.Announcers = []source.Announcer{machines}
	return func(name string) {
		_, err := machines.Reconcile(s.ctx, reconcile.Request{NamespacedName: types.NamespacedName{Namespace: machinesNamespace, Name: name}})
		s.must(err)
	}
}

// On vSphere, VMware Tools may not report the virtual adapter to which the first network moves the address: minutes after the join, the Machine has
// no address, and the cloud provider removes it from the Node. The host must keep working and stay managed.
func TestStoryMachineLosesItsAddresses(t *testing.T) {
	runStory(t, "machine-loses-its-addresses", 1, atMost(1), func(s *story) {
		look, h := s.withMachines(), s.hosts[0]
		machine := machineOf(machinesNamespace, h.name, ownCluster, h.address)
		s.put(machine)
		s.until("the host of the Machine is a node", time.Hour, func() bool { look(h.name); return s.ready() == 1 })
		joins := h.joins
		s.record("the Machine and the Node lose their addresses")
		machine = machine.DeepCopy()
		machine.Object["status"] = map[string]any{"phase": "Running"}
		s.put(machine)
		node := s.node(h.name)
		node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: h.name}}
		s.must(s.client.Status().Update(s.ctx, node))
		for range 24 {
			look(h.name)
			s.pass(time.Hour)
		}
		if i := s.instance(h.name); s.ready() != 1 || h.joins != joins || i.Spec.Address != h.address || i.Status.Failure != nil {
			s.t.Errorf("%d nodes are ready, the host was joined %d times, before that %d, at %s, failure %+v", s.ready(), h.joins, joins, i.Spec.Address, i.Status.Failure)
		}
		s.requestReboot(h.name)
		s.until("the host has restarted", time.Hour, func() bool { return s.ready() == 1 && h.bootID == 2 })
		s.record("the Machine is deleted")
		s.drop("Machine", client.ObjectKeyFromObject(machine))
		look(h.name)
		s.until("the host has left", time.Hour, func() bool { return len(s.allInstances()) == 0 && len(s.nodes()) == 0 })
	})
}
