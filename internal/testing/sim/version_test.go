package sim_test

import (
	"strings"
	"testing"

	"github.com/windows-machine-config/wmco/internal/testing/sim"
	"github.com/windows-machine-config/wmco/payload/payloadtest"
)

func TestSimulatedNodesReportPayloadVersions(t *testing.T) {
	if want := payloadtest.Version(t, "../../..", "kubelet"); sim.KubeletVersion != want {
		t.Errorf("simulated nodes have kubelet %s, want %s", sim.KubeletVersion, want)
	}
	if want := "containerd://" + strings.TrimPrefix(payloadtest.Version(t, "../../..", "containerd"), "v"); sim.ContainerRuntime != want {
		t.Errorf("simulated nodes have %s, want %s", sim.ContainerRuntime, want)
	}
}
