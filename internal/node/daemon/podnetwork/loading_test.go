package podnetwork_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/daemon/daemontest"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

// TestMissedCNIConfigurationIsReloaded makes containerd miss the configuration of the pod network when it is written. Only then WICD creates
// another file in its folder, and removes it.
func TestMissedCNIConfigurationIsReloaded(t *testing.T) {
	for folder, join := range map[string]func(t *testing.T) *daemontest.Member{
		desired.CNIFolder: func(t *testing.T) *daemontest.Member {
			return daemontest.NewFollower(t, daemontest.Options{Heartbeat: time.Minute})
		},
		usersConfigDir: func(t *testing.T) *daemontest.Member {
			m := newUsersNetwork(t, func(*desired.Node) {})
			daemontest.MustWrite(t, m.Windows.Disk(), usersConfig, `{"name": "n", "plugins": [{"type": "users"}]}`)
			m.AwaitVersion(t)
			return m
		},
	} {
		t.Run(folder, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := join(t)
				isLoaded := func() bool {
					ok, err := m.Windows.Host().Runtime.NetworkReady(t.Context())
					return err == nil && ok
				}
				daemontest.Await(t, "containerd has a network", isLoaded)
				before, _ := m.Windows.Disk().List(folder)
				m.Windows.MissNetwork()
				if isLoaded() {
					t.Fatal("containerd did not miss the configuration")
				}
				daemontest.Await(t, "containerd has the network again", isLoaded)
				daemontest.Await(t, "the folder is as it was", func() bool { // a scanner may hold the temporary file
					after, err := m.Windows.Disk().List(folder)
					return err == nil && slices.Equal(before, after) && len(after) == 1
				})
			})
		})
	}
}
