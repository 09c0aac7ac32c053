package contract

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windows-machine-config/wmco/internal/shared/hns"
)

// OverlayByID is the part of the overlay's port that operates on one network, given by its ID. Overlay must implement it, too.
type OverlayByID interface {
	// HasNetwork reports whether the network exists.
	HasNetwork(ctx context.Context, id string) (bool, error)
	// AddHostRoute adds the host's own route to the network's endpoints. It may already exist.
	AddHostRoute(ctx context.Context, network string) error
}

func aCloseLookHasTheSame(t *testing.T, f NetworksFixture) {
	want := mustBalance(t, f)
	got, err := f.Networks.ReadObjects(deadline(t), []string{want.Endpoints[0].ID, absent})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, equal()...); diff != "" {
		t.Errorf("a close look (-want +got):\n%s", diff)
	}
}

// aNetworkIsFoundByItsID also adds the host's route later, more than once.
func aNetworkIsFoundByItsID(t *testing.T, f NetworksFixture) {
	wanted := overlayNetwork()
	wanted.HostRoute = false
	n := mustCreateNetwork(t, f, wanted)
	overlay, ok := f.Overlay.(OverlayByID)
	if !ok {
		t.Fatal("it asks nothing of one network")
	}
	for id, want := range map[string]bool{n.ID: true, absent: false} {
		if got, err := overlay.HasNetwork(deadline(t), id); got != want || err != nil {
			t.Errorf("network %s is there: %t, %v; want %t", id, got, err, want)
		}
	}
	for range 2 {
		if err := overlay.AddHostRoute(deadline(t), n.ID); err != nil {
			t.Errorf("adding the host's route: %v", err)
		}
	}
	n.HostRoute = true
	expectNetworks(t, f, n)
	expectError(t, "a route to a network that is not there", overlay.AddHostRoute(deadline(t), absent), hns.ErrNotFound)
}
