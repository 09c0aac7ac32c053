package daemon_test

import (
	"slices"
	"testing"

	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

// The operator checks the facts before it sends content: they must include every foreign service with one of the operator's names. The list was
// once maintained by hand, and lacked flanneld.
func TestForeignServicesAreListedInFacts(t *testing.T) {
	for _, name := range desired.Services() {
		t.Run(name, func(t *testing.T) {
			w := newWindows(t, sim.WindowsOptions{})
			foreign := desired.Service{Name: name, Description: "somebody's", Command: `C:\somebody\service.exe`}
			if _, err := w.Host().Services.Put(t.Context(), foreign); err != nil {
				t.Fatal(err)
			}
			var got wicdapi.Facts
			if err := wicdapi.Call(t.Context(), newWire(w), wicdapi.CommandFacts, nil, &got, nil); err != nil {
				t.Fatal(err)
			}
			isForeign := func(s wicdapi.ServiceFacts) bool { return s.Name == name && !s.Ours }
			if !slices.ContainsFunc(got.Services, isForeign) {
				t.Errorf("the services are %+v, without %s", got.Services, name)
			}
		})
	}
}
