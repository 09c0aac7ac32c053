// Package overlayleftovers removes from Windows Nodes the annotations that OVN-Kubernetes wrote while its hybrid overlay was off, and that it does
// not remove itself. While they are present, OVN-Kubernetes on Linux nodes sends packets for the pods of such a node to an address range that the
// node does not have.
package overlayleftovers

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/cluster"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/nodestate"
)

const (
	// checkInterval is how often a Node is checked while its leftovers must stay; the hybrid overlay's state is not watched.
	checkInterval = 5 * time.Minute
	// readTimeout is the timeout for reading the network's configuration.
	readTimeout = 30 * time.Second
)

// Controller removes the annotations.
type Controller struct {
	Options
	// nodes is what was done to Nodes, by UID. Only one worker uses it.
	nodes map[types.UID]history
	// names maps names to UIDs, to forget deleted Nodes.
	names map[string]types.UID
}

// Options are the controller's dependencies.
type Options struct {
	Client client.Client
	// Live reads OpenShift's objects, which are not cached.
	Live   client.Reader
	Events kube.Events
}

// New returns the controller.
func New(o Options) *Controller {
	return &Controller{Options: o, nodes: map[types.UID]history{}, names: map[string]types.UID{}}
}

// Register adds the controller to the manager.
func (c *Controller) Register(_ context.Context, m manager.Manager) error {
	return builder.ControllerManagedBy(m).
		Named("overlay-leftovers").
		Watches(&corev1.Node{}, &handler.EnqueueRequestForObject{}, builder.WithPredicates(predicate.Funcs{
			CreateFunc:  func(e event.CreateEvent) bool { return hasLeftovers(e.Object.(*corev1.Node)) },
			UpdateFunc:  func(e event.UpdateEvent) bool { return hasLeftovers(e.ObjectNew.(*corev1.Node)) },
			DeleteFunc:  func(e event.DeleteEvent) bool { return nodestate.IsWindows(e.Object.(*corev1.Node)) },
			GenericFunc: func(event.GenericEvent) bool { return false },
		})).
		Complete(c)
}

// Reconcile checks one Node.
func (c *Controller) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	var node corev1.Node
	err := c.Client.Get(ctx, request.NamespacedName, &node)
	if uid := c.names[request.Name]; apierrors.IsNotFound(err) || err == nil && node.UID != uid {
		delete(c.nodes, uid)
		delete(c.names, request.Name)
	}
	if err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if !hasLeftovers(&node) {
		return reconcile.Result{}, nil
	}
	overlay, err := c.read(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	now := time.Now()
	past := c.nodes[node.UID]
	action, later := decide(&node, overlay, past, now)
	past = past.afterCheck(overlay.enabled, now)
	switch action {
	case remove:
		err := c.remove(ctx, &node)
		if apierrors.IsConflict(err) {
			return reconcile.Result{RequeueAfter: time.Second}, nil // the change triggers another event
		}
		if err != nil {
			return reconcile.Result{}, client.IgnoreNotFound(err)
		}
		past.removed = append(past.removed, now)
	case report:
		past.reportedAt = now
		c.Events.Emit(kube.Event{Object: &node, Type: corev1.EventTypeWarning, Reason: api.EventNodeTakenForLinux, Action: "Look"},
			"OVN-Kubernetes treats this Windows node as a Linux node (annotation %s), so that Linux pods do not reach its pods: set no-hostsubnet-nodes to "+
				"kubernetes.io/os=windows in OVN-Kubernetes' configuration, and restart its control plane", cluster.LinuxSubnetsAnnotation)
	}
	c.nodes[node.UID], c.names[node.Name] = past, node.UID
	return reconcile.Result{RequeueAfter: later}, nil
}

// read reads whether the hybrid overlay is on: in the configuration and on OVN-Kubernetes' Linux nodes.
func (c *Controller) read(ctx context.Context) (overlay, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	config, err := kube.ReadConfig(ctx, c.Client)
	if err != nil {
		return overlay{}, err
	}
	platform, err := cluster.ReadPlatform(ctx, c.Live)
	if err != nil {
		return overlay{}, err
	}
	provider := desired.Provider(config.Network, platform.OpenShift)
	if provider != v1alpha1.NetworkOVNHybridOverlay {
		return overlay{}, nil
	}
	network, err := cluster.ReadNetwork(ctx, c.Live, platform, config.Network)
	if err != nil {
		return overlay{}, err
	}
	nodes, err := cluster.ReadNodeNetworks(ctx, c.Client, platform.OpenShift, provider)
	if err != nil {
		return overlay{}, err
	}
	current := overlay{enabled: nodes.HybridOverlay && (!platform.OpenShift || len(network.HybridCIDRs) > 0)}
	for _, cidr := range network.HybridCIDRs {
		if prefix, err := netip.ParsePrefix(cidr); err == nil {
			current.ranges = append(current.ranges, prefix)
		}
	}
	return current, nil
}

// remove removes the annotations from exactly this version of the Node.
func (c *Controller) remove(ctx context.Context, node *corev1.Node) error {
	changed := node.DeepCopy()
	var names []string
	for _, name := range leftovers() {
		if _, ok := changed.Annotations[name]; ok {
			delete(changed.Annotations, name)
			names = append(names, name)
		}
	}
	patch := client.MergeFromWithOptions(node.DeepCopy(), client.MergeFromWithOptimisticLock{})
	if err := c.Client.Patch(ctx, changed, patch); err != nil {
		return fmt.Errorf("removing annotations of Node %s: %w", node.Name, err)
	}
	c.Events.Emit(kube.Event{Object: node, Type: corev1.EventTypeNormal, Reason: api.EventOverlayLeftoversRemoved, Action: "Remove"},
		"Removed annotations %s, which OVN-Kubernetes wrote while its hybrid overlay was off: with them, Linux pods would not reach the pods in this node's subnet %s",
		strings.Join(names, ", "), node.Annotations[cluster.HybridSubnetAnnotation])
	return nil
}

// leftovers returns the annotations that OVN-Kubernetes writes to Nodes that it manages. Only the first does harm.
func leftovers() []string {
	return []string{cluster.LinuxSubnetsAnnotation, "k8s.ovn.org/node-id", "k8s.ovn.org/node-transit-switch-port-ifaddr"}
}

// hasLeftovers reports whether a Node has subnets of Linux nodes although its label and status mark it as Windows.
func hasLeftovers(node *corev1.Node) bool {
	_, ok := node.Annotations[leftovers()[0]]
	return ok && node.Labels[corev1.LabelOSStable] == "windows" && node.Status.NodeInfo.OperatingSystem == "windows"
}

// isIn reports whether a subnet is in one of the ranges, or no range is known.
func isIn(subnet netip.Prefix, ranges []netip.Prefix) bool {
	return len(ranges) == 0 || slices.ContainsFunc(ranges, func(r netip.Prefix) bool { return r.Contains(subnet.Addr()) && r.Bits() <= subnet.Bits() })
}
