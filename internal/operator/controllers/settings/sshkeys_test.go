package settings

import (
	"slices"
	"testing"

	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/controllertest"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/sshkey"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

// keySecret returns the Secret with the operator's SSH key.
func keySecret(t *testing.T, data []byte) *corev1.Secret {
	t.Helper()
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: api.PrivateKeySecret}, Data: map[string][]byte{api.PrivateKeyKey: data},
	}
}

func TestPreviouslyPublishedKeysRetire(t *testing.T) {
	line := func(n byte) string {
		key, err := ssh.ParsePrivateKey(controllertest.SSHKey(t, n))
		if err != nil {
			t.Fatal(err)
		}
		return sshkey.AuthorizedLine(key)
	}
	withKeys := func(version string, authorized, retired []string) *corev1.ConfigMap {
		return controllertest.PublishedFor(t, version, func(n *desired.Node) { n.AuthorizedKeys, n.RetiredKeys = authorized, retired })
	}
	list := func(lines ...string) []string { return lines }
	unsigned := func(cm *corev1.ConfigMap) *corev1.ConfigMap { cm.Data = desired.Unsigned(cm.Data); return cm }
	foreign := func(cm *corev1.ConfigMap, n byte) *corev1.ConfigMap {
		cm.Data = controllertest.SignedBy(t, n, cm.Name, cm.Data)
		return cm
	}
	renamed := func(cm *corev1.ConfigMap) *corev1.ConfigMap { cm.Name += "-of-before"; return cm }
	for name, test := range map[string]struct {
		secret              *corev1.Secret
		published           []*corev1.ConfigMap
		authorized, retired []string
	}{
		"first key":                                {keySecret(t, controllertest.SSHKey(t, 1)), nil, list(line(1)), nil},
		"same key":                                 {keySecret(t, controllertest.SSHKey(t, 1)), []*corev1.ConfigMap{withKeys("2", list(line(1)), nil)}, list(line(1)), nil},
		"another key":                              {keySecret(t, controllertest.SSHKey(t, 2)), []*corev1.ConfigMap{withKeys("2", list(line(1)), nil)}, list(line(2)), list(line(1))},
		"another key with a new version":           {keySecret(t, controllertest.SSHKey(t, 2)), []*corev1.ConfigMap{withKeys("1", list(line(1)), nil)}, list(line(2)), list(line(1))},
		"host that missed two versions":            {keySecret(t, controllertest.SSHKey(t, 3)), []*corev1.ConfigMap{withKeys("1", list(line(1)), nil), withKeys("2", list(line(2)), list(line(1)))}, list(line(3)), list(line(1), line(2))},
		"back to the previous key":                 {keySecret(t, controllertest.SSHKey(t, 1)), []*corev1.ConfigMap{withKeys("2", list(line(2)), list(line(1)))}, list(line(1)), list(line(2))},
		"no key":                                   {nil, []*corev1.ConfigMap{withKeys("2", list(line(2)), list(line(1)))}, list(line(2)), list(line(1))},
		"no key, and two versions":                 {nil, []*corev1.ConfigMap{withKeys("2", list(line(2)), nil), withKeys("3", list(line(3)), nil)}, list(line(2)), list(line(3))},
		"keys signed with another key":             {keySecret(t, controllertest.SSHKey(t, 1)), []*corev1.ConfigMap{foreign(withKeys("1", list(line(2)), list(line(3))), 1), withKeys("2", list(line(1)), nil)}, list(line(1)), nil},
		"keys signed with another key, no SSH key": {nil, []*corev1.ConfigMap{foreign(withKeys("2", list(line(2)), list(line(3))), 1)}, nil, nil},
		"unsigned keys":                            {keySecret(t, controllertest.SSHKey(t, 1)), []*corev1.ConfigMap{unsigned(withKeys("1", list(line(2)), list(line(3))))}, list(line(1)), nil},
		"keys under another name":                  {keySecret(t, controllertest.SSHKey(t, 1)), []*corev1.ConfigMap{renamed(withKeys("1", list(line(2)), list(line(3))))}, list(line(1)), nil},
		"invalid key":                              {keySecret(t, []byte("secret")), []*corev1.ConfigMap{withKeys("2", list(line(2)), list(line(1)))}, list(line(2)), list(line(1))},
	} {
		t.Run(name, func(t *testing.T) {
			c, _ := newTestSettings(t)
			if test.secret != nil {
				if err := c.Client.Create(t.Context(), test.secret.DeepCopy()); err != nil {
					t.Fatal(err)
				}
			}
			for _, cm := range test.published {
				if err := c.Client.Create(t.Context(), cm.DeepCopy()); err != nil {
					t.Fatal(err)
				}
			}
			node := desired.Node{Version: "2"}
			if err := c.addKeys(t.Context(), &node, testSigner(0)); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(node.AuthorizedKeys, test.authorized) || !slices.Equal(node.RetiredKeys, slices.Sorted(slices.Values(test.retired))) {
				t.Errorf("hosts let in %q and drop %q, want %q and %q", node.AuthorizedKeys, node.RetiredKeys, test.authorized, test.retired)
			}
			for _, cm := range test.published {
				expectNotAdopted(t, c, cm)
			}
		})
	}
}
