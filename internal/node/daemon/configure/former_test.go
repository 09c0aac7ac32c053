package configure

import (
	"strings"
	"testing"

	"github.com/windows-machine-config/wmco/internal/node/daemon/state"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

func TestUnresolvableRecordNamesCluster(t *testing.T) {
	d := hostapi.Disk{Root: t.TempDir()}
	var r state.Record
	r.Cluster, r.Node = "a cluster", "win-1"
	r.Desired.SecretsVersion = "its secrets are missing"
	r.Desired.Services = []desired.Service{{Name: "kubelet"}}
	if _, err := r.Write(d); err != nil {
		t.Fatal(err)
	}
	got, err := readFormer(d)
	if err != nil || got.Cluster != "a cluster" || len(got.wanted.Services) != 1 {
		t.Errorf("got cluster %q, services %v, %v", got.Cluster, got.wanted.Services, err)
	}
}

func TestJoinReportsNeededRestartOfNode(t *testing.T) {
	err := (&windows{rebooting: []cause{{"a key", "the feature takes effect after a restart"}}}).restart(t.Context())
	failed := wicdapi.Failed(err)
	if failed == nil || failed.Code != wicdapi.CodeRebootNeeded || strings.Contains(failed.Message, "allow it") {
		t.Errorf("got %v", err)
	}
}
