package podnetwork

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/node/kubeproxy"
)

// TestPortsThatWindowsLacksAreNoFaultOfTheNetwork: they are reported before notices, and only while the network works.
func TestPortsThatWindowsLacksAreNoFaultOfTheNetwork(t *testing.T) {
	services := func(count int) *frontends {
		f := newFrontends("win-1")
		for i := range count {
			s := &kubeproxy.Service{ClusterIP: netip.AddrFrom4([4]byte{10, 96, byte(i / 256), byte(i)})}
			f.putService(types.NamespacedName{Namespace: "ns", Name: fmt.Sprint(i)}, s, "1", time.Now())
		}
		f.putService(types.NamespacedName{Namespace: "ns", Name: "headless"}, &kubeproxy.Service{}, "1", time.Now())
		return f
	}
	usual := hostapi.PortRange{First: 49152, Last: 65535}
	for name, test := range map[string]struct {
		ports    hostapi.Ports
		services int
		problem  bool
		want     string
	}{
		"nothing":                {hostapi.Ports{Dynamic: usual}, 200, false, ""},
		"many Services":          {hostapi.Ports{Dynamic: usual}, 230, false, api.ReasonDynamicPortsShort},
		"an excluded port":       {hostapi.Ports{Dynamic: usual, Excluded: []hostapi.PortRange{{First: 10200, Last: 10299}}}, 230, false, api.ReasonPortsExcluded},
		"others are excluded":    {hostapi.Ports{Dynamic: usual, Excluded: []hostapi.PortRange{{First: 50000, Last: 50099}}}, 1, false, ""},
		"a fault of the network": {hostapi.Ports{Dynamic: usual}, 230, true, api.ReasonHNSNetworkMissing},
		"Windows does not tell":  {hostapi.Ports{}, 5000, false, ""},
	} {
		var p networkPlan
		if test.problem {
			p.problem(api.ReasonHNSNetworkMissing, "gone")
		}
		p.judgePorts(networkView{ports: test.ports, told: services(test.services)}, []uint16{10250, 9182})
		reason, message, isFault := p.message()
		if reason != test.want || isFault != test.problem || (!isFault && test.services == 230) != strings.Contains(message, "230 Services") {
			t.Errorf("%s: told %v %q: %s", name, isFault, reason, message)
		}
	}
	p := networkPlan{notices: []networkProblem{{api.ReasonServiceNotProgrammed, "kube-proxy created none of a Service"}}}
	p.judgePorts(networkView{ports: hostapi.Ports{Dynamic: usual}, told: services(230)}, nil)
	if reason, message, _ := p.message(); reason != api.ReasonDynamicPortsShort || !strings.HasSuffix(message, "kube-proxy created none of a Service") {
		t.Errorf("told %q: %s", reason, message)
	}
}
