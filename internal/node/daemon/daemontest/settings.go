package daemontest

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/testing/sim/servers"
)

const (
	// PlainFile is a file for which no service must restart.
	PlainFile = `C:\k\kubelet-ca.crt`
	// CredentialFile is a file with secrets.
	CredentialFile = `C:\var\lib\kubelet\config.json`

	namespace     = "operators"
	namespacePath = "/api/v1/namespaces/" + namespace
)

// Publish publishes the settings for all nodes of the version.
func (m *Member) Publish(t *testing.T, node desired.Node) {
	t.Helper()
	m.PublishFor(t, m.Request.Desired.Version, node)
}

// PublishFor does the same for the nodes of another version.
func (m *Member) PublishFor(t *testing.T, version string, node desired.Node) {
	t.Helper()
	m.Serial++
	m.PublishAs(t, version, m.Sign(t, version, node, 1, m.Serial))
}

// Sign returns what PublishFor publishes, signed with the n-th key and a serial.
func (m *Member) Sign(t *testing.T, version string, node desired.Node, n byte, serial int64) map[string]string {
	t.Helper()
	data, err := node.Data()
	if err != nil {
		t.Fatal(err)
	}
	statement := desired.Statement{Cluster: m.Request.Cluster, Name: api.ServicesConfigMapPrefix + version, Serial: serial}
	if data, err = desired.Sign(data, statement, SigningKey(n)); err != nil {
		t.Fatal(err)
	}
	return data
}

// PublishAs writes the ConfigMap of a version, as an attacker might.
func (m *Member) PublishAs(t *testing.T, version string, data map[string]string) {
	t.Helper()
	name := api.ServicesConfigMapPrefix + version
	cm := corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: data}
	if err := m.Cluster.Put(namespacePath+"/configmaps/"+name, cm); err != nil {
		t.Fatal(err)
	}
}

// Unpublish deletes the settings for nodes of the version.
func (m *Member) Unpublish() {
	m.Cluster.Delete(namespacePath + "/configmaps/" + api.ServicesConfigMapPrefix + m.Request.Desired.Version)
}

// PublishSecrets publishes secrets and returns their version.
func (m *Member) PublishSecrets(t *testing.T, s desired.Secrets) string {
	t.Helper()
	content, err := s.Content()
	if err != nil {
		t.Fatal(err)
	}
	secret := corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: api.NodeSecrets}, Data: map[string][]byte{api.NodeSecretsKey: content},
	}
	if err := m.Cluster.Put(namespacePath+"/secrets/"+api.NodeSecrets, secret); err != nil {
		t.Fatal(err)
	}
	return desired.SecretsVersion(content)
}

// Follow publishes settings, and waits until the node reports them.
func (m *Member) Follow(t *testing.T, node desired.Node) {
	t.Helper()
	m.Publish(t, node)
	m.AwaitSettings(t, node)
}

// AwaitSettings waits until the node reports the published settings.
func (m *Member) AwaitSettings(t *testing.T, node desired.Node) {
	t.Helper()
	Await(t, "the settings are reported", func() bool { return m.Reports(t, node) })
}

// Reports reports whether the node reports these settings.
func (m *Member) Reports(t *testing.T, node desired.Node) bool {
	t.Helper()
	hash, err := node.Hash()
	if err != nil {
		t.Fatal(err)
	}
	return m.Node().Annotations[api.AnnotationSettings] == hash
}

// PIDs returns the processes of containerd and the kubelet.
func (m *Member) PIDs() map[string]uint32 {
	return map[string]uint32{"containerd": m.Windows.Service("containerd").PID, "kubelet": m.Windows.Service("kubelet").PID}
}

// Changed returns the node's settings with PlainFile.
func (m *Member) Changed() desired.Node {
	node := m.Request.Desired
	node.Files = slices.Concat(node.Files, []desired.File{{Path: PlainFile, Content: "mirror"}})
	return node
}

// OtherAuthority returns the certificate of another cluster's CA.
func OtherAuthority(t *testing.T) string {
	t.Helper()
	c, err := servers.NewIsolatedCluster()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	return c.CA
}
