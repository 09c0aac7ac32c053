//go:build linux

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
)

// The number of random cases in each measurement.
const (
	hoursOfServices = 1000
	proxySeeds      = 20
	fleetSeeds      = 500
	quirkyHosts     = 1000
)

// measureRandomFleets simulates random fleets with the operator's controllers, and counts those that violated a rule of docs/fleet.md.
func measureRandomFleets(ctx context.Context, s *sheet) error {
	s.logf("%d simulated fleets (some minutes)", fleetSeeds)
	out, err := s.goTest(ctx, "..", fmt.Sprintf("WMCO_CHAOS_SEEDS=%d", fleetSeeds), "TestRandomFleets", "./internal/operator/controllers/storytest")
	m := regexp.MustCompile(`evictions per needed: ([0-9.]+)`).FindSubmatch(out)
	failed := bytes.Count(out, []byte("--- FAIL: TestRandomFleets/seed/"))
	if m == nil || failed+bytes.Count(out, []byte("--- PASS: TestRandomFleets/seed/")) != fleetSeeds {
		return fmt.Errorf("simulating random fleets: %w: %s", err, out)
	}
	evictions, _ := strconv.ParseFloat(string(m[1]), 64)
	s.number("chaos.budget_violations", float64(failed), "count")
	s.number("chaos.evictions_per_needed", evictions, "ratio")
	return nil
}

// measureRepairs simulates hours of random Services, and counts WICD's unnecessary repairs of the network.
func measureRepairs(ctx context.Context, s *sheet) error {
	s.logf("%d simulated hours of Services (minutes)", hoursOfServices)
	out, err := s.goTest(ctx, "..", fmt.Sprintf("WMCO_HOURS=%d", hoursOfServices), "TestHoursOfServices", "./internal/node/daemon/podnetwork")
	m := regexp.MustCompile(`(\d+) hours: (\d+) false restarts, (\d+) false removals`).FindSubmatch(out)
	if m == nil {
		return fmt.Errorf("simulating hours of Services: %w: %s", err, out)
	}
	hours, _ := strconv.ParseFloat(string(m[1]), 64)
	for i, name := range []string{"repair.false_restarts_24h", "repair.false_removals_24h"} {
		count, _ := strconv.ParseFloat(string(m[i+2]), 64)
		s.number(name, count*24/hours, "count")
	}
	return nil
}

// measureProxy runs the real kube-proxy.exe of each minor version with random Services, and counts the clusters in which its
// load balancers differ from WICD's predictions.
func measureProxy(ctx context.Context, s *sheet) error {
	s.logf("%d clusters of random Services with kube-proxy.exe (half a minute each)", proxySeeds)
	out, err := s.goTest(ctx, ".", fmt.Sprintf("WMCO_PROXY_SEEDS=%d", proxySeeds), "TestKubeProxyMatchesPredictions", ".")
	passed, failed := bytes.Count(out, []byte("    --- PASS")), bytes.Count(out, []byte("    --- FAIL"))
	if passed+failed != proxySeeds {
		return fmt.Errorf("comparing with kube-proxy.exe: %w: %s", err, out)
	}
	s.number("proxy.differences", float64(failed), "count")
	return nil
}

// measureQuirks joins simulated hosts with random quirks.
func measureQuirks(ctx context.Context, s *sheet) error {
	s.logf("%d simulated hosts with random quirks of Windows (minutes)", quirkyHosts)
	out, err := s.goTest(ctx, "..", fmt.Sprintf("WMCO_QUIRKS_SEEDS=%d", quirkyHosts), "TestHostsJoinDespiteWindowsQuirks", "./internal/operator/controllers/storytest")
	m := regexp.MustCompile(`quirks: (\d+) of (\d+) hosts are Ready within 30m0s, (\d+) later, (\d+) need a person; restarts at most (\d+), networks deleted (\d+), addresses lost (\d+)`).FindSubmatch(out)
	if m == nil {
		return fmt.Errorf("joining hosts with quirks: %w: %s", err, out)
	}
	for i, name := range []string{"joined_of_1000", "", "joined_later", "need_a_person", "restarts_max", "networks_deleted", "addresses_lost"} {
		if count, _ := strconv.ParseFloat(string(m[i+1]), 64); name != "" {
			s.number("unkind."+name, count, "count")
		}
	}
	return err
}

// goTest runs one test of a module of this repository. Such tests count results instead of measuring resources, so a higher
// GOGC only makes them faster.
func (s *sheet) goTest(ctx context.Context, folder, variable, test, pkg string) ([]byte, error) {
	dir, err := filepath.Abs(folder)
	if err != nil {
		return nil, err
	}
	c := exec.CommandContext(ctx, "go", "test", "-vet=off", "-count=1", "-v", "-timeout", "3h", "-run", test+"$", pkg)
	c.Dir, c.Env = dir, append(os.Environ(), "GOGC=400", variable)
	return c.CombinedOutput()
}
