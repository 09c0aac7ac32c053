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

	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/testenv"
	"github.com/windows-machine-config/wmco/payload"
)

// idleTime is how long an idle daemon is observed.
const idleTime = 2 * time.Minute

// measureIdle measures WICD on a Wine host that has joined, while nothing happens.
func measureIdle(ctx context.Context, s *sheet) error {
	if err := lab.CanRunWindows(); err != nil {
		return fmt.Errorf("a host on Wine is required: %w", err)
	}
	st, err := openStage(ctx, s, testenv.Options{WineHosts: 1, WholePayload: true})
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
	s.say("One host has joined; observing WICD for %s", idleTime)
	time.Sleep(30 * time.Second) // until the work after a join is done
	before, began := processes(), time.Now()
	time.Sleep(idleTime)
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
	requested, watches := 0, 0
	for _, r := range requests {
		switch {
		case !isDaemons(r):
		case r.Verb == "watch":
			watches++
		default:
			requested++
		}
	}
	for pid, command := range after {
		if strings.Contains(command, "windows-instance-config-daemon.exe run") {
			s.memoryOf(pid, "wicd")
			threads, _ := strconv.ParseFloat(field(fmt.Sprintf("/proc/%d/status", pid), "Threads"), 64)
			s.number("wicd.threads", threads, "count")
		}
	}
	s.number("wicd.processes_started", float64(started), "count")
	s.number("wicd.requests_per_minute", float64(requested)/idleTime.Minutes(), "count")
	s.number("wicd.watches_begun_per_minute", float64(watches)/idleTime.Minutes(), "count")
	for _, f := range st.payload.Files {
		if f.Path == payload.WICD {
			s.number("wicd.exe_mb", float64(f.Size)/1e6, "MB")
		}
	}
	return nil
}

// processes has the command lines of all processes of this machine, including those of Wine hosts.
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

// memoryOf reports a program's resident memory, and which part of it is Wine's: the libraries that it maps, and the program,
// which Wine copies into memory where Windows reads only the used pages. In addition, Wine keeps about a megabyte of each
// thread's stack resident.
func (s *sheet) memoryOf(pid int, name string) {
	status := fmt.Sprintf("/proc/%d/status", pid)
	s.number(name+".rss_mb", megabytes(field(status, "VmRSS")), "MB")
	s.number(name+".rss_wine_libraries_mb", megabytes(field(status, "RssFile")), "MB")
	s.number(name+".rss_program_mb", programMemory(pid), "MB")
}

// megabytes parses a size of /proc: "1234 kB".
func megabytes(text string) float64 {
	kilobytes, _, _ := strings.Cut(text, " ")
	n, _ := strconv.ParseFloat(kilobytes, 64)
	return n * 1024 / 1e6
}

// programMemory is the resident memory of the program itself, which Wine maps at the linker's address.
func programMemory(pid int) (sum float64) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/smaps", pid))
	isProgram := false
	for line := range strings.Lines(string(text)) {
		name, value, ok := strings.Cut(line, ":")
		switch {
		case !strings.Contains(name, "-") && ok && name == "Rss" && isProgram:
			sum += megabytes(strings.TrimSpace(value))
		case strings.Contains(strings.SplitN(line, " ", 2)[0], "-"):
			isProgram = strings.HasPrefix(line, "140") // imageBase 0x140000000 of Go's linker (cmd/link/internal/ld/pe.go)
		}
	}
	return sum
}
