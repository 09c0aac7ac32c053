package contract

import (
	"context"
	"testing"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
)

// ProbesFixture is a service to probe, for one test.
type ProbesFixture struct {
	Probes hostapi.Probes
	// Address is the address of the service, Absent one of the same kind without a service.
	Address, Absent string
	// Set makes the service healthy or not.
	Set func(healthy bool)
}

// Probes checks the contract of hostapi.Probes. The fixture has one service for each kind of address.
func Probes(t *testing.T, fixture func(t *testing.T) []ProbesFixture) {
	for _, f := range fixture(t) {
		t.Run(f.Address, func(t *testing.T) {
			for _, healthy := range []bool{false, true, false, true} {
				f.Set(healthy)
				if err := f.Probes.Probe(deadline(t), f.Address); (err == nil) != healthy {
					t.Errorf("Probe() = %v, and the service works: %v", err, healthy)
				}
			}
			if err := f.Probes.Probe(deadline(t), f.Absent); err == nil {
				t.Error("Probe() of an address without a service returned no error")
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
			defer cancel()
			if err := f.Probes.Probe(ctx, f.Address); err == nil {
				t.Error("Probe() returned no error after the end of its context")
			}
		})
	}
}
