package daemon_test

import (
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/hns"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
	"github.com/windows-machine-config/wmco/internal/testing/sim/servers"
)

const (
	usersConfigDir = `C:\etc\cni\net.d`
	usersBinDir    = `C:\opt\cni\bin`
	usersConfig    = usersConfigDir + `\10-users.conflist`
)

// newUsersNetwork returns a host whose network is installed by the user.
func newUsersNetwork(t *testing.T, change func(*desired.Node)) *member {
	t.Helper()
	cluster, err := servers.NewIsolatedCluster()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	c := newCargo("1")
	m := &member{cluster: cluster, request: newMemberRequest(cluster, c), stop: func() {}}
	m.request.Desired = withImage(m.request.Desired, firstImage)
	m.request.Desired.CNI = nil
	m.request.Desired.UserNetwork = &desired.UserNetwork{BinDir: usersBinDir, ConfigDir: usersConfigDir}
	files := slices.Clone(m.request.Desired.Files)
	for i, f := range files {
		if strings.HasSuffix(f.Path, "containerd_conf.toml") {
			files[i].Content = "version = 3\n  conf_dir = '" + usersConfigDir + "'\n"
		}
	}
	m.request.Desired.Files = files
	change(&m.request.Desired)
	m.windows = newWindows(t, sim.WindowsOptions{
		Dial: cluster.Dial, RestartDelay: 100 * time.Millisecond,
		Programs: map[string]sim.Program{"kubelet": sim.KubeletOptions{Heartbeat: time.Minute, CNIConfig: usersConfig}.Program()},
	})
	mustSend(t, m.windows, c)
	mustJoin(t, m.windows, m.request)
	t.Cleanup(func() { m.stop() })
	m.start(t)
	m.giveRange(t)
	return m
}

func (m *member) networkCondition() corev1.NodeCondition {
	return m.conditionOf(api.ConditionWindowsNetworkUnavailable)
}

func (m *member) isNetworkReady(t *testing.T) bool {
	ok, err := m.windows.Host().Runtime.NetworkReady(t.Context())
	return err == nil && ok
}

func TestANodeWaitsForTheInstallerOfTheUsersNetwork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newUsersNetwork(t, func(*desired.Node) {})
		m.await(t, "the Node says what is missing", func() bool {
			c := m.networkCondition()
			return c.Status == corev1.ConditionTrue && c.Reason == api.ReasonNetworkConfigurationMissing && strings.Contains(c.Message, usersConfigDir+" has no CNI configuration")
		})
		time.Sleep(10 * time.Minute)
		if names, err := m.windows.Disk().List(usersConfigDir); err != nil || len(names) > 0 {
			t.Errorf("WICD wrote %q into the user's folder (%v)", names, err)
		}
		if m.windows.Disk().Exists(cniConfig) {
			t.Errorf("WICD wrote %s", cniConfig)
		}
		mustWrite(t, m.windows.Disk(), usersConfig, `{"name": "n", `)
		m.await(t, "the Node says that the configuration is none", func() bool {
			return strings.Contains(m.networkCondition().Message, usersConfig+" is not JSON")
		})
		mustWrite(t, m.windows.Disk(), usersConfig, `{"name": "n", "plugins": [{"type": "users"}]}`)
		m.awaitVersion(t)
		m.await(t, "the Node says that nothing is missing", func() bool { return m.networkCondition().Status == corev1.ConditionFalse })
	})
}

// TestAUsersNetworkThatContainerdMissedIsLoaded: only then WICD creates a file in the user's folder, and removes it.
func TestAUsersNetworkThatContainerdMissedIsLoaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newUsersNetwork(t, func(*desired.Node) {})
		mustWrite(t, m.windows.Disk(), usersConfig, `{"name": "n", "plugins": [{"type": "users"}]}`)
		m.awaitVersion(t)
		m.windows.MissNetwork()
		if m.isNetworkReady(t) {
			t.Fatal("containerd has missed nothing")
		}
		m.await(t, "containerd has the network again", func() bool { return m.isNetworkReady(t) })
		m.await(t, "the user's folder is as it was", func() bool { // a scanner may hold the temporary file
			names, err := m.windows.Disk().List(usersConfigDir)
			return err == nil && slices.Equal(names, []string{"10-users.conflist"})
		})
	})
}

// TestKubeProxyServesTheUsersBridge: it serves no other network.
func TestKubeProxyServesTheUsersBridge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newUsersNetwork(t, func(n *desired.Node) {
			n.UserNetwork.Name = "l2"
			n.UserNetwork.Proxy = &desired.File{Path: proxyConfig, Content: `{"node":"{{.Node}}","network":"{{.Network}}"}`}
		})
		disk, networks := m.windows.Disk(), m.windows.HNS()
		mustWrite(t, disk, usersConfig, `{"name": "n", "plugins": [{"type": "users"}]}`)
		expect := func(reason, says string) {
			t.Helper()
			m.await(t, reason, func() bool { c := m.networkCondition(); return c.Reason == reason && strings.Contains(c.Message, says) })
			if reason != api.ReasonNetworkWorks && disk.Exists(proxyConfig) {
				t.Errorf("%s: kube-proxy is configured", reason)
			}
		}
		expect(api.ReasonHNSNetworkMissing, "has no network l2")
		create := func(kind hns.NetworkType) {
			t.Helper()
			if _, err := networks.CreateNetwork(t.Context(), hns.Network{Name: "l2", Type: kind}); err != nil {
				t.Fatal(err)
			}
		}
		create(hns.Overlay)
		expect(api.ReasonKubeProxyUnsupported, "l2 is of type Overlay")
		all, err := networks.Look(t.Context())
		if err == nil {
			err = networks.Remove(t.Context(), hns.State{Networks: all.Networks})
		}
		if err != nil {
			t.Fatal(err)
		}
		create(hns.L2Bridge)
		expect(api.ReasonNetworkWorks, "")
		expectContent(t, disk, proxyConfig, `{"node":"`+m.request.Node+`","network":"l2"}`)
	})
}

func TestFoldersOfTheUserAreMadeAndStay(t *testing.T) {
	w, c := newWindows(t, sim.WindowsOptions{}), newCargo("1")
	request := newRequest(c)
	request.Desired.UserNetwork = &desired.UserNetwork{BinDir: usersBinDir, ConfigDir: usersConfigDir}
	mustSend(t, w, c)
	mustWrite(t, w.Disk(), usersBinDir+`\calico.exe`, "the user's")
	if err := w.Open(usersBinDir); err != nil {
		t.Fatal(err)
	}
	mustJoin(t, w, request)
	for folder, who := range map[string]hostapi.Access{`C:\etc`: hostapi.Readable, `C:\etc\cni`: hostapi.Readable, usersConfigDir: hostapi.Private} {
		if ours, _, err := w.Host().Rights.Look(folder, who); err != nil || !ours {
			t.Errorf("%s was made with other rights than %d (%v)", folder, who, err)
		}
	}
	if info, err := os.Stat(w.Disk().Local(usersBinDir)); err != nil || info.Mode().Perm() != 0o777 {
		t.Errorf("the rights of a folder that existed are %v (%v)", info, err)
	}
	if again := mustJoin(t, w, request); again.Changed != nil {
		t.Errorf("the next join changed %q", again.Changed)
	}
	mustLeave(t, w, request.Cluster)
	expectContent(t, w.Disk(), usersBinDir+`\calico.exe`, "the user's")
	if !w.Disk().Exists(usersConfigDir) {
		t.Errorf("%s is gone", usersConfigDir)
	}
}

func TestFoldersThatUsersOfTheHostOwnAreRefused(t *testing.T) {
	for _, trap := range []string{`C:\opt`, `C:\opt\cni`, usersBinDir, usersConfigDir} {
		t.Run(trap, func(t *testing.T) {
			w, c := newWindows(t, sim.WindowsOptions{}), newCargo("1")
			request := newRequest(c)
			request.Desired.UserNetwork = &desired.UserNetwork{BinDir: usersBinDir, ConfigDir: usersConfigDir}
			mustWrite(t, w.Disk(), trap+`\planted`, "by a user")
			mustGiveAway(t, w, trap)
			mustSend(t, w, c)
			_, err := newWire(w).join(request)
			if want := "using " + trap + ", a folder of spec.network.custom: it belongs to "; err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("the join ends with %v, want %q", err, want)
			}
			expectContent(t, w.Disk(), trap+`\planted`, "by a user")
		})
	}
}

// TestUserNetworkProblemIsCleared: the reported problem ends when the configuration is declared instead.
func TestUserNetworkProblemIsCleared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newUsersNetwork(t, func(*desired.Node) {})
		m.await(t, "the Node says what is missing", func() bool { return m.networkCondition().Status == corev1.ConditionTrue })
		m.request.Desired.UserNetwork = nil
		m.request.Desired.Files = newMemberRequest(m.cluster, newCargo("1")).Desired.Files
		m.request.Desired.CNI = &desired.CNI{Path: cniConfig, Content: `{"name":"n","type":"t"}`}
		mustJoin(t, m.windows, m.request)
		m.await(t, "the Node says no more that something is missing", func() bool { return m.networkCondition().Status == corev1.ConditionFalse })
	})
}
