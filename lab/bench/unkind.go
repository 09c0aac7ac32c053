//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/testenv"
)

const (
	unkindHosts = 1000
	factsCalls  = 11
)

// measureUnkind joins simulated hosts with random quirks, and queries the facts of a Windows host.
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
	return errors.Join(err, measureFacts(ctx, s))
}

// measureFacts measures WICD's answer about its host, as each visit begins with it.
func measureFacts(ctx context.Context, s *sheet) error {
	if err := lab.CanRunWindows(); err != nil {
		return err
	}
	st, err := openStage(ctx, s, testenv.Options{WineHosts: 1})
	if err != nil {
		return err
	}
	defer st.Close()
	hosts := st.waiting
	if _, err := st.join(ctx, hosts); err != nil {
		return err
	}
	service, found, err := hosts[0].Service(ctx, api.WICDService)
	if err != nil || !found {
		return fmt.Errorf("looking for WICD: found %v: %w", found, err)
	}
	program, _, _ := strings.Cut(service.Command, " ")
	var took []float64
	for range factsCalls {
		began := time.Now()
		if r, err := hosts[0].Exec(ctx, program+" facts"); err != nil || r.ExitCode != 0 {
			return fmt.Errorf("asking for facts: %+v: %w", r, err)
		}
		took = append(took, float64(time.Since(began).Milliseconds()))
	}
	s.number("wicd.facts_ms", median(took), "ms")
	return nil
}
