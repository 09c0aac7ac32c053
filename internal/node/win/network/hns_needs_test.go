package network

import "testing"

func TestServicesThatTheHostNetworkServiceNeedsAreNamed(t *testing.T) {
	for name, test := range map[string]struct {
		stopped map[string]string
		want    string
	}{
		"all run":       {nil, "; service hns is running, and so are the services that it is known to need"},
		"hns is off":    {map[string]string{"hns": "is stopped", "Dnscache": "is disabled"}, ""},
		"hardened host": {map[string]string{"Dnscache": "is disabled", "vmcompute": "is stopped"}, "; service hns is running, and of the services that it needs: Dnscache is disabled, vmcompute is stopped"},
	} {
		if got := needs(func(service string) string { return test.stopped[service] }); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}
