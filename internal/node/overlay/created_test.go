package overlay

import (
	"encoding/json"
	"log/slog"
	"maps"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windows-machine-config/wmco/internal/shared/hns"
)

func TestCreatedNetworksFileRoundTrips(t *testing.T) {
	folder := t.TempDir()
	m := readCreated(folder, slog.New(slog.DiscardHandler))
	for i, n := range (Settings{Adapter: "Ethernet 2", VXLANPort: 9898}).Networks(netip.MustParsePrefix("10.132.1.0/24")) {
		created := n
		created.ID = string(rune('a' + i))
		m.add(created, n)
		created.ID = string(rune('m' + i))
		m.add(created, n) // replaces the one before
	}
	m.update(hns.Network{ID: "n", RouterMAC: "00-15-5D-00-00-01", ManagementIP: netip.MustParseAddr("192.0.2.1")})
	m.update(hns.Network{ID: "another's", HostRoute: true})
	again := readCreated(folder, slog.New(slog.DiscardHandler))
	if diff := cmp.Diff(m.have, again.have, compare()); diff != "" || len(m.have) != 2 {
		t.Errorf("%d networks (-want +got):\n%s", len(m.have), diff)
	}
	if pods := again.have["n"]; !pods.HostRoute || !pods.HadAddresses || pods.Port != 9898 || again.idOf(Network) != "n" || again.have["m"].HadAddresses {
		t.Errorf("%+v", again.have)
	}
	again.remove("n")
	if left := readCreated(folder, slog.New(slog.DiscardHandler)); len(left.have) != 1 || left.idOf(Network) != "" {
		t.Errorf("after its removal: %+v", left.have)
	}
}

const oneMade = `{"name":"OVNKubernetesHybridOverlayNetwork","subnet":"10.132.1.0/24","gateway":"10.132.1.1","vni":4097}`

func TestDamagedCreatedNetworksFileIsIgnored(t *testing.T) {
	if got, err := parseCreated([]byte(`{"version":1,"networks":{"a":` + oneMade + `}}`)); err != nil || len(got) != 1 {
		t.Fatalf("%v, %v", got, err)
	}
	one := func(old, replacement string) string {
		return `{"version":1,"networks":{"a":` + strings.Replace(oneMade, old, replacement, 1) + `}}`
	}
	for name, text := range map[string]string{
		"empty": "", "cut": one("}", ""), "followed by more": one("", "") + "x", "other version": `{"version":2,"networks":{}}`, "nothing": `{"version":1}`,
		"unknown field": `{"version":1,"networks":{},"more":1}`, "another network": one("OVN", "X"), "no ID": `{"version":1,"networks":{"":` + oneMade + `}}`,
		"an ID in capitals": `{"version":1,"networks":{"A":` + oneMade + `}}`, "host bits": one("1.0/24", "1.7/24"), "gateway elsewhere": one("10.132.1.1", "10.9.1.1"),
		"no subnet": one("10.132.1.0/24", ""), "IPv6": one(`"10.132.1.0/24","gateway":"10.132.1.1"`, `"fd00::/64","gateway":"fd00::1"`),
		"a long name": one(`"vni"`, `"adapter":"`+strings.Repeat("a", 600)+`","vni"`),
	} {
		if got, err := parseCreated([]byte(text)); err == nil {
			t.Errorf("%s: read as %v", name, got)
		}
	}
}

// FuzzCreated checks that what is read from the file is bounded, and is written in the same form.
func FuzzCreated(f *testing.F) {
	f.Add([]byte(`{"version":1,"networks":{"a":` + oneMade + `}}`))
	f.Add([]byte(`{"version":1,"networks":{}} x`))
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := parseCreated(text)
		if err != nil {
			if len(err.Error()) > 700+len(text) {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
			return
		}
		written, err := json.Marshal(storedCreated{createdVersion, got})
		if err != nil {
			t.Fatal(err)
		}
		again, err := parseCreated(written)
		if err != nil || !maps.Equal(again, got) || len(got) > maxCreated {
			t.Errorf("%q becomes %v, then %v (%v)", text, got, again, err)
		}
	})
}
