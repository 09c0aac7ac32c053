//go:build linux

package testenv

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/controllers/node"
	"k8s.io/cloud-provider/fake"
	"k8s.io/component-base/metrics/prometheus/controllers"
)

// Cloud is a fake cloud with the real node controller of cloud-controller-managers, both of k8s.io/cloud-provider. It finds
// machines by the names of their nodes.
type Cloud struct {
	mu       sync.Mutex
	machines map[string]cloudprovider.InstanceMetadata
	stop     context.CancelFunc
	done     chan struct{}
}

// cloudPoll is how often the addresses of nodes are compared with the cloud's.
const cloudPoll = 2 * time.Second

// StartCloud starts the controller, with the permissions of a cluster administrator. It runs until Stop.
func StartCloud(clients kubernetes.Interface) (*Cloud, error) {
	ctx, stop := context.WithCancel(context.Background())
	c := &Cloud{machines: map[string]cloudprovider.InstanceMetadata{}, stop: stop, done: make(chan struct{})}
	factory := informers.NewSharedInformerFactory(clients, 0)
	cloud := &fake.Cloud{EnableInstancesV2: true, OverrideInstanceMetadata: c.machineOf}
	controller, err := node.NewCloudNodeController(factory.Core().V1().Nodes(), clients, cloud, cloudPoll, 1, 1)
	if err != nil {
		stop()
		return nil, err
	}
	factory.Start(ctx.Done())
	go func() {
		defer close(c.done)
		controller.RunWithContext(ctx, controllers.NewControllerManagerMetrics("lab"))
	}()
	return c, nil
}

// Stop stops the controller.
func (c *Cloud) Stop() {
	c.stop()
	<-c.done
}

// Set sets the machine of a node.
func (c *Cloud) Set(node string, machine cloudprovider.InstanceMetadata) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.machines[node] = machine
}

// Remove removes the machine of a node.
func (c *Cloud) Remove(node string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.machines, node)
}

func (c *Cloud) machineOf(_ context.Context, node *corev1.Node) (*cloudprovider.InstanceMetadata, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	machine, known := c.machines[node.Name]
	if !known {
		return nil, cloudprovider.InstanceNotFound
	}
	return &machine, nil
}

// CloudMachine returns a machine of the cloud in zone lab-a, with the addresses that clouds report.
func CloudMachine(providerID, address string, more ...corev1.NodeAddress) cloudprovider.InstanceMetadata {
	return cloudprovider.InstanceMetadata{
		ProviderID: providerID, InstanceType: "lab.large", Zone: "lab-a", Region: "lab",
		NodeAddresses: append([]corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}}, more...),
	}
}
