package podnetwork

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/node/kubeproxy"
)

// TestPortLimitsAreNoNetworkFault: they are reported before notices, and only while the network works.
func TestPortLimitsAreNoNetworkFault(t *testing.T) {
	services := func(count, ports int) *frontends {
		f := newFrontends("win-1")
		for i := range count {
			s := &kubeproxy.Service{ClusterIP: netip.AddrFrom4([4]byte{10, 96, byte(i / 256), byte(i)})}
			name := types.NamespacedName{Namespace: "ns", Name: fmt.Sprint(i)}
			slice := kubeproxy.EndpointSlice{Service: name, Endpoints: []kubeproxy.Endpoint{{Address: addr("10.132.9.9"), Ready: true, Serving: true}}}
			for port := range uint16(ports) {
				s.Ports = append(s.Ports, kubeproxy.Port{Name: fmt.Sprint(port), Protocol: corev1.ProtocolTCP, Port: 80 + port})
				slice.Ports = append(slice.Ports, kubeproxy.EndpointPort{Name: fmt.Sprint(port), Protocol: corev1.ProtocolTCP, Number: int32(8080 + port)})
			}
			f.putService(name, s, "1", time.Now())
			f.putSlice(name, slice, "1", time.Now())
		}
		f.putService(types.NamespacedName{Namespace: "ns", Name: "headless"}, &kubeproxy.Service{}, "1", time.Now())
		return f
	}
	usual := hostapi.PortRange{First: 49152, Last: 65535}
	for name, test := range map[string]struct {
		ports    hostapi.Ports
		services int
		each     int // ports of a Service
		problem  bool
		want     string
		message  string
	}{
		"few Services":              {ports: hostapi.Ports{Dynamic: usual}, services: 200, each: 1},
		"many Services":             {hostapi.Ports{Dynamic: usual}, 230, 1, false, api.ReasonDynamicPortsShort, "230 Services"},
		"120 Services of two ports": {hostapi.Ports{Dynamic: usual}, 120, 2, false, api.ReasonDynamicPortsShort, "240 load balancers of 120 Services take about 15120 of"},
		"Services without ports":    {hostapi.Ports{Dynamic: usual}, 230, 0, false, api.ReasonDynamicPortsShort, "0 load balancers of 230 Services take about 14490 of"},
		"an excluded port":          {hostapi.Ports{Dynamic: usual, Excluded: []hostapi.PortRange{{First: 10200, Last: 10299}}}, 230, 1, false, api.ReasonPortsExcluded, "230 Services"},
		"other ports are excluded":  {ports: hostapi.Ports{Dynamic: usual, Excluded: []hostapi.PortRange{{First: 50000, Last: 50099}}}, services: 1, each: 1},
		"a fault of the network":    {hostapi.Ports{Dynamic: usual}, 230, 1, true, api.ReasonHNSNetworkMissing, "missing"},
		"the range is unknown":      {ports: hostapi.Ports{}, services: 5000, each: 1},
	} {
		var p networkPlan
		if test.problem {
			p.problem(api.ReasonHNSNetworkMissing, "missing")
		}
		p.addPortLimits(networkView{ports: test.ports, cluster: services(test.services, test.each)}, []uint16{10250, 9182})
		reason, message, isFault := p.message()
		if reason != test.want || isFault != test.problem || !strings.Contains(message, test.message) || isFault && strings.Contains(message, "Services") {
			t.Errorf("%s: reported %q (fault: %v): %s", name, reason, isFault, message)
		}
	}
	p := networkPlan{notices: []networkProblem{{api.ReasonServiceNotProgrammed, "kube-proxy created none of a Service"}}}
	p.addPortLimits(networkView{ports: hostapi.Ports{Dynamic: usual}, cluster: services(230, 1)}, nil)
	if reason, message, _ := p.message(); reason != api.ReasonDynamicPortsShort || !strings.HasSuffix(message, "kube-proxy created none of a Service") {
		t.Errorf("reported %q: %s", reason, message)
	}
}
