package daemon_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	eventsv1 "k8s.io/api/events/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

const refused = "rejected"

// awaitLog waits until the log contains a text, and clears it.
func (m *member) awaitLog(t *testing.T, what string) {
	t.Helper()
	m.await(t, "the log says "+what, func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		if !strings.Contains(m.log.String(), what) {
			return false
		}
		m.log.Reset()
		return true
	})
}

// awaitEvent waits for an event of the node, and returns the number of events with its reason.
func (m *member) awaitEvent(t *testing.T, reason, note string) (n int) {
	t.Helper()
	m.await(t, fmt.Sprintf("an event %s says %q", reason, note), func() bool {
		n = 0
		found := false
		for _, path := range m.cluster.Paths() {
			var e eventsv1.Event
			if strings.Contains(path, "/events/") && m.cluster.Get(path, &e) && e.Reason == reason {
				n++
				found = found || strings.Contains(e.Note, note)
			}
		}
		return found
	})
	return n
}

// evil returns the settings of an attacker who may write ConfigMaps: the attacker's program runs as LocalSystem.
func (m *member) evil() desired.Node {
	node := m.changed()
	node.Services = slices.Clone(node.Services)
	node.Services[0].Command += " --config C:\\evil.toml"
	return node
}

// TestOnlyWhatTheOperatorSignedIsFollowed: otherwise, write access to ConfigMaps in the operator's namespace would mean LocalSystem on all nodes.
func TestOnlyWhatTheOperatorSignedIsFollowed(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		says    string
		publish func(m *member, t *testing.T) map[string]string
	}{
		"unsigned": {"not signed", func(m *member, t *testing.T) map[string]string {
			return desired.Unsigned(m.sign(t, m.request.Desired.Version, m.evil(), 1, 99))
		}},
		"another key": {"signed with unknown key", func(m *member, t *testing.T) map[string]string {
			return m.sign(t, m.request.Desired.Version, m.evil(), 2, 99)
		}},
		"altered": {"does not match the signature", func(m *member, t *testing.T) map[string]string {
			data := m.sign(t, m.request.Desired.Version, m.request.Desired, 1, 99)
			evil, err := m.evil().Data()
			if err != nil {
				t.Fatal(err)
			}
			data["services"] = evil["services"]
			return data
		}},
		"for another version": {"is signed for ConfigMap", func(m *member, t *testing.T) map[string]string {
			return m.sign(t, "0.9.0", m.evil(), 1, 99)
		}},
		"for another cluster": {"is signed for cluster", func(m *member, t *testing.T) map[string]string {
			other := &member{request: m.request}
			other.request.Cluster = "another"
			return other.sign(t, m.request.Desired.Version, m.evil(), 1, 99)
		}},
		"no JSON at all": {"not signed", func(*member, *testing.T) map[string]string { return map[string]string{"node": "["} }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newFollower(t)
			before := m.windows.Service("containerd")
			m.publishAs(t, m.request.Desired.Version, test.publish(m, t))
			m.awaitEvent(t, api.EventSettingsRefused, test.says)
			m.awaitLog(t, refused)
			if after := m.windows.Service("containerd"); after.Command != before.Command || after.PID != before.PID || m.windows.Disk().Exists(plainFile) {
				t.Errorf("containerd was %+v, is %+v", before, after)
			}
			m.publish(t, m.changed()) // the operator restores its own
			m.awaitSettings(t, m.changed())
		})
	}
}

// TestOlderSettingsAreRefused: formerly published settings are signed, and may have been restored by an attacker.
func TestOlderSettingsAreRefused(t *testing.T) {
	t.Parallel()
	m := newFollower(t)
	version := m.request.Desired.Version
	old := m.sign(t, version, m.evil(), 1, 10)
	m.publishAs(t, version, m.sign(t, version, m.changed(), 1, 11))
	m.awaitSettings(t, m.changed())
	m.publishAs(t, version, old)
	m.awaitEvent(t, api.EventSettingsRefused, "older")
	if command := m.windows.Service("containerd").Command; strings.Contains(command, "evil") {
		t.Errorf("containerd is %q", command)
	}
	// The same settings with a later serial change nothing, but outdate the ones in between.
	m.publishAs(t, version, m.sign(t, version, m.changed(), 1, 20))
	m.publishAs(t, version, m.sign(t, version, m.request.Desired, 1, 15))
	last := m.changed()
	last.Files[len(last.Files)-1].Content = "another mirror"
	m.publishAs(t, version, m.sign(t, version, last, 1, 21))
	m.awaitSettings(t, last)
	between, err := m.request.Desired.Hash()
	if err != nil {
		t.Fatal(err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if strings.Contains(m.log.String(), `Applying node settings","settings":"`+between) {
		t.Error("what was published between was followed")
	}
}

// TestAJoinHandsOverTheKey: a host without a key, or with a former one, follows nothing until it is joined again.
func TestAJoinHandsOverTheKey(t *testing.T) {
	t.Parallel()
	for name, key := range map[string]string{"no key": "", "another key": desired.PublicKey(signingKey(9))} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newFollower(t)
			ours := m.request.Desired.SigningKey
			m.stop()
			m.request.Desired.SigningKey = key
			mustJoin(t, m.windows, m.request)
			m.start(t)
			m.awaitLog(t, "Session started")
			m.request.Desired.SigningKey = ours
			m.publish(t, m.changed())
			m.awaitEvent(t, api.EventSettingsRefused, "")
			if m.windows.Disk().Exists(plainFile) {
				t.Error("what was published was followed")
			}
			m.request.Serial = m.serial
			mustJoin(t, m.windows, m.request)
			m.awaitSettings(t, m.changed())
		})
	}
}

// TestAKeyThatWasSignedIsTakenOver: settings signed with the known key may name the next key.
func TestAKeyThatWasSignedIsTakenOver(t *testing.T) {
	t.Parallel()
	m := newFollower(t)
	version := m.request.Desired.Version
	node := m.changed()
	node.SigningKey = desired.PublicKey(signingKey(2))
	m.publishAs(t, version, m.sign(t, version, node, 1, 10))
	m.awaitSettings(t, node)
	m.publishAs(t, version, m.sign(t, version, m.evil(), 1, 11))
	m.awaitEvent(t, api.EventSettingsRefused, "signed with unknown key")
	node.Files = slices.Clone(m.request.Desired.Files)
	m.publishAs(t, version, m.sign(t, version, node, 2, 12))
	m.awaitSettings(t, node)
}

// TestRefusalIsReportedOnce: otherwise, a user who may write ConfigMaps could create unlimited events and log lines.
func TestRefusalIsReportedOnce(t *testing.T) {
	t.Parallel()
	m := newFollower(t)
	for i := range 20 {
		m.publishAs(t, m.request.Desired.Version, map[string]string{"node": fmt.Sprint(i)})
	}
	m.awaitEvent(t, api.EventSettingsRefused, "not signed")
	m.publish(t, m.changed())
	m.awaitSettings(t, m.changed())
	m.publishAs(t, m.request.Desired.Version, map[string]string{"node": "again"})
	m.serial += 100
	m.publish(t, m.request.Desired)
	m.awaitSettings(t, m.request.Desired)
	if n := m.awaitEvent(t, api.EventSettingsRefused, "not signed"); n > 3 {
		t.Errorf("%d events tell of it", n)
	}
}

// TestSwappedSecretsAreNotTaken: otherwise, a user who may write the Secret could set a proxy for all nodes.
func TestSwappedSecretsAreNotTaken(t *testing.T) {
	t.Parallel()
	m := newFollower(t)
	node := m.changed()
	node.SecretsVersion = m.publishSecrets(t, desired.Secrets{Salt: "a", Environment: map[string]string{"HTTP_PROXY": "http://ours"}})
	m.publishSecrets(t, desired.Secrets{Salt: "a", Environment: map[string]string{"HTTP_PROXY": "http://theirs"}})
	m.publish(t, node)
	m.awaitLog(t, "its version differs from that in the ConfigMap")
	if m.windows.Disk().Exists(plainFile) {
		t.Error("a part of the settings was applied without the other")
	}
	m.publishSecrets(t, desired.Secrets{Salt: "a", Environment: map[string]string{"HTTP_PROXY": "http://ours"}})
	m.awaitSettings(t, node)
}

// TestUnsignedVersionIsNotInstalled: another version includes another WICD.
func TestUnsignedVersionIsNotInstalled(t *testing.T) {
	t.Parallel()
	u := newUpdatable(t, nil, "", patience)
	for name, data := range map[string]map[string]string{
		"unsigned":            desired.Unsigned(u.sign(t, u.next.Version, u.next, 1, 99)),
		"another key":         u.sign(t, u.next.Version, u.next, 2, 99),
		"for another version": u.sign(t, "0.9.0", u.next, 1, 99),
	} {
		u.publishAs(t, u.next.Version, data)
		u.wish(u.next.Version)
		u.awaitLog(t, "Starting an update failed")
		u.wish(u.request.Desired.Version)
		if u.windows.Service(api.WICDUpdateService).Name != "" || u.windows.Disk().Exists(desired.State+`\update.json`) {
			t.Fatalf("%s: an update begins", name)
		}
	}
	u.publishFor(t, u.next.Version, u.next)
	u.wish(u.next.Version)
	u.awaitNext(t)
}
