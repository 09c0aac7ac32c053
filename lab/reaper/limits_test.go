//go:build linux

package main

import (
	"testing"

	"github.com/windows-machine-config/wmco/lab/windows/guestapi"
)

func TestLimitsAreConvertedForKernel(t *testing.T) {
	const mb = 1 << 20
	for name, test := range map[string]struct {
		limits guestapi.Limits
		want   limits
	}{
		"none":                        {guestapi.Limits{}, limits{}},
		"memory with Wine's overhead": {guestapi.Limits{MemoryInMB: 128}, limits{Data: 192 * mb}},
		"half of all processors":      {guestapi.Limits{ProcessorMax: 5000}, limits{Quota: 200_000}},
		"minimum of processors":       {guestapi.Limits{ProcessorMax: 1}, limits{Quota: 1000}},
		"memory and processors":       {guestapi.Limits{MemoryInMB: 1, ProcessorMax: 10000}, limits{Data: 65 * mb, Quota: 400_000}},
	} {
		if got := limitsOf(test.limits, 4); got != test.want {
			t.Errorf("%s: got %+v, want %+v", name, got, test.want)
		}
	}
}
