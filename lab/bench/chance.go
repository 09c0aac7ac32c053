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

// How much is tried by chance.
const (
	hoursOfServices = 1000
	proxySeeds      = 20
	fleetSeeds      = 500
	unkindHosts     = 1000
)

// measureChance plays fleets by chance with the operator's controllers, and counts those in which it broke a rule of docs/fleet.md.
func measureChance(ctx context.Context, s *sheet) error {
	s.say("%d simulated fleets (some minutes)", fleetSeeds)
	out, err := s.goTest(ctx, "..", fmt.Sprintf("WMCO_CHAOS_SEEDS=%d", fleetSeeds), "TestRandomFleets", "./internal/operator/controllers/storytest")
	m := regexp.MustCompile(`evictions per needed: ([0-9.]+)`).FindSubmatch(out)
	failed := bytes.Count(out, []byte("--- FAIL: TestRandomFleets/seed/"))
	if m == nil || failed+bytes.Count(out, []byte("--- PASS: TestRandomFleets/seed/")) != fleetSeeds {
		return fmt.Errorf("playing fleets by chance: %w: %s", err, out)
	}
	evictions, _ := strconv.ParseFloat(string(m[1]), 64)
	s.number("chaos.budget_violations", float64(failed), "count")
	s.number("chaos.evictions_per_needed", evictions, "ratio")
	return nil
}

// measureRepairs plays hours of random Services with WICD's judgement of the network, and counts the repairs that nothing required.
func measureRepairs(ctx context.Context, s *sheet) error {
	s.say("%d simulated hours of Services (minutes)", hoursOfServices)
	out, err := s.goTest(ctx, "..", fmt.Sprintf("WMCO_HOURS=%d", hoursOfServices), "TestHoursOfServices", "./internal/node/daemon/podnetwork")
	m := regexp.MustCompile(`(\d+) hours: (\d+) false restarts, (\d+) false removals`).FindSubmatch(out)
	if m == nil {
		return fmt.Errorf("playing hours of Services: %w: %s", err, out)
	}
	hours, _ := strconv.ParseFloat(string(m[1]), 64)
	for i, name := range []string{"repair.false_restarts_24h", "repair.false_removals_24h"} {
		count, _ := strconv.ParseFloat(string(m[i+2]), 64)
		s.number(name, count*24/hours, "count")
	}
	return nil
}

// measureProxy gives random Services to the real kube-proxy.exe of each minor version, and counts the clusters in which it makes other load
// balancers than WICD expects.
func measureProxy(ctx context.Context, s *sheet) error {
	s.say("%d clusters of random Services with kube-proxy.exe (half a minute each)", proxySeeds)
	out, err := s.goTest(ctx, ".", fmt.Sprintf("WMCO_PROXY_SEEDS=%d", proxySeeds), "TestKubeProxyMatchesPredictions", ".")
	passed, failed := bytes.Count(out, []byte("    --- PASS")), bytes.Count(out, []byte("    --- FAIL"))
	if passed+failed != proxySeeds {
		return fmt.Errorf("comparing with kube-proxy.exe: %w: %s", err, out)
	}
	s.number("proxy.differences", float64(failed), "count")
	return nil
}

// measureUnkind joins simulated hosts with random quirks.
func measureUnkind(ctx context.Context, s *sheet) error {
	s.say("%d simulated hosts with quirks of Windows by chance (minutes)", unkindHosts)
	out, err := s.goTest(ctx, "..", fmt.Sprintf("WMCO_QUIRKS_SEEDS=%d", unkindHosts), "TestHostsJoinDespiteWindowsQuirks", "./internal/operator/controllers/storytest")
	m := regexp.MustCompile(`quirks: (\d+) of (\d+) hosts are Ready within 30m0s, (\d+) later, (\d+) need a person; restarts at most (\d+), networks deleted (\d+), addresses lost (\d+)`).FindSubmatch(out)
	if m == nil {
		return fmt.Errorf("letting hosts with quirks join: %w: %s", err, out)
	}
	for i, name := range []string{"joined_of_1000", "", "joined_later", "need_a_person", "restarts_max", "networks_deleted", "addresses_lost"} {
		if count, _ := strconv.ParseFloat(string(m[i+1]), 64); name != "" {
			s.number("unkind."+name, count, "count")
		}
	}
	return err
}

// goTest runs one test of a module of this repository. It counts and does not measure, and may use more memory to be faster.
func (s *sheet) goTest(ctx context.Context, folder, variable, test, of string) ([]byte, error) {
	dir, err := filepath.Abs(folder)
	if err != nil {
		return nil, err
	}
	c := exec.CommandContext(ctx, "go", "test", "-vet=off", "-count=1", "-v", "-timeout", "3h", "-run", test+"$", of)
	c.Dir, c.Env = dir, append(os.Environ(), "GOGC=400", variable)
	return c.CombinedOutput()
}
