package configure_test

import (
	"context"
	"encoding/pem"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/daemon/daemontest"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

func TestForeignCertificatesAreKept(t *testing.T) {
	t.Parallel()
	m := daemontest.NewFollower(t, daemontest.Options{})
	block, _ := pem.Decode([]byte(m.Cluster.CA))
	if _, err := m.Windows.Host().Certificates.Add(t.Context(), block.Bytes); err != nil {
		t.Fatal(err)
	}
	node := m.Request.Desired
	node.Certificates = m.Cluster.CA + daemontest.OtherAuthority(t)
	m.Follow(t, node)
	if n := trusted(t, m); n != 2 {
		t.Errorf("%d certificates are trusted, want 2", n)
	}
	m.Follow(t, m.Request.Desired)
	if n := trusted(t, m); n != 1 {
		t.Errorf("%d certificates are trusted, want the existing one", n)
	}
}

func trusted(t *testing.T, m *daemontest.Member) int {
	t.Helper()
	list, err := m.Windows.Host().Certificates.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

func TestInvalidSettingsAreRefused(t *testing.T) {
	t.Parallel()
	m := daemontest.NewFollower(t, daemontest.Options{})
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
		"a shell": func(n *desired.Node) {
			n.Services = append(n.Services, daemontest.Service("csi-proxy", `cmd.exe /c calc.exe`))
		},
		"a service of Windows": func(n *desired.Node) {
			n.Services = append(n.Services, daemontest.Service("Spooler", n.Services[0].Command))
		},
		"the path of programs": func(n *desired.Node) { n.Environment = map[string]string{"PATH": `C:\evil`} },
		"an unneeded feature":  func(n *desired.Node) { n.Features = append(n.Features, "SMB1Protocol") },
		"the port of file shares": func(n *desired.Node) {
			n.Firewall = []desired.FirewallRule{{Name: "x", Protocol: desired.TCP, Ports: []uint16{445}}}
		},
	} {
		node := m.Changed()
		change(&node)
		m.Publish(t, node)
		m.AwaitLog(t, "Applying node settings failed")
		if m.Windows.Disk().Exists(daemontest.PlainFile) {
			t.Errorf("%s was followed", name)
		}
	}
	m.Unpublish()
	m.Follow(t, m.Changed())
}

// TestSettingsChangeSurvivesPowerFailures cuts the power at each change that new settings make.
func TestSettingsChangeSurvivesPowerFailures(t *testing.T) {
	t.Parallel()
	m := daemontest.NewFollower(t, daemontest.Options{})
	node := m.Changed()
	node.Files[0].Content = `{"maxPods": 64}`
	node.WatchedEnvironment = []string{"NO_PROXY"}
	node.Environment = map[string]string{"NO_PROXY": ".svc"}
	node.Certificates = daemontest.OtherAuthority(t)
	m.Stop()
	for cut := 0; ; cut++ {
		m.Publish(t, m.Request.Desired)
		m.Start(t)
		m.AwaitSettings(t, m.Request.Desired)
		before := m.Windows.Changes()
		m.Windows.CutPowerAfter(cut)
		m.Publish(t, node)
		daemontest.Await(t, "the power is cut, or the change is done", func() bool { return hasPowerCut(m) || m.Reports(t, node) })
		if !hasPowerCut(m) {
			t.Logf("%d changes", m.Windows.Changes()-before)
			return
		}
		m.Stop()
		m.Windows.PowerOn()
		m.Start(t)
		m.AwaitSettings(t, node)
		daemontest.ExpectContent(t, m.Windows.Disk(), daemontest.PlainFile, "mirror")
		if m.Windows.Environment()["NO_PROXY"] != ".svc" || trusted(t, m) != 1 {
			t.Errorf("cut %d: environment %v, %d certificates", cut, m.Windows.Environment(), trusted(t, m))
		}
		m.Stop()
	}
}

func hasPowerCut(m *daemontest.Member) bool {
	_, err := m.Windows.Host().System.Facts(context.Background())
	return errors.Is(err, sim.ErrPower)
}

// TestSettingsChangeWaitsForSlowServices has a kubelet that takes longer to stop than WICD takes to notice a new record.
func TestSettingsChangeWaitsForSlowServices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kubelet := sim.KubeletOptions{Heartbeat: 5 * time.Minute}.Program()
		slow := func(ctx context.Context, p sim.Process) uint32 {
			defer time.Sleep(50 * time.Second)
			return kubelet(ctx, p)
		}
		o := sim.WindowsOptions{RestartDelay: daemontest.Never, Programs: map[string]sim.Program{"kubelet": slow}}
		m := daemontest.NewFollower(t, daemontest.Options{Windows: o})
		node := m.Request.Desired
		node.Files = slices.Clone(node.Files)
		node.Files[0].Content = `{"maxPods": 64}`
		m.Publish(t, node)
		time.Sleep(time.Minute)
		m.AwaitSettings(t, node)
		if journal := daemontest.Journal(t, m.Windows); strings.Contains(journal, `"error"`) {
			t.Errorf("the change was abandoned:\n%s", journal)
		}
	})
}
