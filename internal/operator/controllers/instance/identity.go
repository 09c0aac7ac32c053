package instance

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/join"
	"github.com/windows-machine-config/wmco/internal/operator/remote"
	"github.com/windows-machine-config/wmco/internal/shared/nodestate"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

// The functions below compare what a host reports with what is known from other sources, before the host gets an identity.

// sharesKeyWith returns the name of another instance whose host shows the same key; "" if there is none.
func (a *attempt) sharesKeyWith(ctx context.Context, key string) (name string) {
	var list v1alpha1.WindowsInstanceList
	if err := a.Client.List(ctx, &list, client.MatchingFields{HostKeyIndex: key}, client.UnsafeDisableDeepCopy); err != nil {
		return "" // the cache is shutting down
	}
	for i := range list.Items {
		if current := list.Items[i].Name; current != a.view.Instance.Name && (name == "" || current < name) {
			name = current
		}
	}
	return name
}

// Identify proves the host's address and returns what the cluster knows about its name. It returns a join.Rebooting error while a requested restart
// has not happened.
func (a *attempt) Identify(ctx context.Context, f wicdapi.Facts) (join.Identity, error) {
	if bootID := join.RebootedFrom(a.view.Instance, time.Now()); bootID != "" && bootID == f.Host.BootID {
		return join.Identity{}, &join.Rebooting{Reason: "Windows has not shut down yet", BootID: bootID, Awaited: true}
	}
	if ip := join.NodeIP(f, a.view.Instance.Spec.Network); ip != "" { // join.Check refuses a host without one
		if err := a.proveAddress(ctx, ip); err != nil {
			return join.Identity{}, err
		}
	}
	taken, err := a.nameTakenBy(ctx, join.NodeName(f), f)
	known := join.Identity{TakenBy: taken, Unregistered: a.unregistered}
	if st := a.view.Instance.Status; a.unregistered && !st.HostnameFixed {
		known.NamePattern = a.view.config.Hosts.NamePattern
	}
	return known, err
}

// proveAddress accepts the node address that a host reports only if the host was reached there, or also presents its key there.
func (a *attempt) proveAddress(ctx context.Context, nodeIP string) error {
	if a.host.address().String() == nodeIP {
		return nil
	}
	current, err := a.Reserved.Live(ctx, a.view.Instance.Status.Hostname, time.Now())
	if err != nil {
		return fmt.Errorf("%w: %w", join.ErrCluster, err)
	}
	if i := a.view.Instance; i.Status.NodeRef != nil && i.Status.NodeIP == nodeIP { // proven before, and in service
		current = current.WithoutClaims()
	}
	if ip, err := netip.ParseAddr(nodeIP); err != nil || current.Refuse(ip) != "" {
		return &join.Unsupported{Reason: api.ReasonAddressNotProven, Message: fmt.Sprintf(
			"the host reports node address %s, which %s; select another of its addresses with spec.network", nodeIP, current.Refuse(ip))}
	}
	spec := a.view.Instance.Spec
	host, err := a.Dialer(ctx, remote.Target{
		Address: nodeIP, Port: int(spec.Port), User: spec.Username, Key: a.view.key, HostKey: a.host.HostKey(),
	}, remote.Options{})
	if err == nil {
		return host.Close()
	}
	if ctx.Err() != nil {
		return err
	}
	return &join.Unsupported{Reason: api.ReasonAddressNotProven, Message: fmt.Sprintf(
		"the host was reached at %s but reports node address %s, where connecting with its SSH host key failed (%v); "+
			"make its SSH server reachable at that address for the operator, or select another address with spec.network", a.host.address(), nodeIP, err)}
}

// nameTakenBy returns the other object that has the name: an instance, even one that is being deleted, a Machine, or a Node of another host.
func (a *attempt) nameTakenBy(ctx context.Context, name string, facts wicdapi.Facts) (string, error) {
	self := client.ObjectKeyFromObject(a.view.Instance)
	var others v1alpha1.WindowsInstanceList
	if err := a.Client.List(ctx, &others, client.MatchingFields{HostnameIndex: name}); err != nil {
		return "", fmt.Errorf("listing WindowsInstances: %w", err)
	}
	for _, o := range others.Items {
		if key := client.ObjectKeyFromObject(&o); key != self {
			return "WindowsInstance " + key.String(), nil
		}
	}
	if holder := a.Hosts.NamedBy(ctx, name, a.view.Instance.Annotations[api.AnnotationMachine]); holder != "" {
		return holder, nil
	}
	if holder, ok := a.Names.Claim(name, self); !ok {
		return "WindowsInstance " + holder.String(), nil
	}
	var node corev1.Node
	err := a.Live.Get(ctx, types.NamespacedName{Name: name}, &node)
	if apierrors.IsNotFound(err) {
		a.unregistered = true
		return a.Hosts.NamedByAny(ctx, name, a.view.Instance.Annotations[api.AnnotationMachine]), nil
	}
	if err != nil {
		return "", fmt.Errorf("reading Node %s: %w", name, err)
	}
	if a.isOwnNode(&node, join.NodeIP(facts, a.view.Instance.Spec.Network)) {
		a.registered = &node
		return "", nil
	}
	return "Node " + name + nodestate.Describe(&node), nil
}

// isOwnNode reports whether an existing Node belongs to the connected host: it is the recorded Node, or it has the host's key or its address, which has
// been proven by then.
func (a *attempt) isOwnNode(node *corev1.Node, nodeIP string) bool {
	candidate := &v1alpha1.WindowsInstance{}
	a.status.want().DeepCopyInto(&candidate.Status)
	candidate.Status.Hostname, candidate.Status.NodeIP, candidate.Status.HostKey = node.Name, nodeIP, remote.FormatHostKey(a.host.HostKey())
	return a.claimOf(candidate, node) == nodestate.Own
}

// deleteFormerNode deletes the Node that the host had under its former name. It would stay NotReady forever and count as out of service.
func (a *attempt) deleteFormerNode(ctx context.Context, former, nodeIP string) error {
	if former == "" || !a.status.want().HostnameFixed {
		return nil
	}
	var node corev1.Node
	err := a.Live.Get(ctx, types.NamespacedName{Name: former}, &node)
	if apierrors.IsNotFound(err) || err == nil && !a.isOwnNode(&node, nodeIP) {
		return nil
	}
	if err == nil {
		err = client.IgnoreNotFound(a.Client.Delete(ctx, &node, client.Preconditions{UID: &node.UID}))
	}
	if err != nil {
		return fmt.Errorf("deleting Node %s of the host's former name: %w", former, err)
	}
	return nil
}
