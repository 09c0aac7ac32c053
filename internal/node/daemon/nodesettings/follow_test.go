package nodesettings_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/windows-machine-config/wmco/internal/node/daemon/daemontest"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

func TestNodeAppliesPublishedSettings(t *testing.T) {
	t.Parallel()
	m := daemontest.NewFollower(t, daemontest.Options{})
	before := m.PIDs()
	m.Follow(t, m.Changed())
	daemontest.ExpectContent(t, m.Windows.Disk(), daemontest.PlainFile, "mirror")
	m.Follow(t, m.Request.Desired)
	if m.Windows.Disk().Exists(daemontest.PlainFile) {
		t.Error("a file that is no longer declared still exists")
	}
	if after := m.PIDs(); !maps.Equal(after, before) {
		t.Errorf("services were restarted for a file that they do not read at start: %v, then %v", before, after)
	}
}

func TestSecretsReachServicesAndFilesOnly(t *testing.T) {
	t.Parallel()
	m := daemontest.NewFollower(t, daemontest.Options{})
	node := m.Request.Desired
	node.Services = slices.Clone(node.Services)
	node.Services[0].Reads = []string{"HTTP_PROXY", "NO_PROXY"}
	node.Environment = map[string]string{"NO_PROXY": ".svc,${NODE_IP}"}
	node.WatchedEnvironment = []string{"HTTP_PROXY", "NO_PROXY"}
	const withPassword = "http://me:password@proxy:3128"
	node.SecretsVersion = m.PublishSecrets(t, desired.Secrets{
		Files: []desired.File{{Path: daemontest.CredentialFile, Content: "credentials"}}, Environment: map[string]string{"HTTP_PROXY": withPassword},
	})
	before := m.PIDs()
	m.Follow(t, node)
	if got := m.Windows.Service("containerd").Environment; got["HTTP_PROXY"] != withPassword || got["NO_PROXY"] != ".svc,192.0.2.10" {
		t.Errorf("containerd has the environment %v", got)
	}
	if got := m.Windows.Environment(); got["NO_PROXY"] != ".svc,192.0.2.10" || got["HTTP_PROXY"] != "" {
		t.Errorf("the machine has the environment %v", got)
	}
	daemontest.ExpectContent(t, m.Windows.Disk(), daemontest.CredentialFile, "credentials")
	if m.PIDs()["containerd"] == before["containerd"] {
		t.Error("containerd was not restarted")
	}
	for name, text := range map[string]string{"log": m.Log(), "journal": daemontest.Journal(t, m.Windows)} {
		if strings.Contains(text, "password") {
			t.Errorf("a password is in the %s:\n%s", name, text)
		}
	}
}
