package daemon_test

import (
	"testing"
	"testing/synctest"

	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

// TestANetworkThatContainerdMissedIsLoaded makes containerd miss the configuration of the pod network when it is written.
func TestANetworkThatContainerdMissedIsLoaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newPodHost(t, nil)
		isLoaded := func() bool {
			ok, err := m.windows.Host().Runtime.NetworkReady(t.Context())
			return err == nil && ok
		}
		m.await(t, "the runtime has a network", isLoaded)
		m.windows.MissNetwork()
		if isLoaded() {
			t.Fatal("the runtime has missed nothing")
		}
		m.await(t, "the runtime has the network again", isLoaded)
		m.await(t, "the folder has its configuration alone again", func() bool { // the runtime reads it before the second change
			names, err := m.windows.Disk().List(desired.CNIFolder)
			return err == nil && len(names) == 1
		})
	})
}
