package source

import (
	"slices"
	"testing"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/controllertest"
)

func TestMachineConfirmsOnlyOwnInstanceAddresses(t *testing.T) {
	const status = `status: {phase: Running, addresses: [{type: InternalIP, address: 10.0.0.1}, {type: InternalDNS, address: A.internal},
  {type: ExternalIP, address: 203.0.113.7}, {type: ExternalDNS, address: a.example}, {type: Other, address: other.example}]}`
	w := newSources(t, aMachine("machine", "win-a", "", status), aMachine("cluster", "win-a", "10.0.0.2"),
		aMachine("machine", "linux", "", status, "metadata: {labels: {a: b}}"))
	w.pass()
	for _, test := range []struct {
		source, machine string
		want            []string
	}{
		{api.SourceMachine, "openshift-machine-api/win-a", []string{"10.0.0.1", "a.internal", "203.0.113.7", "a.example"}},
		{api.SourceClusterAPI, "openshift-machine-api/win-a", nil},
		{api.SourceMachine, "openshift-machine-api/win-b", nil},
		{api.SourceMachine, "openshift-machine-api/linux", nil},
		{api.SourceMachine, "win-a", nil},
		{"", "", nil},
	} {
		i := controllertest.Instance("win-a", test.source, test.machine, "10.0.0.1")
		if got := w.machineAPI.AddressesOf(t.Context(), i); !slices.Equal(got, test.want) {
			t.Errorf("of %s %q it has %v, want %v", test.source, test.machine, got, test.want)
		}
	}
}
