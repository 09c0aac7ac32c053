//go:build linux

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/procfs"
)

// sheet writes the measured numbers and the progress.
type sheet struct {
	out, progress io.Writer
	begin         time.Time
	kernel        procfs.FS
}

// number writes one number, rounded to three decimals.
func (s *sheet) number(name string, value float64, unit string) {
	fmt.Fprintf(s.out, "%s %s %s\n", name, strconv.FormatFloat(math.Round(value*1000)/1000, 'f', -1, 64), unit)
}

// logf writes a line of progress.
func (s *sheet) logf(format string, args ...any) {
	fmt.Fprintf(s.progress, "%4.0f s  %s\n", time.Since(s.begin).Seconds(), fmt.Sprintf(format, args...))
}

// machine writes a description of the machine.
func (s *sheet) machine(ctx context.Context) {
	if cpus, _ := s.kernel.CPUInfo(); len(cpus) > 0 {
		fmt.Fprintf(s.out, "# cpu: %s, %d cores\n", cpus[0].ModelName, runtime.NumCPU())
	}
	if memory, _ := s.kernel.Meminfo(); memory.MemTotal != nil {
		fmt.Fprintf(s.out, "# memory: %d kB\n", *memory.MemTotal)
	}
	release, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	fmt.Fprintf(s.out, "# kernel: %s\n", bytes.TrimSpace(release))
	fmt.Fprintf(s.out, "# go: %s\n", runtime.Version())
	fmt.Fprintf(s.out, "# wine: %s\n", wineVersion())
	s.load(ctx, "start")
}

// load writes the load of the machine, as averages of 1, 5 and 15 minutes, and its speed factor.
func (s *sheet) load(ctx context.Context, when string) {
	if l, err := s.kernel.LoadAvg(); err == nil {
		fmt.Fprintf(s.out, "# load at the %s: %v %v %v\n", when, l.Load1, l.Load5, l.Load15)
	}
	command := exec.CommandContext(ctx, "go", "run", "../hack/speed")
	command.Stderr = s.progress
	factor, err := command.Output()
	if err != nil {
		s.logf("Measuring the speed of the machine: %v", err)
		return
	}
	fmt.Fprintf(s.out, "# speed factor at the %s: %s", when, factor)
}

// busySeconds returns the processor time of all cores since the machine started, without the time that the hypervisor gave to
// other machines.
func (s *sheet) busySeconds() float64 {
	stat, err := s.kernel.Stat()
	if err != nil {
		return 0
	}
	t := stat.CPUTotal
	return t.User + t.Nice + t.System + t.IRQ + t.SoftIRQ
}

func wineVersion() string {
	out, err := exec.Command("/usr/lib/wine/wine64", "--version").Output()
	if err != nil {
		return "none"
	}
	return strings.TrimSpace(string(out))
}

// median returns the median of at least one value; of an even number of values, the lower of the two in the middle.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[(len(sorted)-1)/2]
}

// percentile returns the smallest of the values, of which there must be at least one, that at least the given percentage of them do not exceed.
func percentile(values []float64, percent int) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[max(0, (len(sorted)*percent+99)/100-1)]
}
