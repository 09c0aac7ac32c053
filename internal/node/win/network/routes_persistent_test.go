package network

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/windows-machine-config/wmco/internal/node/hostnetwork"
)

func staticRoute(to, gateway string, metric uint32) hostnetwork.Route {
	return hostnetwork.Route{To: netip.MustParsePrefix(to), Gateway: netip.MustParseAddr(gateway), Metric: metric}
}

func TestRoutesOfTheRegistryAreRead(t *testing.T) {
	got := parseRouteNames([]string{
		"10.9.0.0,255.255.0.0,192.0.2.253,7", "10.8.0.0,255.255.0.0,192.0.2.253,-1", "0.0.0.0,0.0.0.0,192.0.2.254,1",
		"10.9.0.0,255.0.255.0,192.0.2.253,7", "10.9.0.0,255.255.0.0,192.0.2.253", "fd00::,255.255.0.0,192.0.2.253,1", "", "10.9.0.0,255.255.0.0,gateway,1",
	})
	want := []hostnetwork.Route{staticRoute("10.9.0.0/16", "192.0.2.253", 7), staticRoute("10.8.0.0/16", "192.0.2.253", 0), staticRoute("0.0.0.0/0", "192.0.2.254", 1)}
	if !slices.Equal(got, want) {
		t.Errorf("routes %v, want %v", got, want)
	}
}

func TestNetshTableIsReadInAnyLanguage(t *testing.T) {
	want := []hostnetwork.Route{staticRoute("0.0.0.0/0", "192.0.2.254", 1), staticRoute("10.9.0.0/16", "192.0.2.253", 256), staticRoute("10.7.0.0/16", "0.0.0.0", 0)}
	for name, text := range map[string]string{
		"English": "\r\nPublish  Type      Met  Prefix                    Idx  Gateway/Interface Name\r\n" +
			"-------  --------  ---  ------------------------  ---  ------------------------\r\n" +
			"No       Manual    1    0.0.0.0/0                   6  192.0.2.254\r\n" +
			"No       Manual    256  10.9.0.0/16                 6  192.0.2.253\r\n" +
			"No       Manual    0    10.7.0.0/16                 6  Ethernet 2\r\n\r\n",
		"German": "\nVeröff.  Typ       Met  Präfix                    Idx  Gateway/Schnittstelle\n" +
			"-------  --------  ---  ------------------------  ---  ------------------------\n" +
			"Nein     Manuell   1    0.0.0.0/0                   6  192.0.2.254\n" +
			"Nein     Manuell   256  10.9.0.0/16                 6  192.0.2.253\n" +
			"Nein     Manuell   0    10.7.0.0/16                 6  192.0.2.1 ist kein Gateway\n",
	} {
		if got := parseNetshRoutes(text); !slices.Equal(got, want) {
			t.Errorf("%s: routes %v, want %v", name, got, want)
		}
	}
	if got := parseNetshRoutes("The following command was not found: 10.0.0.0/8 show route.\n"); len(got) > 0 {
		t.Errorf("an error is read as %v", got)
	}
}

func TestPersistentRoutesOfAnInterface(t *testing.T) {
	near, far, onLink := staticRoute("10.9.0.0/16", "192.0.2.253", 7), staticRoute("10.8.0.0/16", "198.51.100.1", 7), staticRoute("10.7.0.0/16", "0.0.0.0", 7)
	got := routesOn([]hostnetwork.Route{staticRoute("0.0.0.0/0", "192.0.2.254", 1), near, far, staticRoute("10.9.0.0/16", "192.0.2.253", 256), onLink, staticRoute("224.0.0.0/4", "192.0.2.1", 1)},
		[]netip.Prefix{netip.MustParsePrefix("192.0.2.1/24")})
	if want := []hostnetwork.Route{near, onLink}; !slices.Equal(got, want) {
		t.Errorf("routes %v, want %v", got, want)
	}
}

// FuzzPersistentRoutes checks that any output of Windows results in a limited number of routes that can be added.
func FuzzPersistentRoutes(f *testing.F) {
	f.Add("No Manual 256 10.9.0.0/16 6 192.0.2.253\n", "10.9.0.0,255.255.0.0,192.0.2.253,7")
	f.Add("x 1 ::/0 6 ::1\n1 0.0.0.0/33 2 3", "0.0.0.0,0.0.0.0,0.0.0.0,-9")
	f.Fuzz(func(t *testing.T, table, name string) {
		all := append(parseNetshRoutes(table), parseRouteNames([]string{name})...)
		if len(all) > maxRoutes+1 {
			t.Errorf("%d routes", len(all))
		}
		for _, r := range all {
			if !r.To.IsValid() || r.To != r.To.Masked() || !r.To.Addr().Is4() || !r.Gateway.Is4() {
				t.Errorf("route %+v", r)
			}
		}
	})
}
