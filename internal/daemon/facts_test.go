package daemon_test

import (
	"slices"
	"testing"

	"github.com/windows-machine-config/wmco/internal/agent"
	"github.com/windows-machine-config/wmco/internal/desired"
	"github.com/windows-machine-config/wmco/internal/sim"
)

// The operator looks at the facts before it sends content: a service of somebody else with a name of ours has to be among them, whichever
// it is. The list was kept by hand once, and had forgotten flanneld.
func TestServicesOfOthersWithOurNamesAreFacts(t *testing.T) {
	for _, name := range desired.Services() {
		t.Run(name, func(t *testing.T) {
			w := newWindows(t, sim.WindowsOptions{})
			foreign := desired.Service{Name: name, Description: "somebody's", Command: `C:\somebody\service.exe`}
			if _, err := w.Host().Services.Put(t.Context(), foreign); err != nil {
				t.Fatal(err)
			}
			var got agent.Facts
			if err := agent.Call(t.Context(), newWire(w), agent.CommandFacts, nil, &got, nil); err != nil {
				t.Fatal(err)
			}
			isForeign := func(s agent.ServiceFacts) bool { return s.Name == name && !s.Ours }
			if !slices.ContainsFunc(got.Services, isForeign) {
				t.Errorf("the services are %+v, without %s", got.Services, name)
			}
		})
	}
}
