package podnetwork

import (
	"log/slog"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/internal/node/daemon/state"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

// noImage is a host without the sandbox image.
type noImage struct{}

func (noImage) IsPresent() bool { return false }

// TestConfigurationIsReplacedWithoutGap also runs without the sandbox image: pods run already.
func TestConfigurationIsReplacedWithoutGap(t *testing.T) {
	reversed := desired.CNIConfigs()
	slices.Reverse(reversed)
	for _, paths := range [][]string{desired.CNIConfigs(), reversed} {
		former, wanted := paths[0], paths[1]
		d := hostapi.Disk{Root: t.TempDir()}
		if _, err := d.WriteFile(former, "{}"); err != nil {
			t.Fatal(err)
		}
		plain := d
		d.Before = func(op, name string) error {
			if !plain.Exists(former) && !plain.Exists(wanted) {
				t.Errorf("before %s %s, there is no configuration", op, name)
			}
			return nil
		}
		s := state.Session{Host: hostapi.Host{Disk: d}, Log: slog.New(slog.DiscardHandler)}
		n := &reconciliation{
			Reconciler: &Reconciler{Session: s, wake: state.NewSignal(), sandbox: noImage{}},
			want:       desired.Network{Files: []desired.File{{Path: wanted, Content: `{"name":"{{.Network}}"}`}}},
		}
		if err := n.write(desired.NetworkValues{Network: "pods"}, &networkPlan{}); err != nil {
			t.Fatal(err)
		}
		if plain.Exists(former) || !plain.Exists(wanted) {
			t.Errorf("%s exists: %t, %s: %t", former, plain.Exists(former), wanted, plain.Exists(wanted))
		}
	}
}

// TestUsersNetworkReplacesList is a node that enforced policies in its former network.
func TestUsersNetworkReplacesList(t *testing.T) {
	d := hostapi.Disk{Root: t.TempDir()}
	names := desired.CNIConfigs()
	if _, err := d.WriteFile(names[1], "{}"); err != nil {
		t.Fatal(err)
	}
	c := CNI{Session: state.Session{Host: hostapi.Host{Disk: d}, Log: slog.New(slog.DiscardHandler)}, Sandbox: noImage{}}
	c.Record.Desired.CNI = &desired.CNI{Path: names[0], Content: `{"name":"l2","type":"win-bridge"}`}
	if err := c.Configure(&corev1.Node{Spec: corev1.NodeSpec{PodCIDR: "10.132.7.0/24"}}); err != nil {
		t.Fatal(err)
	}
	if d.Exists(names[1]) || !d.Exists(names[0]) {
		t.Errorf("%s exists: %t, %s: %t", names[0], d.Exists(names[0]), names[1], d.Exists(names[1]))
	}
}
