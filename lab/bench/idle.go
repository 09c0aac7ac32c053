//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/procfs"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/testenv"
	"github.com/windows-machine-config/wmco/payload"
)

// idleTime is how long the idle daemon is observed, factsCalls how often its facts are read.
const idleTime, factsCalls = 2 * time.Minute, 11

// measureIdle measures WICD on a Wine host that has joined, while nothing happens.
func measureIdle(ctx context.Context, s *sheet) error {
	if err := errors.Join(lab.CanRunWindows(), lab.CanRunRegistries(), lab.CanRunPrometheus()); err != nil {
		return fmt.Errorf("a host on Wine is required: %w", err)
	}
	st, err := openStage(ctx, s, testenv.Options{WineHosts: 1, WholePayload: true})
	if err != nil {
		return err
	}
	defer st.Close()
	hosts, err := st.newHosts(ctx, 1)
	if err != nil {
		return err
	}
	if _, err := st.join(ctx, hosts); err != nil {
		return err
	}
	s.logf("One host has joined; observing WICD for %s", idleTime)
	time.Sleep(30 * time.Second) // the operator and WICD finish their work after the join
	before, began := processes(), time.Now()
	time.Sleep(idleTime)
	after := processes()
	requests, err := st.Lab.ControlPlane.Requests(began)
	if err != nil {
		return err
	}
	count := 0
	for _, r := range requests {
		if byDaemon(r) && r.Verb != "watch" {
			count++
		}
	}
	wicd, err := processOf(after, "windows-instance-config-daemon.exe", "run")
	if err != nil {
		return err
	}
	if err := s.memoryOverFloor(after, wicd, "wicd"); err != nil {
		return err
	}
	threads, err := procfs.AllThreads(wicd)
	if err != nil {
		return err
	}
	s.number("wicd.threads", float64(len(threads)), "count")
	s.number("wicd.processes_started", float64(startedOnHost(wicd, before, after)), "count")
	s.number("wicd.requests_per_minute", float64(count)/idleTime.Minutes(), "count")
	for _, f := range st.payload.Files {
		if f.Path == payload.WICD {
			s.number("wicd.exe_mb", float64(f.Size)/1e6, "MB")
		}
	}
	return errors.Join(st.measureFacts(ctx, hosts[0]), measureMetrics(ctx, st))
}

// measureFacts measures the command `facts` of WICD, with which each visit of the operator begins.
func (st *stage) measureFacts(ctx context.Context, h *lab.Host) error {
	service, found, err := h.Service(ctx, api.WICDService)
	if err != nil || !found {
		return fmt.Errorf("finding service %s (found: %v): %w", api.WICDService, found, err)
	}
	program, _, _ := strings.Cut(service.Command, " ")
	var took []float64
	for range factsCalls {
		began := time.Now()
		if r, err := h.Exec(ctx, program+" facts"); err != nil || r.ExitCode != 0 {
			return fmt.Errorf("reading the facts: %+v: %w", r, err)
		}
		took = append(took, float64(time.Since(began).Milliseconds()))
	}
	st.number("wicd.facts_ms", median(took), "ms")
	return nil
}

// scrapes is how many consecutive scrapes of a node are measured.
const scrapes, scrapeInterval = 10, 5 * time.Second

// measureMetrics has Prometheus scrape the only node of a stage, and reports the number of its series and how long
// windows_exporter takes. On Wine, collectors that need performance counters or WMI add no series.
func measureMetrics(ctx context.Context, st *stage) error {
	prometheus, err := st.StartPrometheus(ctx, testenv.PrometheusOptions{Interval: scrapeInterval})
	if err != nil {
		return err
	}
	st.logf("Prometheus scrapes the node %d times", scrapes)
	time.Sleep(scrapes * scrapeInterval)
	for _, number := range []struct{ name, expression, unit string }{
		{"metrics.series_per_node", `sum(scrape_samples_post_metric_relabeling{node!=""})`, "count"},
		{"metrics.exporter_scrape_seconds", `max(quantile_over_time(0.5, scrape_duration_seconds{job="windows-exporter"}[1m]))`, "s"},
		{"metrics.exporter_scrape_slowest_seconds", `max(max_over_time(scrape_duration_seconds{job="windows-exporter"}[1m]))`, "s"},
	} {
		result, err := prometheus.Evaluate(ctx, number.expression)
		if err != nil {
			return err
		}
		if len(result) != 1 {
			return fmt.Errorf("%s has %d results, want 1", number.expression, len(result))
		}
		st.number(number.name, float64(result[0].Value), number.unit)
	}
	return nil
}

// processes returns the command lines of this process's descendants by process ID, including those of Wine hosts.
func processes() map[int]string {
	all, _ := procfs.AllProcs()
	parents, found := map[int]int{}, map[int]string{}
	for _, p := range all {
		if stat, err := p.Stat(); err == nil { // fails if the process has exited
			parents[p.PID] = stat.PPID
		}
	}
	for _, p := range all {
		ancestor := p.PID
		for ancestor > 1 && ancestor != os.Getpid() { // other labs may run on this machine
			ancestor = parents[ancestor]
		}
		if line, err := p.CmdLine(); err == nil && ancestor == os.Getpid() {
			found[p.PID] = strings.Join(line, " ") + " "
		}
	}
	return found
}

// processOf finds a Windows process by the name of its program and a prefix of its arguments.
func processOf(all map[int]string, program, arguments string) (int, error) {
	for pid, command := range all {
		name, rest, _ := strings.Cut(command, " ")
		if strings.HasSuffix(name, `\`+program) && strings.HasPrefix(rest, arguments) {
			return pid, nil
		}
	}
	return 0, fmt.Errorf("no process runs %s %s", program, arguments)
}

// startedOnHost counts the Windows programs that started on the same host as a process. Programs of other hosts and tests on
// this machine do not count.
func startedOnHost(process int, before, after map[int]string) (n int) {
	host := networkOf(process)
	for pid, command := range after {
		if _, previous := before[pid]; !previous && strings.Contains(command, ".exe") && networkOf(pid) == host {
			n++
		}
	}
	return n
}

// networkOf returns the name of a process's network namespace. Each host has its own.
func networkOf(pid int) string {
	name, _ := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", pid))
	return name
}

// memoryOverFloor reports a program's memory, and its ratio to that of kube-log-runner on the same host. kube-log-runner is the
// smallest possible Go service: it only starts another program and copies its output.
func (s *sheet) memoryOverFloor(all map[int]string, pid int, name string) error {
	floor, err := processOf(all, "kube-log-runner.exe", "")
	if err != nil {
		return err
	}
	s.memoryOf(pid, name)
	s.memoryOf(floor, name+".floor")
	s.number(name+".rss_over_floor", float64(memory(pid).VmRSS)/float64(memory(floor).VmRSS), "ratio")
	return nil
}

// memoryOf reports a program's resident memory and the parts that are due to Wine: the libraries that it maps, and the program itself.
// Wine copies the whole program into memory, while Windows loads only the used pages. In addition, Wine keeps about a megabyte of each
// thread's stack resident.
func (s *sheet) memoryOf(pid int, name string) {
	m := memory(pid)
	s.number(name+".rss_mb", float64(m.VmRSS)/1e6, "MB")
	s.number(name+".rss_wine_libraries_mb", float64(m.RssFile)/1e6, "MB")
	s.number(name+".rss_program_mb", programMemory(pid), "MB")
}

// memory returns the status of a process in /proc; it is empty if the process has exited.
func memory(pid int) procfs.ProcStatus {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return procfs.ProcStatus{}
	}
	status, _ := p.NewStatus()
	return status
}

// megabytes parses a size of /proc: "1234 kB".
func megabytes(text string) float64 {
	kilobytes, _, _ := strings.Cut(text, " ")
	n, _ := strconv.ParseFloat(kilobytes, 64)
	return n * 1024 / 1e6
}

// programMemory returns the resident memory of the program itself, which Wine maps at the linker's address.
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
