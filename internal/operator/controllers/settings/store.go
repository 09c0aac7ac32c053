package settings

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/operator/cluster"
	"github.com/windows-machine-config/wmco/internal/operator/join"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

// Store reads what the operator has published for nodes.
type Store struct {
	// client reads from the cache, live from the API server.
	client, live client.Reader
	namespace    string
}

// NewStore returns a Store. It reads from the cache where stale data suffices, and from the API server what is sent to hosts.
func NewStore(client, live client.Reader, namespace string) *Store {
	return &Store{client: client, live: live, namespace: namespace}
}

// Cached reads the published settings of a version. The object is shared with the cache, because it is large, and must not be changed.
func (c *Store) Cached(ctx context.Context, version string) (*corev1.ConfigMap, error) {
	cm := &corev1.ConfigMap{}
	name := types.NamespacedName{Namespace: c.namespace, Name: api.ServicesConfigMapPrefix + version}
	if err := c.client.Get(ctx, name, cm, &client.GetOptions{UnsafeDisableDeepCopy: new(true)}); err != nil {
		return nil, fmt.Errorf("reading ConfigMap %s: %w", name, err)
	}
	return cm, nil
}

// Declares reports whether the published settings of any version have a service of that name. It ignores ConfigMaps that cannot be read or are not
// signed.
func (c *Store) Declares(ctx context.Context, service string) (bool, error) {
	private, err := c.SigningKey(ctx)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	var list corev1.ConfigMapList
	if err := c.client.List(ctx, &list, client.InNamespace(c.namespace), client.UnsafeDisableDeepCopy); err != nil {
		return false, fmt.Errorf("listing ConfigMaps: %w", err)
	}
	for i := range list.Items {
		cm := &list.Items[i]
		if !strings.HasPrefix(cm.Name, api.ServicesConfigMapPrefix) || !desired.Declares(cm.Data, service) {
			continue
		}
		if _, err := SignedWith(private, cm); err == nil {
			return true, nil
		}
	}
	return false, nil
}

// errNotPublished means that the settings cannot be read: not yet, or because they are being replaced.
var errNotPublished = errors.New("the settings are not published yet")

// Read reads the signed settings of a cluster. Hosts get only signed settings.
func (c *Store) Read(ctx context.Context, version, clusterID string) (want join.Want, err error) {
	private, err := c.SigningKey(ctx)
	if apierrors.IsNotFound(err) {
		return join.Want{}, errNotPublished
	}
	if err != nil {
		return join.Want{}, err
	}
	var cm corev1.ConfigMap
	name := types.NamespacedName{Namespace: c.namespace, Name: api.ServicesConfigMapPrefix + version}
	err = c.live.Get(ctx, name, &cm)
	if apierrors.IsNotFound(err) {
		return join.Want{}, errNotPublished
	}
	if err != nil {
		return join.Want{}, fmt.Errorf("reading ConfigMap %s: %w", name, err)
	}
	if want.Serial, err = (signer{private: private, cluster: clusterID}).verify(&cm); err != nil {
		return join.Want{}, fmt.Errorf("%w: %w", errNotPublished, err) // it will be published again
	}
	if want.Node, err = desired.FromData(cm.Data); err != nil {
		return join.Want{}, fmt.Errorf("reading ConfigMap %s: %w", name, err)
	}
	want.Secrets, err = c.readSecrets(ctx, want.Node.SecretsVersion)
	return want, err
}

func (c *Store) readSecrets(ctx context.Context, version string) (desired.Secrets, error) {
	if version == "" {
		return desired.Secrets{}, nil
	}
	var secret corev1.Secret
	if err := c.live.Get(ctx, types.NamespacedName{Namespace: c.namespace, Name: api.NodeSecrets}, &secret); err != nil {
		return desired.Secrets{}, fmt.Errorf("reading Secret %s: %w", api.NodeSecrets, err)
	}
	secrets, err := desired.ReadSecrets(secret.Data[api.NodeSecretsKey])
	if err == nil && secrets.Version == version {
		return secrets, nil
	}
	return desired.Secrets{}, fmt.Errorf("%w: Secret %s does not match them", errNotPublished, api.NodeSecrets)
}

// SigningKey reads the signing key. The key is not cached, because it must no longer be used once its Secret is deleted.
func (c *Store) SigningKey(ctx context.Context) (ed25519.PrivateKey, error) {
	name := types.NamespacedName{Namespace: c.namespace, Name: api.SigningKeySecret}
	var secret corev1.Secret
	if err := c.live.Get(ctx, name, &secret); err != nil {
		return nil, fmt.Errorf("reading Secret %s: %w", name, err)
	}
	private, err := parseSigningKey(secret.Data[api.SigningKeyKey])
	if err != nil {
		return nil, fmt.Errorf("reading Secret %s: key %s %w; delete the Secret, and the operator creates another and joins all nodes again",
			name, api.SigningKeyKey, err)
	}
	return private, nil
}

// KnowsKey reports whether nodes of a version know the current signing key: their published settings are signed with it. It returns true if no settings
// are published for them.
func (c *Store) KnowsKey(ctx context.Context, version string) (bool, error) {
	cm, err := c.Cached(ctx, version)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	private, err := c.SigningKey(ctx)
	if err != nil {
		return false, err
	}
	_, err = SignedWith(private, cm)
	return err == nil, nil
}

// OrderVersion returns the order for a Node to go to a version, for annotation version-order. It reuses an existing order for that version, to avoid a
// write without a change.
func (c *Store) OrderVersion(ctx context.Context, node *corev1.Node, version string) (string, error) {
	private, err := c.SigningKey(ctx)
	if err != nil {
		return "", err
	}
	id, err := cluster.ID(ctx, c.live)
	if err != nil {
		return "", err
	}
	order := func(version string) desired.VersionOrder {
		return desired.VersionOrder{Cluster: id, Node: node.Name, UID: string(node.UID), Version: version}
	}
	previous := node.Annotations[api.AnnotationDesiredVersion]
	last, err := order(previous).Verify(node.Annotations[api.AnnotationVersionOrder], desired.PublicKey(private))
	if err == nil && previous == version {
		return node.Annotations[api.AnnotationVersionOrder], nil
	}
	return order(version).Sign(serialAfter(last), private), nil
}
