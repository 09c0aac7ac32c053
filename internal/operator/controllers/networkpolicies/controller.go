// Package networkpolicies reports NetworkPolicies that select pods on Windows nodes whose network does not enforce policies.
package networkpolicies

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/observe/advice"
	"github.com/windows-machine-config/wmco/internal/operator/cluster"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

const (
	// checkInterval is how often new policies are checked, recheckInterval how often those that selected no pods.
	checkInterval   = 5 * time.Minute
	recheckInterval = time.Hour
	// checkTimeout is the timeout of a check, and eventsAtOnce the maximum number of its events. The next check continues.
	checkTimeout = 4 * time.Minute
	eventsAtOnce = 50
	// Limits of the policy cache, in bytes: of one policy, of those in one namespace, and of all. A policy with a few labels takes half a kilobyte.
	maxPolicy           = 16 << 10
	policiesOfNamespace = 256 << 10
	allPolicies         = 16 << 20
)

// Controller reports each generation of a policy once.
type Controller struct {
	Options
	advice advice.Table
	// policies are those that have been checked. Only one goroutine uses them.
	policies  map[types.UID]state
	rechecked time.Time // when unreported policies were last checked again
}

// state is the last check of a policy.
type state struct {
	generation int64
	reported   bool
}

// Options are the controller's dependencies.
type Options struct {
	Client client.Client
	// Live reads the pods of Windows nodes and OpenShift's objects, which are not cached.
	Live   client.Reader
	Events kube.Events
}

// New returns the controller.
func New(o Options) *Controller {
	return &Controller{Options: o, advice: advice.All(), policies: map[types.UID]state{}}
}

// Policies returns the informer for NetworkPolicies, which keeps their pod selectors.
func Policies() kube.Informer {
	return kube.Informer{
		Object: &networkingv1.NetworkPolicy{}, Keep: kube.KeepFunc(keep), Bytes: maxPolicy,
		Share: &kube.Share{Total: allPolicies, PerOwner: policiesOfNamespace, Owner: client.Object.GetNamespace},
	}
}

func keep(p *networkingv1.NetworkPolicy) (client.Object, bool) {
	kept := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{
		Namespace: p.Namespace, Name: p.Name, UID: p.UID, ResourceVersion: p.ResourceVersion, Generation: p.Generation,
	}}
	kept.Spec.PodSelector = p.Spec.PodSelector
	return kept, true
}

// Register adds the controller to the manager.
func (c *Controller) Register(_ context.Context, m manager.Manager) error {
	return kube.RunEvery(m, checkInterval, func(ctx context.Context) {
		if err := c.check(ctx); err != nil {
			log.FromContext(ctx).Info("Searching for NetworkPolicies that select pods on Windows nodes failed, will be retried", "after", checkInterval.String(), "error", err.Error())
		}
	})
}

func (c *Controller) check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	network, err := c.network(ctx)
	if err != nil || network == "" {
		return err
	}
	nodes, err := kube.WindowsNodes(ctx, c.Client)
	if err != nil || len(nodes) == 0 {
		return err
	}
	due, err := c.due(ctx)
	if err != nil {
		return err
	}
	for i := 0; i < len(nodes) && due.count > 0; i++ {
		if err := c.checkNode(ctx, nodes[i].Name, network, due); err != nil {
			return err
		}
		if due.reported >= eventsAtOnce {
			return nil // the remaining ones stay due
		}
	}
	for _, unreported := range due.byNamespace {
		for _, p := range unreported {
			c.policies[p.UID] = state{p.Generation, false}
		}
	}
	return nil
}

// network returns the name of the Windows nodes' network if policies are not enforced on it, or "" if they may be.
func (c *Controller) network(ctx context.Context) (string, error) {
	config, err := kube.ReadConfig(ctx, c.Client)
	if err != nil {
		return "", err
	}
	platform, err := cluster.ReadPlatform(ctx, c.Live)
	if err != nil {
		return "", err
	}
	config.Network.Provider = desired.Provider(config.Network, platform.OpenShift)
	if desired.PoliciesOf(config.Network).Enforces() {
		return "", nil
	}
	switch config.Network.Provider {
	case v1alpha1.NetworkOVNHybridOverlay:
		return "the hybrid overlay of OVN-Kubernetes", nil
	case v1alpha1.NetworkFlannel:
		return "Flannel", nil
	}
	return "", nil
}

type policy struct {
	*networkingv1.NetworkPolicy
	selector labels.Selector
}

// policies are due policies by namespace. reported counts those that were reported and removed.
type policies struct {
	byNamespace     map[string][]policy
	count, reported int
}

// due returns the policies to check: those that are new or changed, and every recheckInterval all that have not been reported.
func (c *Controller) due(ctx context.Context) (*policies, error) {
	var list networkingv1.NetworkPolicyList
	if err := c.Client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing NetworkPolicies: %w", err)
	}
	now := time.Now()
	all := now.Sub(c.rechecked) >= recheckInterval
	if all {
		c.rechecked = now
	}
	known, due := map[types.UID]state{}, &policies{byNamespace: map[string][]policy{}}
	for i := range list.Items {
		p := &list.Items[i]
		previous, checked := c.policies[p.UID]
		if checked = checked && previous.generation == p.Generation; checked && (previous.reported || !all) {
			known[p.UID] = previous
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(&p.Spec.PodSelector)
		if err != nil || kube.IsCut(p) {
			continue // its selector is unknown
		}
		due.byNamespace[p.Namespace] = append(due.byNamespace[p.Namespace], policy{p, selector})
		due.count++
	}
	c.policies = known
	return due, nil
}

// checkNode reports the due policies that select a pod on a node, and removes them from due.
func (c *Controller) checkNode(ctx context.Context, node, network string, due *policies) error {
	visit := func(pod *corev1.Pod) bool {
		c.reportSelecting(pod, network, due)
		return due.count > 0 && due.reported < eventsAtOnce
	}
	if err := kube.EachPod(ctx, c.Live, visit, client.MatchingFields{"spec.nodeName": node}); err != nil {
		return fmt.Errorf("node %s: %w", node, err)
	}
	return nil
}

// reportSelecting reports the due policies that select a pod. Policies do not apply to pods on the host network, such as HostProcess pods.
func (c *Controller) reportSelecting(pod *corev1.Pod, network string, due *policies) {
	if pod.Spec.HostNetwork || pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return
	}
	var rest []policy
	for _, p := range due.byNamespace[pod.Namespace] {
		if due.reported >= eventsAtOnce || !p.selector.Matches(labels.Set(pod.Labels)) {
			rest = append(rest, p)
			continue
		}
		c.Events.Emit(kube.Event{Object: p.NetworkPolicy, Type: corev1.EventTypeWarning, Reason: api.EventNetworkPolicyNotEnforced, Action: fmt.Sprintf("Enforce-%d", p.Generation)},
			"The policy selects pod %s on Windows node %s, where %s does not enforce NetworkPolicies by itself, and spec.network.policies of WindowsConfig is not Enforce: "+
				"the pod's connections are not restricted. %s",
			pod.Name, pod.Spec.NodeName, network, c.advice.For(api.EventNetworkPolicyNotEnforced).Remedy)
		c.policies[p.UID] = state{p.Generation, true}
		due.count--
		due.reported++
	}
	due.byNamespace[pod.Namespace] = rest
}
