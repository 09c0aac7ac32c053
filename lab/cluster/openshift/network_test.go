//go:build linux

package openshift

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/windows-machine-config/wmco/lab/cluster/ovn/story"
)

// network returns the Network spec from which the network operator rendered the configuration of the recordings.
func network(t *testing.T, hybrid string) NetworkSpec {
	t.Helper()
	n := &unstructured.Unstructured{}
	err := yaml.Unmarshal([]byte(`
spec:
  clusterNetwork: [{cidr: 10.128.0.0/14, hostPrefix: 23}]
  serviceNetwork: [172.30.0.0/16]
  defaultNetwork: {type: OVNKubernetes, ovnKubernetesConfig: {hybridOverlayConfig: `+hybrid+`}}
`), &n.Object)
	if err != nil {
		t.Fatal(err)
	}
	spec, err := ReadNetwork(n)
	if err != nil {
		t.Fatal(err)
	}
	return spec
}

const hybrid = "{hybridClusterNetwork: [{cidr: 10.132.0.0/14, hostPrefix: 23}]}"

func TestRenderedConfigurationMatchesRecordings(t *testing.T) {
	for _, test := range []struct {
		name, hybrid, recording string
		step                    int
	}{
		{"hybrid overlay", hybrid, "01-openshift", 0},
		{"custom port", "{hybridClusterNetwork: [{cidr: 10.132.0.0/14, hostPrefix: 23}], hybridOverlayVXLANPort: 9898}", "02-openshift-port-9898", 0},
		{"no hybrid overlay", "null", "05-openshift-off-and-on", 4},
		{"two ranges", "{hybridClusterNetwork: [{cidr: 10.132.0.0/14, hostPrefix: 23}, {cidr: 10.160.0.0/16, hostPrefix: 24}]}", "01-openshift", 0},
	} {
		steps, err := story.Steps(test.recording)
		if err != nil {
			t.Fatal(err)
		}
		got := settings(network(t, test.hybrid).Render())
		delete(got, "kubernetes.ovn-config-namespace") // the recordings lack these two
		delete(got, "gateway.mode")
		if want := settings(strings.Join(steps[test.step].Start.Conf, "\n")); !maps.Equal(got, want) {
			t.Errorf("%s: got %v, want the recorded %v", test.name, got, want)
		}
	}
}

// settings returns the settings in a configuration file by "section.key".
func settings(conf string) map[string]string {
	all, section := map[string]string{}, ""
	for line := range strings.Lines(conf) {
		line = strings.TrimSpace(line)
		if key, value, ok := strings.Cut(line, "="); ok {
			all[section+"."+key] = value
		} else {
			section = strings.Trim(line, "[]")
		}
	}
	return all
}

func TestRenderedConfigurationHasInternalSubnets(t *testing.T) {
	n := network(t, hybrid)
	n.DefaultNetwork.OVN.IPv4.Join, n.DefaultNetwork.OVN.IPv4.Transit, n.DefaultNetwork.OVN.Gateway.IPv4.Masquerade = "10.1.0.0/16", "10.2.0.0/16", "10.3.0.0/17"
	got := settings(n.Render())
	for key, want := range map[string]string{
		"gateway.v4-join-subnet": `"10.1.0.0/16"`, "clustermanager.v4-transit-subnet": `"10.2.0.0/16"`, "gateway.v4-masquerade-subnet": `"10.3.0.0/17"`,
	} {
		if got[key] != want {
			t.Errorf("got %s %s, want %s; all keys: %v", key, got[key], want, slices.Sorted(maps.Keys(got)))
		}
	}
}

func TestChangesOfRunningHybridOverlayAreRejected(t *testing.T) {
	off, on, other := network(t, "null"), network(t, hybrid), network(t, strings.Replace(hybrid, "23", "24", 1))
	for _, test := range []struct {
		name          string
		current, next *NetworkSpec
		valid         bool
	}{
		{"first configuration", nil, &on, true},
		{"switched on", &off, &on, true},
		{"switched off", &on, &off, true},
		{"changed hostPrefix, although it has no effect", &on, &other, false},
		{"unchanged", &on, &on, true},
	} {
		if err := test.next.validateChange(test.current); (err == nil) != test.valid {
			t.Errorf("%s: got error %v, want valid %t", test.name, err, test.valid)
		}
	}
}
