package instance

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/fleet"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/sshkey"
	"github.com/windows-machine-config/wmco/internal/operator/join"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
	"github.com/windows-machine-config/wmco/internal/operator/kubeversions"
	"github.com/windows-machine-config/wmco/internal/shared/nodestate"
)

// view is everything known about an instance before a decision.
type view struct {
	join.Observed
	// release is the current release for nodes.
	release kubeversions.Release
	key     ssh.Signer
	config  v1alpha1.WindowsConfigSpec
	// drained means that no pod that a join could disrupt is on the node.
	drained bool
	// keyProven means that the host has accepted the key.
	keyProven bool
	// admission is the join slot that was taken before the operator connected; slot is the same as long as the host holds it.
	admission, slot *kube.Slot
}

// gather reads everything that join.Next needs. It returns nil for an instance that is gone.
func (c *Controller) gather(ctx context.Context, r client.Reader, name types.NamespacedName) (*view, error) {
	v := &view{Observed: join.Observed{Instance: &v1alpha1.WindowsInstance{}, Now: time.Now()}}
	err := r.Get(ctx, name, v.Instance)
	if apierrors.IsNotFound(err) || err == nil && kube.HasLeft(v.Instance) {
		c.forget(name)
		c.Fleet.Done(name)
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading WindowsInstance %s: %w", name, err)
	}
	if v.config, err = kube.ReadConfig(ctx, c.Client); err != nil {
		return nil, err
	}
	if v.Node, v.Conflict, err = c.node(ctx, r, v.Instance); err != nil {
		return nil, err
	}
	if v.key, v.KeyFault, err = sshkey.PrivateKey(ctx, c.Client, c.Namespace); err != nil {
		return nil, err
	}
	if v.key != nil {
		hash, _ := c.proven.Load(name)
		v.keyProven = hash == sshkey.Hash(v.key)
	}
	v.release, v.VersionFault = c.Releases.Current()
	v.Version = v.release.Version
	if cm, err := c.Store.Cached(ctx, v.Version); err == nil {
		v.Settings, v.SettingsSince = cm.Annotations[api.AnnotationSettings], cm.CreationTimestamp.Time
	}
	v.PoliciesFault = c.Policies.Finding()
	v.AllPaused = v.config.Rollout.Paused
	v.SlotFree = c.Slots.Free(joins(v.config))
	v.NotBefore = c.notBefore(v.Instance)
	v.FleetSilent = c.Fleet.Unrepaired(name)
	_, v.Former = fleet.ContentOf(v.Instance, v.release.Content.Digest)
	next := c.Fleet.Next(name)
	v.MayJoin = next.Action == v1alpha1.ActionJoin && next.Begin
	return v, nil
}

// node returns the Node that belongs to the instance's host, or else another machine's Node of the host's name; nil if there is none.
func (c *Controller) node(ctx context.Context, r client.Reader, i *v1alpha1.WindowsInstance) (own, conflict *corev1.Node, err error) {
	if i.Status.Hostname == "" {
		return nil, nil, nil
	}
	var node corev1.Node
	err = r.Get(ctx, types.NamespacedName{Name: i.Status.Hostname}, &node)
	if apierrors.IsNotFound(err) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("reading Node %s: %w", i.Status.Hostname, err)
	}
	switch c.claimOf(i, &node) {
	case nodestate.Own:
		return &node, nil, nil
	case nodestate.Foreign:
		return nil, &node, nil
	}
	return nil, nil, nil // unproven: checked again when the Node has reported its address
}

// notBefore returns when a failed instance may be retried. A changed spec is tried at once.
func (c *Controller) notBefore(i *v1alpha1.WindowsInstance) time.Time {
	id := client.ObjectKeyFromObject(i)
	if i.Status.ObservedGeneration != i.Generation {
		c.retries.Reset(id)
	}
	return c.retries.Until(id)
}
