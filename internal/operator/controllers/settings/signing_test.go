package settings

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/controllertest"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

// testSigner returns a signer with the n-th key.
func testSigner(n byte) signer {
	return signer{private: controllertest.SigningKey(n), cluster: controllertest.ClusterID}
}

// expectNotAdopted fails if a ConfigMap that the operator did not sign has been signed.
func expectNotAdopted(t *testing.T, c *Controller, before *corev1.ConfigMap) {
	t.Helper()
	if _, err := testSigner(0).verify(before); err == nil {
		return
	}
	var got corev1.ConfigMap
	if err := c.Live.Get(t.Context(), client.ObjectKeyFromObject(before), &got); err != nil || !maps.Equal(got.Data, before.Data) {
		t.Errorf("foreign ConfigMap %s was rewritten (%v)", before.Name, err)
	}
}

// publishedNow returns what nodes of this operator's version can read.
func publishedNow(t *testing.T, c *Controller) *corev1.ConfigMap {
	t.Helper()
	var cm corev1.ConfigMap
	if err := c.Live.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: api.ServicesConfigMapPrefix + controllertest.Version(c.Renderer.Releases)}, &cm); err != nil {
		t.Fatal(err)
	}
	return &cm
}

func mustReconcile(t *testing.T, c *Controller) {
	t.Helper()
	if _, err := c.Reconcile(t.Context(), reconcile.Request{}); err != nil {
		t.Fatal(err)
	}
}

// putBack replaces the published ConfigMap with another.
func putBack(t *testing.T, c *Controller, cm *corev1.ConfigMap) {
	t.Helper()
	cm.ResourceVersion, cm.UID = "", ""
	if err := errors.Join(c.Client.Delete(t.Context(), publishedNow(t, c)), c.Client.Create(t.Context(), cm)); err != nil {
		t.Fatal(err)
	}
}

// TestUnsignedSettingsAreReplaced: otherwise, permission to write ConfigMaps would suffice to control all nodes.
func TestUnsignedSettingsAreReplaced(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, cm *corev1.ConfigMap){
		"unsigned":                func(_ *testing.T, cm *corev1.ConfigMap) { cm.Data = desired.Unsigned(cm.Data) },
		"signed with another key": func(t *testing.T, cm *corev1.ConfigMap) { cm.Data = controllertest.SignedBy(t, 1, cm.Name, cm.Data) },
		"signed for another name": func(t *testing.T, cm *corev1.ConfigMap) {
			cm.Data = controllertest.SignedBy(t, 0, "windows-services-0", cm.Data)
		},
		"additional key":         func(_ *testing.T, cm *corev1.ConfigMap) { cm.Data["more"] = "x" },
		"additional binary data": func(_ *testing.T, cm *corev1.ConfigMap) { cm.BinaryData = map[string][]byte{"x": {1}} },
		"mutable":                func(_ *testing.T, cm *corev1.ConfigMap) { cm.Immutable = nil },
		"restored older version": func(t *testing.T, cm *corev1.ConfigMap) { cm.Data = olderBy(t, cm, testSigner(0), time.Hour) },
		"signed for another cluster": func(t *testing.T, cm *corev1.ConfigMap) {
			cm.Data = olderBy(t, cm, signer{testSigner(0).private, "other"}, -time.Hour)
		},
		"without annotations": func(_ *testing.T, cm *corev1.ConfigMap) { cm.Annotations = nil },
		"changed services":    func(_ *testing.T, cm *corev1.ConfigMap) { cm.Data["services"] = "[]" },
		"missing":             func(_ *testing.T, cm *corev1.ConfigMap) { cm.Name = "gone" },
		"malformed signature": func(_ *testing.T, cm *corev1.ConfigMap) { cm.Data["signature"] = "{" },
		"signature from another key": func(t *testing.T, cm *corev1.ConfigMap) {
			cm.Data["signature"] = controllertest.SignedBy(t, 1, cm.Name, cm.Data)["signature"]
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := newTestSettings(t, controllertest.SigningSecret(t, 0))
			mustReconcile(t, c)
			first := publishedNow(t, c)
			serial, err := testSigner(0).verify(first)
			if err != nil {
				t.Fatal(err)
			}
			mustReconcile(t, c)
			if again := publishedNow(t, c); again.Data["signature"] != first.Data["signature"] {
				t.Fatal("unchanged settings were signed again")
			}
			altered := first.DeepCopy()
			change(t, altered)
			putBack(t, c, altered)
			mustReconcile(t, c)
			got := publishedNow(t, c)
			if !maps.Equal(desired.Unsigned(got.Data), desired.Unsigned(first.Data)) || got.Immutable == nil || len(got.BinaryData) > 0 {
				t.Errorf("published is %v", got.Data)
			}
			if now, err := testSigner(0).verify(got); err != nil || now <= serial {
				t.Errorf("got serial %d after %d: %v", now, serial, err)
			}
		})
	}
}

// olderBy returns the data of a ConfigMap as signed that long ago.
func olderBy(t *testing.T, cm *corev1.ConfigMap, s signer, by time.Duration) map[string]string {
	t.Helper()
	data, err := desired.Sign(cm.Data, desired.Statement{Cluster: s.cluster, Name: cm.Name, Serial: time.Now().Add(-by).UnixMilli()}, s.private)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestSerialGrowsDespiteClockChanges(t *testing.T) {
	s := testSigner(0)
	data := map[string]string{"node": "{}"}
	ahead := time.Now().Add(24 * time.Hour).UnixMilli()
	if _, serial, err := s.sign(data, "n", ahead); err != nil || serial != ahead+1 {
		t.Errorf("got serial %[2]d after %[1]d (%[3]v)", ahead, serial, err)
	}
	synctest.Test(t, func(t *testing.T) {
		_, first, _ := s.sign(data, "n", 0)
		time.Sleep(time.Second)
		if _, serial, err := s.sign(data, "n", 0); err != nil || serial <= first {
			t.Errorf("got serial %[2]d although the last one was %[1]d (%[3]v)", first, serial, err)
		}
	})
}

func TestSigningKeyIsStableAndSecret(t *testing.T) {
	c, recorder := newTestSettings(t)
	mustReconcile(t, c)
	name := client.ObjectKey{Namespace: "ns", Name: api.SigningKeySecret}
	var first, again corev1.Secret
	if err := c.Live.Get(t.Context(), name, &first); err != nil {
		t.Fatal(err)
	}
	if first.Type != corev1.SecretTypeOpaque || first.Immutable == nil || !*first.Immutable || len(first.Data) != 1 {
		t.Errorf("the Secret is of type %s, immutable %v, with %d keys", first.Type, first.Immutable, len(first.Data))
	}
	mustReconcile(t, c)
	if err := c.Live.Get(t.Context(), name, &again); err != nil || again.ResourceVersion != first.ResourceVersion {
		t.Errorf("the Secret was written again (%v)", err)
	}
	private, err := c.Store.SigningKey(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want, err := c.Store.Read(t.Context(), controllertest.Version(c.Renderer.Releases), controllertest.ClusterID)
	if err != nil || want.Node.SigningKey != desired.PublicKey(private) || want.Serial == 0 {
		t.Errorf("nodes get key %q, want %q, with serial %d (%v)", want.Node.SigningKey, desired.PublicKey(private), want.Serial, err)
	}
	for _, e := range recorder.Events {
		if strings.Contains(e, "PRIVATE") || strings.Contains(e, string(first.Data[api.SigningKeyKey])) {
			t.Errorf("an event contains the key: %s", e)
		}
	}
}

// TestInvalidSigningKeyStopsPublishing: the key is not overwritten, which would cut off all nodes, and nothing is published unsigned.
func TestInvalidSigningKeyStopsPublishing(t *testing.T) {
	for name, text := range map[string]string{
		"nothing": "", "no key": "cGFzc3dvcmQ=", "another kind": "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
		"two": string(controllertest.SigningSecret(t, 0).Data[api.SigningKeyKey]) + string(controllertest.SigningSecret(t, 1).Data[api.SigningKeyKey]),
	} {
		secret := controllertest.SigningSecret(t, 0)
		secret.Data[api.SigningKeyKey] = []byte(text)
		c, _ := newTestSettings(t, secret)
		_, err := c.Reconcile(t.Context(), reconcile.Request{})
		if err == nil || !strings.Contains(err.Error(), "delete the Secret") || text != "" && strings.Contains(err.Error(), text) {
			t.Errorf("%s: the error is %v", name, err)
		}
		var config v1alpha1.WindowsConfig
		if err := c.Live.Get(t.Context(), types.NamespacedName{Name: api.WindowsConfigName}, &config); err != nil || !meta.IsStatusConditionFalse(config.Status.Conditions, api.ConditionPublished) {
			t.Errorf("%s: conditions %+v (%v)", name, config.Status.Conditions, err)
		}
		key := client.ObjectKey{Namespace: "ns", Name: api.ServicesConfigMapPrefix + controllertest.Version(c.Renderer.Releases)}
		if err := c.Live.Get(t.Context(), key, &corev1.ConfigMap{}); !apierrors.IsNotFound(err) {
			t.Errorf("%s: something was published (%v)", name, err)
		}
	}
}

// TestForgedSettingsAreNotSentToHosts: a join may read a forged ConfigMap before the operator has replaced it.
func TestForgedSettingsAreNotSentToHosts(t *testing.T) {
	c, _ := newTestSettings(t, controllertest.SigningSecret(t, 0))
	mustReconcile(t, c)
	forged := publishedNow(t, c)
	forged.Data = controllertest.SignedBy(t, 1, forged.Name, forged.Data)
	putBack(t, c, forged)
	if want, err := c.Store.Read(t.Context(), controllertest.Version(c.Renderer.Releases), controllertest.ClusterID); !errors.Is(err, errNotPublished) || want.Node.Version != "" {
		t.Errorf("a host would get %+v (%v)", want.Node, err)
	}
	mustReconcile(t, c)
	if _, err := c.Store.Read(t.Context(), controllertest.Version(c.Renderer.Releases), "another"); !errors.Is(err, errNotPublished) {
		t.Errorf("for another cluster, the error is %v", err)
	}
}

// TestSecretsAreBoundToSignedSettings: they cannot be swapped, and a password cannot be guessed from what every user may read.
func TestSecretsAreBoundToSignedSettings(t *testing.T) {
	c, _ := newTestSettings(t, controllertest.SigningSecret(t, 0))
	config := &v1alpha1.WindowsConfig{}
	setProxy := func(url string) {
		t.Helper()
		if err := c.Live.Get(t.Context(), types.NamespacedName{Name: api.WindowsConfigName}, config); err != nil {
			t.Fatal(err)
		}
		config.Spec.Proxy.HTTPProxy = url
		if err := c.Client.Update(t.Context(), config); err != nil {
			t.Fatal(err)
		}
		mustReconcile(t, c)
	}
	read := func() (version, salt string) {
		t.Helper()
		want, err := c.Store.Read(t.Context(), controllertest.Version(c.Renderer.Releases), controllertest.ClusterID)
		if err != nil || want.Secrets.Environment["HTTP_PROXY"] != config.Spec.Proxy.HTTPProxy {
			t.Fatalf("the secrets are %+v (%v)", want.Secrets, err)
		}
		return want.Node.SecretsVersion, want.Secrets.Salt
	}
	setProxy("http://me:one@proxy:3128")
	version, salt := read()
	mustReconcile(t, c)
	if v, s := read(); v != version || s != salt || len(salt) < 20 {
		t.Errorf("without a change, version %s with salt %q becomes %s with %q", version, salt, v, s)
	}
	var secret corev1.Secret
	if err := c.Live.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: api.NodeSecrets}, &secret); err != nil {
		t.Fatal(err)
	}
	swapped := secret.DeepCopy()
	swapped.Data[api.NodeSecretsKey] = []byte(strings.ReplaceAll(string(secret.Data[api.NodeSecretsKey]), "one@proxy", "one@other"))
	if err := c.Client.Update(t.Context(), swapped); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Store.Read(t.Context(), controllertest.Version(c.Renderer.Releases), controllertest.ClusterID); !errors.Is(err, errNotPublished) {
		t.Errorf("swapped secrets give %v", err)
	}
	setProxy("http://me:two@proxy:3128")
	if v, s := read(); v == version || s == salt {
		t.Errorf("after a change, the version is %s and the salt %q", v, s)
	}
}
