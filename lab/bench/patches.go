//go:build linux

package main

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"strconv"
)

// patchedHosts is the number of simulated hosts that install an update.
const patchedHosts = 200

// measurePatches has simulated hosts install an update of Windows, and Wine hosts with pods; and joins a prepared machine.
func measurePatches(ctx context.Context, s *sheet) error {
	s.logf("%d simulated hosts install an update (minutes)", patchedHosts)
	out, err := s.goTest(ctx, "..", fmt.Sprintf("WMCO_PATCH_HOSTS=%d", patchedHosts), "TestUpdatesOfFleet", "./internal/operator/controllers/storytest")
	took, err := numbersIn(out, err, `updates: \d+ hosts, \d+ at a time: (\d+) s, bound (\d+) s`)
	if err != nil {
		return err
	}
	s.number("updates.seconds_200", took[0], "s")
	s.number("updates.seconds_over_bound", took[0]/took[1], "ratio")

	s.logf("two Wine hosts install updates, and a prepared machine joins (minutes)")
	out, err = s.goTest(ctx, ".", "WMCO_SPEED=2", "(TestWindowsUpdates|TestPreparedMachineJoinsWithoutTransfer)", "./suites/e2e")
	lost, err := numbersIn(out, err, `(\d+) requests were answered, (\d+) failed`)
	if err != nil {
		return err
	}
	outage, err := numbersIn(out, nil, `out of service for ([0-9.]+) s, for a restart alone ([0-9.]+) s`)
	if err != nil {
		return err
	}
	joined, err := numbersIn(out, nil, `joined in ([0-9.]+) s, (\d+) bytes sent`)
	if err != nil {
		return err
	}
	s.number("updates.requests", lost[0], "count")
	s.number("updates.requests_lost", lost[1], "count")
	s.number("updates.out_of_service_seconds_over_restart", outage[0]/outage[1], "ratio")
	s.number("prepared.join_seconds", joined[0], "s")
	s.number("prepared.request_bytes", joined[1], "bytes")
	return nil
}

// numbersIn returns the two numbers of a line in the output of a test that passed.
func numbersIn(out []byte, err error, line string) (found [2]float64, _ error) {
	m := regexp.MustCompile(line).FindSubmatch(out)
	if err != nil || m == nil || bytes.Contains(out, []byte("--- FAIL")) {
		return found, fmt.Errorf("running a test for %q: %w: %s", line, err, out)
	}
	for i := range found {
		found[i], err = strconv.ParseFloat(string(m[i+1]), 64)
		if err != nil {
			return found, fmt.Errorf("parsing %q: %w", m[0], err)
		}
	}
	return found, nil
}
