//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/payload"
)

// rest is how long a daemon is watched that has nothing to do.
const rest = 2 * time.Minute

// measureRest looks at WICD on a host with real Windows programs that has joined, while nothing happens.
func measureRest(ctx context.Context, s *sheet) error {
	if err := lab.CanRunWindows(); err != nil {
		return fmt.Errorf("a host with real Windows programs is needed: %w", err)
	}
	st, err := openStage(ctx, s)
	if err != nil {
		return err
	}
	defer st.Close()
	hosts, err := st.fresh(ctx, 1)
	if err != nil {
		return err
	}
	if _, err := st.join(ctx, hosts); err != nil {
		return err
	}
	s.say("One host has joined; WICD is watched for %s", rest)
	time.Sleep(30 * time.Second) // what follows a join is over
	before, began := processes(), time.Now()
	time.Sleep(rest)
	after := processes()
	started := 0
	for pid := range after {
		if _, was := before[pid]; !was && isWindows(after[pid]) {
			started++
		}
	}
	requests, err := st.Lab.ControlPlane.Requests(began)
	if err != nil {
		return err
	}
	asked, watches := 0, 0
	for _, r := range requests {
		switch {
		case !strings.HasPrefix(r.User, v1alpha1.WICDUserPrefix):
		case r.Verb == "watch":
			watches++
		default:
			asked++
		}
	}
	s.number("wicd.rss_mb", memoryOf(after), "MB")
	s.number("wicd.processes_started", float64(started), "count")
	s.number("wicd.requests_per_minute", float64(asked)/rest.Minutes(), "count")
	s.number("wicd.watches_begun_per_minute", float64(watches)/rest.Minutes(), "count")
	for _, f := range st.payload.Files {
		if f.Path == payload.WICD {
			s.number("wicd.exe_mb", float64(f.Size)/1e6, "MB")
		}
	}
	return nil
}

// processes are the command lines of all processes of this machine, in which those of Wine hosts are.
func processes() map[int]string {
	found := map[int]string{}
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		line, err := os.ReadFile(filepath.Join("/proc", e.Name(), "cmdline"))
		if err == nil {
			found[pid] = strings.ReplaceAll(string(line), "\x00", " ")
		}
	}
	return found
}

func isWindows(command string) bool { return strings.Contains(command, ".exe") }

// memoryOf is the resident memory of WICD in MB, in which Wine's share is.
func memoryOf(all map[int]string) float64 {
	for pid, command := range all {
		if !strings.Contains(command, "windows-instance-config-daemon.exe run") {
			continue
		}
		kilobytes, _, _ := strings.Cut(field(fmt.Sprintf("/proc/%d/status", pid), "VmRSS"), " ")
		if n, err := strconv.ParseFloat(kilobytes, 64); err == nil {
			return n * 1024 / 1e6
		}
	}
	return 0
}
