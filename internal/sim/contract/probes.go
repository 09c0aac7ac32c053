package contract

import (
	"context"
	"testing"
	"time"

	"github.com/windows-machine-config/wmco/internal/host"
)

// ProbesFixture is one service that can be asked, for one test.
type ProbesFixture struct {
	Probes host.Probes
	// Address is where the service answers, Absent an address of the same kind at which nobody does.
	Address, Absent string
	// Set makes the service answer well, or not.
	Set func(well bool)
}

// Probes checks that services are asked as daemon.Probes promises. The fixture gives one service for each kind of address.
func Probes(t *testing.T, fixture func(t *testing.T) []ProbesFixture) {
	for _, f := range fixture(t) {
		t.Run(f.Address, func(t *testing.T) {
			for _, well := range []bool{false, true, false, true} {
				f.Set(well)
				if err := f.Probes.Probe(deadline(t), f.Address); (err == nil) != well {
					t.Errorf("Probe() = %v, and the service works: %v", err, well)
				}
			}
			if err := f.Probes.Probe(deadline(t), f.Absent); err == nil {
				t.Error("nobody is there, and Probe() returned no error")
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
			defer cancel()
			if err := f.Probes.Probe(ctx, f.Address); err == nil {
				t.Error("the context was over, and Probe() returned no error")
			}
		})
	}
}
