package controllers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/desired"
	"github.com/windows-machine-config/wmco/internal/join"
)

// A new SSH key comes to hosts as other settings do: it is published, and WICD authorizes it. Then the operator logs in with it, and
// says so in the Node's annotation pub-key-hash; on that, WICD drops the keys that were used before. Old and new key both work
// until then.

// addKeys puts into what is published the key that hosts let in, and those that were published before and are used no more.
// Without a usable key nothing changes. Nodes of other versions get the key, too: what else is published for them stays. Only what we
// signed counts: what somebody else wrote is neither signed by us nor says which keys hosts are to drop.
func (c *settings) addKeys(ctx context.Context, node *desired.Node, s signer) error {
	var list corev1.ConfigMapList
	if err := c.live.List(ctx, &list, client.InNamespace(c.Namespace)); err != nil {
		return fmt.Errorf("listing ConfigMaps: %w", err)
	}
	current, err := c.publicKeys(ctx)
	if err != nil {
		return err
	}
	var own []string
	var others []desired.Node
	var known []string
	for i := range list.Items {
		was, ok := c.publishedIn(&list.Items[i], s)
		switch {
		case !ok:
			continue // one that is not ours, or not the last of ours, or that an operator wrote that knows more, stays as it is
		case was.Version == node.Version:
			own = was.AuthorizedKeys
		default:
			others = append(others, was)
		}
		known = append(append(known, was.AuthorizedKeys...), was.RetiredKeys...)
	}
	usable := len(current) > 0
	if !usable {
		current = own
	}
	slices.Sort(known)
	retired := slices.DeleteFunc(slices.Compact(known), func(key string) bool { return slices.Contains(current, key) })
	node.AuthorizedKeys, node.RetiredKeys = current, retired
	if !usable {
		return nil
	}
	for _, other := range others {
		if err := c.publishKeys(ctx, other, current, retired, s); err != nil {
			return err
		}
	}
	return nil
}

// publishedIn is what a ConfigMap that we signed makes readable for nodes, if it is all that is in it.
func (c *settings) publishedIn(cm *corev1.ConfigMap, s signer) (desired.Node, bool) {
	version, isOne := strings.CutPrefix(cm.Name, api.ServicesConfigMapPrefix)
	if !isOne {
		return desired.Node{}, false
	}
	if serial, err := s.verify(cm); err != nil || !c.isLast(cm.Name, serial) {
		return desired.Node{}, false
	}
	node, err := desired.FromData(cm.Data)
	if err != nil || node.Version != version {
		return node, false
	}
	again, err := node.Data()
	return node, err == nil && maps.Equal(again, desired.Unsigned(cm.Data))
}

// publishKeys gives nodes of another version the key.
func (c *settings) publishKeys(ctx context.Context, node desired.Node, current, retired []string, s signer) error {
	if slices.Equal(node.AuthorizedKeys, current) {
		return nil
	}
	node.AuthorizedKeys, node.RetiredKeys = current, retired
	hash, err := node.Hash()
	if err != nil {
		return err
	}
	return c.publishNode(ctx, node, hash, s)
}

// proveKey logs in to a node that was last logged in to with another key. It returns when to try again; zero when the key
// is proven, or was before.
func (c *instances) proveKey(ctx context.Context, v *view, st *status) time.Duration {
	if v.Node == nil || v.key == nil {
		return 0
	}
	proven := v.Node.Annotations[api.AnnotationPubKeyHash]
	if proven == "" || proven == publicKeyHash(v.key) {
		return 0
	}
	id := client.ObjectKeyFromObject(v.Instance)
	if left := c.retries.left(id); left > 0 {
		return left
	}
	host, err := c.dial(ctx, v.Instance, v.key, v.config.Trust)
	if err == nil {
		_ = host.Close() // it has let us in, which is all
		c.retries.reset(id)
		v.keyProven = true
		join.Reached(st.now(), v.Instance.Generation, nil)
		return 0
	}
	var u *join.Unreachable
	if errors.As(err, &u) && u.Reason == api.ReasonAuthenticationFailed {
		join.Reached(st.now(), v.Instance.Generation, &join.Unreachable{Reason: u.Reason, Err: fmt.Errorf(
			"the host does not let in the key of Secret %s yet; WICD authorizes it when it can reach the cluster, or add this line to "+
				`C:\ProgramData\ssh\administrators_authorized_keys on the host: %s`,
			api.PrivateKeySecret, authorizedLine(v.key))})
	}
	return c.retries.fail(id, time.Now())
}

// authorizedLine is what a host's authorized_keys must have for a key.
func authorizedLine(key ssh.Signer) string {
	return strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key.PublicKey())))
}

// replace deletes the Machine of a host, for its MachineSet to make another. The instance goes with it. One that has the Machine's name
// since, or is none of ours any more, stays.
func (m *maintenance) replace(ctx context.Context) error {
	machine, err := machineOf(m.view.Instance)
	if err != nil {
		return err
	}
	id := m.view.Instance.Annotations[api.AnnotationMachine]
	err = m.live.Get(ctx, client.ObjectKeyFromObject(machine), machine)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading Machine %s: %w", id, err)
	}
	isIt := machine.GetLabels()[api.LabelMachineOS] == "Windows" && !machine.GetCreationTimestamp().After(m.now().StartedAt.Time)
	if err != nil || !isIt || machine.GetDeletionTimestamp() != nil {
		return nil
	}
	uid := machine.GetUID()
	if err := client.IgnoreNotFound(m.client.Delete(ctx, machine, client.Preconditions{UID: &uid})); err != nil {
		return fmt.Errorf("deleting Machine %s: %w", id, err)
	}
	return nil
}

// machineOf is the Machine of OpenShift's Machine API that an instance was made from. Those of Cluster API are not deleted by us.
func machineOf(i *v1alpha1.WindowsInstance) (*unstructured.Unstructured, error) {
	namespace, name, ok := strings.Cut(i.Annotations[api.AnnotationMachine], "/")
	if !ok || i.Labels[api.LabelSource] != api.SourceMachine {
		return nil, fmt.Errorf("WindowsInstance %s was not made from a Machine of the Machine API", i.Name)
	}
	machine := &unstructured.Unstructured{}
	machine.SetGroupVersionKind(schema.GroupVersionKind{Group: "machine.openshift.io", Version: "v1beta1", Kind: "Machine"})
	machine.SetNamespace(namespace)
	machine.SetName(name)
	return machine, nil
}
