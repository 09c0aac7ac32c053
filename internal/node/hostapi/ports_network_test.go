package hostapi_test

import (
	"strings"
	"testing"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
)

// TestExcludedPortsAreNamed: https://github.com/docker/for-win/issues/6613
func TestExcludedPortsAreNamed(t *testing.T) {
	p := hostapi.Ports{Excluded: []hostapi.PortRange{{First: 10200, Last: 10299}, {First: 10250, Last: 10250}, {First: 50000, Last: 50099}}}
	if got := p.ExcludedOf([]uint16{9182, 10256, 10250, 10250}); !strings.Contains(got, "10250 (range 10200-10299), 10256 (range 10200-10299);") || strings.Contains(got, "9182") {
		t.Errorf("got %q", got)
	}
	if got := p.ExcludedOf([]uint16{9182, 22}); got != "" {
		t.Errorf("got %q", got)
	}
}

func TestPortShortageIsReported(t *testing.T) {
	for _, test := range []struct {
		first, last         uint16
		services, balancers int
		reported            bool
	}{
		{49152, 65535, 0, 0, false}, {49152, 65535, 208, 208, false}, {49152, 65535, 209, 0, true}, {49152, 65535, 104, 208, false},
		{49152, 65535, 105, 209, true}, {33000, 65535, 300, 300, false}, {33000, 65535, 300, 600, true}, {60000, 65535, 80, 80, true}, {0, 0, 5000, 9000, false},
	} {
		p := hostapi.Ports{Dynamic: hostapi.PortRange{First: test.first, Last: test.last}}
		if got := p.ShortFor(test.services, test.balancers); (got != "") != test.reported || test.reported && !strings.Contains(got, "set dynamicport tcp") {
			t.Errorf("%d-%d with %d Services and %d load balancers: got %q", test.first, test.last, test.services, test.balancers, got)
		}
	}
}
