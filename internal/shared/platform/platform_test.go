package platform_test

import (
	"testing"

	"github.com/windows-machine-config/wmco/internal/shared/platform"
)

func TestEveryPlatformHasRow(t *testing.T) {
	kinds := map[string]string{
		platform.AWS: "AWSMachine", platform.Azure: "AzureMachine", platform.GCP: "GCPMachine",
		platform.VSphere: "VSphereMachine", platform.Nutanix: "NutanixMachine",
	}
	for name, kind := range kinds {
		row := platform.Of(name)
		if row.Name != name || len(row.MachineKinds) == 0 || row.Username == "" {
			t.Errorf("%s has the row %+v", name, row)
		}
		if got := platform.OfMachine(kind); got != name {
			t.Errorf("a %s is on %q, want %s", kind, got, name)
		}
	}
}

func TestUnknownPlatformIsBareMetal(t *testing.T) {
	if p := platform.Of("None"); p.Name != "None" || p.Username != "Administrator" || p.NamesNodes || p.NamesHosts || p.MetadataRoute != 0 || p.VXLANPort != 0 {
		t.Errorf("got %+v", p)
	}
	if got := platform.OfMachine("KubemarkMachine"); got != "" {
		t.Errorf("a Machine without a provider is on %q", got)
	}
}
