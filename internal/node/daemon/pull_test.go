package daemon_test

import (
	"context"
	"crypto/ed25519"
	"encoding/pem"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
	"github.com/windows-machine-config/wmco/internal/testing/sim/servers"
)

const (
	operators      = "operators"
	namespacePath  = "/api/v1/namespaces/" + operators
	secretsPath    = namespacePath + "/secrets/" + api.NodeSecrets
	plainFile      = `C:\k\kubelet-ca.crt` // no service must restart for it
	credentialFile = `C:\var\lib\kubelet\config.json`
)

// newFollower returns a member that has reported its version, and so follows the published settings.
func newFollower(t *testing.T) *member {
	t.Helper()
	m := newMember(t, func(*servers.Cluster) {})
	m.giveRange(t)
	m.awaitVersion(t)
	return m
}

// publish publishes the settings for all nodes of the version.
func (m *member) publish(t *testing.T, node desired.Node) {
	t.Helper()
	m.publishFor(t, m.request.Desired.Version, node)
}

// publishFor does the same for the nodes of another version.
func (m *member) publishFor(t *testing.T, version string, node desired.Node) {
	t.Helper()
	m.serial++
	m.publishAs(t, version, m.sign(t, version, node, 1, m.serial))
}

// sign returns what publishFor publishes, signed with the n-th key and a serial.
func (m *member) sign(t *testing.T, version string, node desired.Node, n byte, serial int64) map[string]string {
	t.Helper()
	data, err := node.Data()
	if err != nil {
		t.Fatal(err)
	}
	got := desired.Statement{Cluster: m.request.Cluster, Name: api.ServicesConfigMapPrefix + version, Serial: serial}
	if data, err = desired.Sign(data, got, signingKey(n)); err != nil {
		t.Fatal(err)
	}
	return data
}

// signingKey returns the n-th signing key; the operator's is the first.
func signingKey(n byte) ed25519.PrivateKey {
	seed := make([]byte, ed25519.SeedSize)
	seed[0] = n
	return ed25519.NewKeyFromSeed(seed)
}

// publishAs writes the ConfigMap of a version, as an attacker might.
func (m *member) publishAs(t *testing.T, version string, data map[string]string) {
	t.Helper()
	name := api.ServicesConfigMapPrefix + version
	cm := corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: operators, Name: name}, Data: data}
	if err := m.cluster.Put(namespacePath+"/configmaps/"+name, cm); err != nil {
		t.Fatal(err)
	}
}

// publishSecrets publishes secrets and returns their version.
func (m *member) publishSecrets(t *testing.T, s desired.Secrets) string {
	t.Helper()
	content, err := s.Content()
	if err != nil {
		t.Fatal(err)
	}
	secret := corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: operators, Name: api.NodeSecrets}, Data: map[string][]byte{api.NodeSecretsKey: content},
	}
	if err := m.cluster.Put(secretsPath, secret); err != nil {
		t.Fatal(err)
	}
	return desired.SecretsVersion(content)
}

// awaitSettings waits until the node reports the published settings.
func (m *member) awaitSettings(t *testing.T, node desired.Node) {
	t.Helper()
	hash, err := node.Hash()
	if err != nil {
		t.Fatal(err)
	}
	m.await(t, "settings "+hash+" are reported", func() bool { return m.node().Annotations[api.AnnotationSettings] == hash })
}

// pids returns the process IDs of the services.
func (m *member) pids() map[string]uint32 {
	pids := map[string]uint32{}
	for _, s := range []string{"containerd", "kubelet"} {
		pids[s] = m.windows.Service(s).PID
	}
	return pids
}

func (m *member) changed() desired.Node {
	node := m.request.Desired
	node.Files = slices.Concat(node.Files, []desired.File{{Path: plainFile, Content: "mirror"}})
	return node
}

func TestNodeAppliesPublishedSettings(t *testing.T) {
	t.Parallel()
	m := newFollower(t)
	before := m.pids()
	m.publish(t, m.changed())
	m.awaitSettings(t, m.changed())
	expectContent(t, m.windows.Disk(), plainFile, "mirror")
	m.publish(t, m.request.Desired)
	m.awaitSettings(t, m.request.Desired)
	if m.windows.Disk().Exists(plainFile) {
		t.Error("a file that is wanted no more is still there")
	}
	if after := m.pids(); !maps.Equal(after, before) {
		t.Errorf("services were restarted for a file that none reads at its start: %v, then %v", before, after)
	}
}

func TestSecretsReachServicesAndFilesOnly(t *testing.T) {
	t.Parallel()
	m := newFollower(t)
	node := m.request.Desired
	node.Services = slices.Clone(node.Services)
	node.Services[0].Reads = []string{"HTTP_PROXY", "NO_PROXY"}
	node.Environment = map[string]string{"NO_PROXY": ".svc,${NODE_IP}"}
	node.WatchedEnvironment = []string{"HTTP_PROXY", "NO_PROXY"}
	const withPassword = "http://me:password@proxy:3128"
	node.SecretsVersion = m.publishSecrets(t, desired.Secrets{
		Files: []desired.File{{Path: credentialFile, Content: "credentials"}}, Environment: map[string]string{"HTTP_PROXY": withPassword},
	})
	before := m.pids()
	m.publish(t, node)
	m.awaitSettings(t, node)
	if got := m.windows.Service("containerd").Environment; got["HTTP_PROXY"] != withPassword || got["NO_PROXY"] != ".svc,192.0.2.10" {
		t.Errorf("containerd has the environment %v", got)
	}
	if got := m.windows.Environment(); got["NO_PROXY"] != ".svc,192.0.2.10" || got["HTTP_PROXY"] != "" {
		t.Errorf("the machine has the environment %v", got)
	}
	expectContent(t, m.windows.Disk(), credentialFile, "credentials")
	if m.pids()["containerd"] == before["containerd"] {
		t.Error("containerd was not restarted")
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if strings.Contains(m.log.String(), "password") {
		t.Errorf("a password is in the log: %s", m.log.String())
	}
	journal, err := m.windows.Disk().Read(desired.State + `\journal.jsonl`)
	if err != nil || strings.Contains(string(journal), "password") {
		t.Errorf("a password is in the journal, or there is none: %v", err)
	}
}

func TestForeignCertificatesAreKept(t *testing.T) {
	t.Parallel()
	m := newFollower(t)
	authority := func(c string) string {
		block, _ := pem.Decode([]byte(c))
		return string(pem.EncodeToMemory(block))
	}
	theirs, ours := authority(m.cluster.CA), authority(otherAuthority(t))
	block, _ := pem.Decode([]byte(theirs))
	if _, err := m.windows.Host().Certificates.Add(t.Context(), block.Bytes); err != nil {
		t.Fatal(err)
	}
	node := m.request.Desired
	node.Certificates = theirs + ours
	m.publish(t, node)
	m.awaitSettings(t, node)
	if n := m.trusted(t); n != 2 {
		t.Errorf("%d certificates are trusted, want 2", n)
	}
	m.publish(t, m.request.Desired)
	m.awaitSettings(t, m.request.Desired)
	if n := m.trusted(t); n != 1 {
		t.Errorf("%d certificates are trusted, want the one that was there before", n)
	}
}

func (m *member) trusted(t *testing.T) int {
	t.Helper()
	list, err := m.windows.Host().Certificates.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

func otherAuthority(t *testing.T) string {
	t.Helper()
	c, err := servers.NewCluster()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	return c.CA
}

func TestInvalidSettingsAreRefused(t *testing.T) {
	t.Parallel()
	m := newFollower(t)
	for name, change := range map[string]func(*desired.Node){
		"another version": func(n *desired.Node) { n.Version = "2.0.0" },
		"another payload": func(n *desired.Node) { n.Digest = strings.Repeat("0", 64) },
		"a file elsewhere": func(n *desired.Node) {
			n.Files = append(n.Files, desired.File{Path: `C:\k\..\Windows\System32\drivers\etc\hosts`, Content: "x"})
		},
		"names of hosts": func(n *desired.Node) {
			n.Files = append(n.Files, desired.File{Path: `C:\Windows\System32\drivers\etc\hosts`, Content: "x"})
		},
		"something at the next logon": func(n *desired.Node) {
			n.Files = append(n.Files, desired.File{Path: `C:\ProgramData\Microsoft\Windows\Start Menu\Programs\StartUp\x.cmd`, Content: "x"})
		},
		"a shell":                func(n *desired.Node) { n.Services = append(n.Services, ours("csi-proxy", `cmd.exe /c calc.exe`)) },
		"a service of Windows":   func(n *desired.Node) { n.Services = append(n.Services, ours("Spooler", n.Services[0].Command)) },
		"the path of programs":   func(n *desired.Node) { n.Environment = map[string]string{"PATH": `C:\evil`} },
		"a feature nobody needs": func(n *desired.Node) { n.Features = append(n.Features, "SMB1Protocol") },
		"the port of file shares": func(n *desired.Node) {
			n.Firewall = []desired.FirewallRule{{Name: "x", Protocol: desired.TCP, Ports: []uint16{445}}}
		},
	} {
		node := m.changed()
		change(&node)
		m.publish(t, node)
		m.await(t, name+" is refused", func() bool {
			m.mu.Lock()
			defer m.mu.Unlock()
			defer m.log.Reset()
			return strings.Contains(m.log.String(), "Applying node settings failed")
		})
		if m.windows.Disk().Exists(plainFile) {
			t.Errorf("%s was followed", name)
		}
	}
	m.cluster.Delete(namespacePath + "/configmaps/" + api.ServicesConfigMapPrefix + m.request.Desired.Version)
	m.publish(t, m.changed())
	m.awaitSettings(t, m.changed())
}

// TestAChangeSurvivesPowerCuts cuts the power at each change that new settings make.
func TestAChangeSurvivesPowerCuts(t *testing.T) {
	t.Parallel()
	m := newFollower(t)
	node := m.changed()
	node.Files[0].Content = `{"maxPods": 64}`
	node.WatchedEnvironment = []string{"NO_PROXY"}
	node.Environment = map[string]string{"NO_PROXY": ".svc"}
	node.Certificates = otherAuthority(t)
	m.stop()
	for cut := 0; ; cut++ {
		m.publish(t, m.request.Desired)
		m.start(t)
		m.awaitSettings(t, m.request.Desired)
		before := m.windows.Changes()
		m.windows.CutPowerAfter(cut)
		m.publish(t, node)
		m.await(t, "the power is cut, or the change is done", func() bool { return m.hasPowerCut() || m.reports(node) })
		if !m.hasPowerCut() {
			t.Logf("%d changes", m.windows.Changes()-before)
			return
		}
		m.stop()
		m.windows.PowerOn()
		m.start(t)
		m.awaitSettings(t, node)
		expectContent(t, m.windows.Disk(), plainFile, "mirror")
		if m.windows.Environment()["NO_PROXY"] != ".svc" || m.trusted(t) != 1 {
			t.Errorf("cut %d: environment %v, %d certificates", cut, m.windows.Environment(), m.trusted(t))
		}
		m.stop()
	}
}

func (m *member) hasPowerCut() bool {
	_, err := m.windows.Host().System.Facts(context.Background())
	return errors.Is(err, sim.ErrPower)
}

func (m *member) reports(node desired.Node) bool {
	hash, err := node.Hash()
	return err == nil && m.node().Annotations[api.AnnotationSettings] == hash
}

// TestAChangeTakesTheTimeThatServicesNeed has a kubelet that takes longer to stop than WICD takes to notice a new record.
func TestAChangeTakesTheTimeThatServicesNeed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster, err := servers.NewIsolatedCluster()
		if err != nil {
			t.Fatal(err)
		}
		kubelet := sim.KubeletOptions{Heartbeat: 5 * time.Minute}.Program()
		slow := func(ctx context.Context, p sim.Process) uint32 {
			defer time.Sleep(50 * time.Second)
			return kubelet(ctx, p)
		}
		m := newMemberOf(t, cluster, func(*servers.Cluster) {}, sim.WindowsOptions{RestartDelay: never, Programs: map[string]sim.Program{"kubelet": slow}})
		m.giveRange(t)
		m.awaitVersion(t)
		node := m.request.Desired
		node.Files = slices.Clone(node.Files)
		node.Files[0].Content = `{"maxPods": 64}`
		m.publish(t, node)
		time.Sleep(time.Minute)
		m.awaitSettings(t, node)
		if journal, err := m.windows.Disk().Read(desired.State + `\journal.jsonl`); err != nil || strings.Contains(string(journal), `"error"`) {
			t.Errorf("the change was given up in between (%v):\n%s", err, journal)
		}
	})
}
