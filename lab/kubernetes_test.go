//go:build linux

package lab

import (
	"path/filepath"
	"testing"

	payloadbuild "github.com/windows-machine-config/wmco/payload/build"
	"github.com/windows-machine-config/wmco/payload/payloadtest"
)

// TestControlPlaneVersionsMatchKubeletVersions compares the pins. The lab's own module pins the newest minor version.
func TestControlPlaneVersionsMatchKubeletVersions(t *testing.T) {
	minors := payloadbuild.Minors()
	for i, minor := range minors {
		module := filepath.Join("cluster", "kubernetes", minor)
		if i == len(minors)-1 {
			module = "."
		}
		got, err := pinnedVersion(t.Context(), module, kubernetesModule)
		if err != nil {
			t.Error(err)
		}
		if want := payloadtest.Version(t, "..", "kubelet-"+minor); got != want {
			t.Errorf("the control plane of %s has version %s, its kubelet %s", minor, got, want)
		}
	}
}
