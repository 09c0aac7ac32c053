package settings

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/operator/kube"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

// Settings are signed, and nodes ignore unsigned ones: permission to write ConfigMaps must not give control over Windows hosts. A host gets the public
// key when it joins. If the key is lost or replaced, the operator creates another; nodes reject settings signed with it and are joined again, like all
// nodes that do not apply the settings (join.Next).

type signer struct {
	private ed25519.PrivateKey
	// cluster is the UID of the cluster's namespace kube-system.
	cluster string
}

// signer returns the signer of a cluster. It creates a missing key. Only the worker that publishes calls it.
func (c *Controller) signer(ctx context.Context, cluster string) (signer, error) {
	private, err := c.Store.SigningKey(ctx)
	if apierrors.IsNotFound(err) {
		private, err = c.createSigningKey(ctx)
	}
	return signer{private: private, cluster: cluster}, err
}

// parseSigningKey parses a key that createSigningKey wrote. The error does not reveal its content.
func parseSigningKey(text []byte) (ed25519.PrivateKey, error) {
	block, rest := pem.Decode(text)
	if block == nil || block.Type != "PRIVATE KEY" || len(rest) > 0 {
		return nil, errors.New("is not a single PEM private key")
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	private, ok := key.(ed25519.PrivateKey)
	if err != nil || !ok {
		return nil, errors.New("is not an Ed25519 key (PKCS #8)")
	}
	return private, nil
}

func (c *Controller) createSigningKey(ctx context.Context) (ed25519.PrivateKey, error) {
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generating a key: %w", err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, fmt.Errorf("generating a key: %w", err)
	}
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: api.SigningKeySecret},
		Immutable:  new(true), Type: corev1.SecretTypeOpaque,
		Data: map[string][]byte{api.SigningKeyKey: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})},
	}
	if err := c.Client.Create(ctx, secret); err != nil {
		return nil, fmt.Errorf("writing Secret %s: %w", secret.Name, err)
	}
	public := desired.PublicKey(private)
	log.FromContext(ctx).Info("Signing key created", "secret", secret.Name, "publicKey", public)
	c.Events.Emit(kube.Event{Object: secret, Type: corev1.EventTypeNormal, Reason: api.EventSigningKeyMade, Action: "MakeKey-" + string(secret.UID)},
		"settings are signed with new key %s; nodes that know another key join again", public)
	return private, nil
}

// verify returns the serial of a ConfigMap that was signed with this key, for this cluster and under this name.
func (s signer) verify(cm *corev1.ConfigMap) (serial int64, err error) {
	current, err := SignedWith(s.private, cm)
	if err == nil && current.Cluster != s.cluster {
		err = fmt.Errorf("ConfigMap %s: signed for cluster %.64q, want %s", cm.Name, current.Cluster, s.cluster)
	}
	return current.Serial, err
}

// SignedWith returns the statement of a ConfigMap that was signed with a key, under its name.
func SignedWith(private ed25519.PrivateKey, cm *corev1.ConfigMap) (desired.Statement, error) {
	current, err := desired.Verify(cm.Data, desired.PublicKey(private))
	if err == nil && current.Name != cm.Name {
		err = fmt.Errorf("signed for ConfigMap %.128q", current.Name)
	}
	if err != nil {
		return desired.Statement{}, fmt.Errorf("ConfigMap %s: invalid signature: %w", cm.Name, err)
	}
	return current, nil
}

// serialAfter returns the next serial. It is the time in milliseconds, so that it grows even if everything signed was deleted, and greater than the
// last known one, so that it grows even if the clock went back.
func serialAfter(last int64) int64 { return max(time.Now().UnixMilli(), last+1) }

// sign signs data for a ConfigMap and returns the serial.
func (s signer) sign(data map[string]string, name string, last int64) (map[string]string, int64, error) {
	serial := serialAfter(last)
	signed, err := desired.Sign(data, desired.Statement{Cluster: s.cluster, Name: name, Serial: serial}, s.private)
	return signed, serial, err
}
