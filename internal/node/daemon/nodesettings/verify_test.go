package nodesettings_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/daemon/daemontest"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

// maliciousSettings returns the settings of an attacker who may write ConfigMaps: the attacker's program runs as LocalSystem.
func maliciousSettings(m *daemontest.Member) desired.Node {
	node := m.Changed()
	node.Services = slices.Clone(node.Services)
	node.Services[0].Command += " --config C:\\evil.toml"
	return node
}

// TestOnlySignedSettingsAreApplied: otherwise, write access to ConfigMaps in the operator's namespace would mean LocalSystem on all nodes.
func TestOnlySignedSettingsAreApplied(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		message string
		publish func(t *testing.T, m *daemontest.Member) map[string]string
	}{
		"unsigned": {"not signed", func(t *testing.T, m *daemontest.Member) map[string]string {
			return desired.Unsigned(m.Sign(t, m.Request.Desired.Version, maliciousSettings(m), 1, 99))
		}},
		"another key": {"signed with unknown key", func(t *testing.T, m *daemontest.Member) map[string]string {
			return m.Sign(t, m.Request.Desired.Version, maliciousSettings(m), 2, 99)
		}},
		"altered": {"does not match the signature", func(t *testing.T, m *daemontest.Member) map[string]string {
			data := m.Sign(t, m.Request.Desired.Version, m.Request.Desired, 1, 99)
			malicious, err := maliciousSettings(m).Data()
			if err != nil {
				t.Fatal(err)
			}
			data["services"] = malicious["services"]
			return data
		}},
		"for another version": {"is signed for ConfigMap", func(t *testing.T, m *daemontest.Member) map[string]string {
			return m.Sign(t, "0.9.0", maliciousSettings(m), 1, 99)
		}},
		"for another cluster": {"is signed for cluster", func(t *testing.T, m *daemontest.Member) map[string]string {
			other := &daemontest.Member{Request: m.Request}
			other.Request.Cluster = "another"
			return other.Sign(t, m.Request.Desired.Version, maliciousSettings(m), 1, 99)
		}},
		"no JSON at all": {"not signed", func(*testing.T, *daemontest.Member) map[string]string { return map[string]string{"node": "["} }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := daemontest.NewFollower(t, daemontest.Options{})
			before := m.Windows.Service("containerd")
			m.PublishAs(t, m.Request.Desired.Version, test.publish(t, m))
			m.AwaitNote(t, api.EventSettingsRefused, test.message)
			m.AwaitLog(t, "rejected")
			if after := m.Windows.Service("containerd"); after.Command != before.Command || after.PID != before.PID || m.Windows.Disk().Exists(daemontest.PlainFile) {
				t.Errorf("containerd was %+v, is %+v", before, after)
			}
			m.Follow(t, m.Changed()) // the operator restores its own
		})
	}
}

// TestOlderSettingsAreRefused: formerly published settings are signed, and may have been restored by an attacker.
func TestOlderSettingsAreRefused(t *testing.T) {
	t.Parallel()
	m := daemontest.NewFollower(t, daemontest.Options{})
	version := m.Request.Desired.Version
	old := m.Sign(t, version, maliciousSettings(m), 1, 10)
	m.PublishAs(t, version, m.Sign(t, version, m.Changed(), 1, 11))
	m.AwaitSettings(t, m.Changed())
	m.PublishAs(t, version, old)
	m.AwaitNote(t, api.EventSettingsRefused, "older")
	if command := m.Windows.Service("containerd").Command; strings.Contains(command, "evil") {
		t.Errorf("containerd is %q", command)
	}
	// The same settings with a later serial change nothing, but outdate the ones in between.
	m.PublishAs(t, version, m.Sign(t, version, m.Changed(), 1, 20))
	m.PublishAs(t, version, m.Sign(t, version, m.Request.Desired, 1, 15))
	last := m.Changed()
	last.Files[len(last.Files)-1].Content = "another mirror"
	m.PublishAs(t, version, m.Sign(t, version, last, 1, 21))
	m.AwaitSettings(t, last)
	between, err := m.Request.Desired.Hash()
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(m.Log(), `Applying node settings","settings":"`+between) {
		t.Error("the intermediate settings were applied")
	}
}

// TestJoinTransfersSigningKey: a host without a key, or with a former one, follows nothing until it is joined again.
func TestJoinTransfersSigningKey(t *testing.T) {
	t.Parallel()
	for name, key := range map[string]string{"no key": "", "another key": desired.PublicKey(daemontest.SigningKey(9))} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := daemontest.NewFollower(t, daemontest.Options{})
			original := m.Request.Desired.SigningKey
			m.Stop()
			m.Request.Desired.SigningKey = key
			daemontest.MustJoin(t, m.Windows, m.Request)
			m.Start(t)
			m.AwaitLog(t, "Session started")
			m.Request.Desired.SigningKey = original
			m.Publish(t, m.Changed())
			m.AwaitNote(t, api.EventSettingsRefused, "")
			if m.Windows.Disk().Exists(daemontest.PlainFile) {
				t.Error("the published settings were applied")
			}
			m.Request.Serial = m.Serial
			daemontest.MustJoin(t, m.Windows, m.Request)
			m.AwaitSettings(t, m.Changed())
		})
	}
}

// TestSignedKeyIsAdopted: settings signed with the known key may name the next key.
func TestSignedKeyIsAdopted(t *testing.T) {
	t.Parallel()
	m := daemontest.NewFollower(t, daemontest.Options{})
	version := m.Request.Desired.Version
	node := m.Changed()
	node.SigningKey = desired.PublicKey(daemontest.SigningKey(2))
	m.PublishAs(t, version, m.Sign(t, version, node, 1, 10))
	m.AwaitSettings(t, node)
	m.PublishAs(t, version, m.Sign(t, version, maliciousSettings(m), 1, 11))
	m.AwaitNote(t, api.EventSettingsRefused, "signed with unknown key")
	node.Files = slices.Clone(m.Request.Desired.Files)
	m.PublishAs(t, version, m.Sign(t, version, node, 2, 12))
	m.AwaitSettings(t, node)
}

// TestRefusalIsReportedOnce: otherwise, a user who may write ConfigMaps could create unlimited events and log lines.
func TestRefusalIsReportedOnce(t *testing.T) {
	t.Parallel()
	m := daemontest.NewFollower(t, daemontest.Options{})
	for i := range 20 {
		m.PublishAs(t, m.Request.Desired.Version, map[string]string{"node": fmt.Sprint(i)})
	}
	m.AwaitNote(t, api.EventSettingsRefused, "not signed")
	m.Follow(t, m.Changed())
	m.PublishAs(t, m.Request.Desired.Version, map[string]string{"node": "again"})
	m.Serial += 100
	m.Follow(t, m.Request.Desired)
	if n := len(m.Notes(api.EventSettingsRefused)); n < 1 || n > 3 {
		t.Errorf("%d events report it", n)
	}
}

// TestSwappedSecretsAreRejected: otherwise, a user who may write the Secret could set a proxy for all nodes.
func TestSwappedSecretsAreRejected(t *testing.T) {
	t.Parallel()
	m := daemontest.NewFollower(t, daemontest.Options{})
	node := m.Changed()
	node.SecretsVersion = m.PublishSecrets(t, desired.Secrets{Salt: "a", Environment: map[string]string{"HTTP_PROXY": "http://ours"}})
	m.PublishSecrets(t, desired.Secrets{Salt: "a", Environment: map[string]string{"HTTP_PROXY": "http://theirs"}})
	m.Publish(t, node)
	m.AwaitLog(t, "its version differs from that in the ConfigMap")
	if m.Windows.Disk().Exists(daemontest.PlainFile) {
		t.Error("the settings were applied in part")
	}
	m.PublishSecrets(t, desired.Secrets{Salt: "a", Environment: map[string]string{"HTTP_PROXY": "http://ours"}})
	m.AwaitSettings(t, node)
}
