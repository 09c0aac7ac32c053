package podnetwork_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/daemon/daemontest"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/hns"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

const (
	usersConfigDir = `C:\etc\cni\net.d`
	usersConfig    = usersConfigDir + `\10-users.conflist`
)

// newUsersNetwork returns a host whose network is installed by the user.
func newUsersNetwork(t *testing.T, change func(*desired.Node)) *daemontest.Member {
	t.Helper()
	m := daemontest.NewMember(t, daemontest.Options{
		Windows: sim.WindowsOptions{Programs: map[string]sim.Program{
			"kubelet": sim.KubeletOptions{Heartbeat: time.Minute, CNIConfig: usersConfig}.Program(),
		}},
		Prepare: func(m *daemontest.Member) {
			node := &m.Request.Desired
			node.CNI = nil
			node.UserNetwork = &desired.UserNetwork{BinDir: `C:\opt\cni\bin`, ConfigDir: usersConfigDir}
			node.Files[1].Content = "version = 3\n  conf_dir = '" + usersConfigDir + "'\n"
			change(node)
		},
	})
	m.AssignPodCIDR(t)
	return m
}

func TestNodeWaitsForUserNetworkInstaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newUsersNetwork(t, func(*desired.Node) {})
		daemontest.Await(t, "the Node reports the missing configuration", func() bool {
			c := networkCondition(m)
			return c.Status == corev1.ConditionTrue && c.Reason == api.ReasonNetworkConfigurationMissing && strings.Contains(c.Message, usersConfigDir+" has no CNI configuration")
		})
		time.Sleep(10 * time.Minute)
		if names, err := m.Windows.Disk().List(usersConfigDir); err != nil || len(names) > 0 {
			t.Errorf("WICD wrote %q into the user's folder (%v)", names, err)
		}
		if m.Windows.Disk().Exists(daemontest.CNIConfig) {
			t.Errorf("WICD wrote %s", daemontest.CNIConfig)
		}
		daemontest.MustWrite(t, m.Windows.Disk(), usersConfig, `{"name": "n", `)
		daemontest.Await(t, "the Node reports the invalid configuration", func() bool {
			return strings.Contains(networkCondition(m).Message, usersConfig+" is not JSON")
		})
		daemontest.MustWrite(t, m.Windows.Disk(), usersConfig, `{"name": "n", "plugins": [{"type": "users"}]}`)
		m.AwaitVersion(t)
		daemontest.Await(t, "the Node reports no problem", func() bool { return networkCondition(m).Status == corev1.ConditionFalse })
	})
}

// TestKubeProxyServesUserBridge: it serves no other network.
func TestKubeProxyServesUserBridge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newUsersNetwork(t, func(n *desired.Node) {
			n.UserNetwork.Name = "l2"
			n.UserNetwork.Proxy = &desired.File{Path: proxyConfig, Content: `{"node":"{{.Node}}","network":"{{.Network}}"}`}
		})
		disk, networks := m.Windows.Disk(), m.Windows.HNS()
		daemontest.MustWrite(t, disk, usersConfig, `{"name": "n", "plugins": [{"type": "users"}]}`)
		expect := func(reason, message string) {
			t.Helper()
			daemontest.Await(t, reason, func() bool {
				c := networkCondition(m)
				return c.Reason == reason && strings.Contains(c.Message, message)
			})
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
		all, err := networks.List(t.Context())
		if err == nil {
			err = networks.Remove(t.Context(), hns.State{Networks: all.Networks})
		}
		if err != nil {
			t.Fatal(err)
		}
		create(hns.L2Bridge)
		expect(api.ReasonNetworkWorks, "")
		daemontest.ExpectContent(t, disk, proxyConfig, `{"node":"`+m.Request.Node+`","network":"l2"}`)
	})
}

// TestUserNetworkProblemIsCleared: the reported problem ends when the configuration is declared instead.
func TestUserNetworkProblemIsCleared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newUsersNetwork(t, func(*desired.Node) {})
		daemontest.Await(t, "the Node reports the missing configuration", func() bool { return networkCondition(m).Status == corev1.ConditionTrue })
		m.Request.Desired.UserNetwork = nil
		m.Request.Desired.Files = daemontest.NewRequest(daemontest.NewPayload("1")).Desired.Files
		m.Request.Desired.CNI = &desired.CNI{Path: daemontest.CNIConfig, Content: `{"name":"n","type":"t"}`}
		daemontest.MustJoin(t, m.Windows, m.Request)
		daemontest.Await(t, "the reported problem is cleared", func() bool { return networkCondition(m).Status == corev1.ConditionFalse })
	})
}
