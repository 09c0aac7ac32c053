package settings

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

// publish makes the settings readable for nodes, with the same few writes for any number of nodes. Secrets are written first, because the ConfigMap
// refers to their version. It does not write unchanged objects, and writes nothing if the settings are too large or the API server rejects them.
func (c *Controller) publish(ctx context.Context, r desired.Rendered, s signer) (hash string, err error) {
	if err := r.CheckSize(); err != nil {
		return "", err
	}
	node := r.Node
	version, writeSecrets, err := c.prepareSecrets(ctx, r.Secrets)
	if err != nil {
		return "", err
	}
	node.SecretsVersion = version
	if hash, err = node.Hash(); err != nil {
		return "", err
	}
	if err := c.publishNode(ctx, node, hash, s, writeSecrets); err != nil {
		return "", err
	}
	return hash, c.grantRead(ctx, node.Version)
}

// prepareSecrets returns the version of the content for Secret windows-node-secrets, "" without secrets, and a function that writes it.
func (c *Controller) prepareSecrets(ctx context.Context, s desired.Secrets) (version string, write func(context.Context) error, err error) {
	existing := corev1.Secret{}
	err = c.Live.Get(ctx, types.NamespacedName{Namespace: c.Namespace, Name: api.NodeSecrets}, &existing)
	if client.IgnoreNotFound(err) != nil {
		return "", nil, fmt.Errorf("reading Secret %s: %w", api.NodeSecrets, err)
	}
	absent := err != nil
	content, err := withSalt(s, existing.Data[api.NodeSecretsKey])
	if err != nil {
		return "", nil, err
	}
	want := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: api.NodeSecrets, ResourceVersion: existing.ResourceVersion},
		Data:       map[string][]byte{api.NodeSecretsKey: content},
	}
	empty := len(s.Files) == 0 && len(s.Environment) == 0
	if !empty {
		version = desired.SecretsVersion(content)
	}
	return version, func(ctx context.Context) (err error) {
		switch {
		case empty && absent:
		case empty:
			err = client.IgnoreNotFound(c.Client.Delete(ctx, want))
		case absent:
			err = c.Client.Create(ctx, want)
		case equality.Semantic.DeepEqual(existing.Data, want.Data):
		default:
			err = c.Client.Update(ctx, want)
		}
		if err != nil {
			return fmt.Errorf("writing Secret %s: %w", api.NodeSecrets, err)
		}
		return nil
	}, nil
}

// withSalt returns the content for the Secret: the existing content if it is equivalent, or else the secrets with a new salt.
func withSalt(s desired.Secrets, existing []byte) ([]byte, error) {
	if current, err := desired.ReadSecrets(existing); err == nil && current.Salt != "" {
		s.Salt = current.Salt
		if same, err := s.Content(); err != nil || bytes.Equal(same, existing) {
			return same, err
		}
	}
	s.Salt = rand.Text()
	return s.Content()
}

// publishNode writes ConfigMap windows-services-<version> with the operator's signature. The ConfigMap is immutable, so that no edit changes nodes, and
// is replaced if it differs. A dry run checks the replacement before the secrets are written.
func (c *Controller) publishNode(ctx context.Context, node desired.Node, hash string, s signer, writeSecrets func(context.Context) error) error {
	data, err := node.Data()
	if err != nil {
		return err
	}
	want := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: c.Namespace, Name: api.ServicesConfigMapPrefix + node.Version,
			Annotations: map[string]string{api.AnnotationSettings: hash},
		},
		Immutable: new(true),
	}
	existing := &corev1.ConfigMap{}
	err = c.Live.Get(ctx, client.ObjectKeyFromObject(want), existing)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading ConfigMap %s: %w", want.Name, err)
	}
	absent := err != nil
	serial, foreign := s.verify(existing)
	isOurs := foreign == nil && c.isCurrentSerial(want.Name, serial)
	unchanged := isOurs && existing.Immutable != nil && *existing.Immutable &&
		maps.Equal(desired.Unsigned(existing.Data), data) && len(existing.BinaryData) == 0 && existing.Annotations[api.AnnotationSettings] == hash
	if !absent && unchanged {
		return writeSecrets(ctx)
	}
	if want.Data, serial, err = s.sign(data, want.Name, c.serials[want.Name]); err != nil {
		return err
	}
	if !absent {
		err = c.dryRun(ctx, want)
	}
	if err == nil {
		err = writeSecrets(ctx)
	}
	switch {
	case err != nil:
	case absent:
		err = c.Client.Create(ctx, want)
	default:
		err = c.replace(ctx, existing, want, isOurs)
	}
	if err != nil {
		return fmt.Errorf("writing ConfigMap %s: %w", want.Name, err)
	}
	c.serials[want.Name] = serial
	c.recordPublished(want, node.Version, hash)
	return nil
}

func (c *Controller) recordPublished(cm *corev1.ConfigMap, version, hash string) {
	e := kube.Event{Object: cm, Type: corev1.EventTypeNormal, Reason: api.EventSettingsPublished, Action: "Publish-" + hash}
	if c.published == hash {
		e = kube.Event{Object: cm, Type: corev1.EventTypeWarning, Reason: api.EventSettingsRestored, Action: "Restore-" + string(cm.UID)}
	}
	c.Events.Emit(e, "nodes of version %s can read settings %s", version, hash)
	c.published = hash
}

// isCurrentSerial reports whether a serial is the last one signed for a ConfigMap, as far as this process knows. A lower serial means that an older
// ConfigMap was restored.
func (c *Controller) isCurrentSerial(name string, serial int64) bool {
	if serial < c.serials[name] {
		return false
	}
	c.serials[name] = serial
	return true
}

// grantRead permits WICD to read the ConfigMaps that nodes follow, and the Secret, each by name.
func (c *Controller) grantRead(ctx context.Context, version string) error {
	versions, err := c.versionsOfNodes(ctx)
	if err != nil {
		return err
	}
	versions[version] = true
	var names []string
	for v := range versions {
		names = append(names, api.ServicesConfigMapPrefix+v)
	}
	slices.Sort(names)
	want := &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: api.WICDRole},
		Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: names, Verbs: []string{"get", "watch"}},
			{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{api.NodeSecrets}, Verbs: []string{"get"}},
		},
	}
	var existing rbacv1.Role
	err = c.Live.Get(ctx, client.ObjectKeyFromObject(want), &existing)
	switch {
	case apierrors.IsNotFound(err):
		err = c.Client.Create(ctx, want)
	case err == nil && !equality.Semantic.DeepEqual(existing.Rules, want.Rules):
		want.ResourceVersion = existing.ResourceVersion
		err = c.Client.Update(ctx, want)
	}
	if err != nil {
		return fmt.Errorf("writing Role %s: %w", api.WICDRole, err)
	}
	return c.deleteUnused(ctx, names)
}

// versionsOfNodes returns the versions that nodes have, should have, or may have to roll back to.
func (c *Controller) versionsOfNodes(ctx context.Context) (map[string]bool, error) {
	nodes, err := kube.WindowsNodes(ctx, c.Client)
	if err != nil {
		return nil, err
	}
	versions := map[string]bool{}
	for i := range nodes {
		for _, key := range []string{api.AnnotationVersion, api.AnnotationDesiredVersion} {
			if v := nodes[i].Annotations[key]; IsVersion(v) {
				versions[v] = true
			}
		}
	}
	var instances v1alpha1.WindowsInstanceList
	if err := c.Client.List(ctx, &instances, client.InNamespace(c.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing WindowsInstances: %w", err)
	}
	for i := range instances.Items {
		if m := instances.Items[i].Status.Maintenance; m != nil && IsVersion(m.PreviousVersion) {
			versions[m.PreviousVersion] = true // the node may have to roll back
		}
	}
	return versions, nil
}

// IsVersion reports whether an annotation can name a ConfigMap: permission to write one on a Node must not suffice to add other names to a Role.
func IsVersion(s string) bool {
	return s != "" && len(s) < 100 && strings.Trim(s, "0123456789abcdefghijklmnopqrstuvwxyz.-") == ""
}

// deleteUnused deletes ConfigMaps that no node follows any longer.
func (c *Controller) deleteUnused(ctx context.Context, keep []string) error {
	var list corev1.ConfigMapList
	if err := c.Client.List(ctx, &list, client.InNamespace(c.Namespace)); err != nil {
		return fmt.Errorf("listing ConfigMaps: %w", err)
	}
	for i := range list.Items {
		cm := &list.Items[i]
		_, isPublished := cm.Annotations[api.AnnotationSettings]
		if !isPublished || !strings.HasPrefix(cm.Name, api.ServicesConfigMapPrefix) || slices.Contains(keep, cm.Name) {
			continue
		}
		if err := client.IgnoreNotFound(c.Client.Delete(ctx, cm)); err != nil {
			return fmt.Errorf("deleting ConfigMap %s: %w", cm.Name, err)
		}
	}
	return nil
}
