//go:build linux

package main

import (
	"bufio"
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
)

// sheet writes the numbers.
type sheet struct {
	out, progress io.Writer
	begin         time.Time
}

// number writes one line, with three decimals.
func (s *sheet) number(name string, value float64, unit string) {
	fmt.Fprintf(s.out, "%s %s %s\n", name, strconv.FormatFloat(math.Round(value*1000)/1000, 'f', -1, 64), unit)
}

// say reports the progress.
func (s *sheet) say(format string, args ...any) {
	fmt.Fprintf(s.progress, "%4.0f s  %s\n", time.Since(s.begin).Seconds(), fmt.Sprintf(format, args...))
}

// machine describes the machine.
func (s *sheet) machine(ctx context.Context) {
	fmt.Fprintf(s.out, "# cpu: %s, %d cores\n", field("/proc/cpuinfo", "model name"), runtime.NumCPU())
	fmt.Fprintf(s.out, "# memory: %s\n", field("/proc/meminfo", "MemTotal"))
	fmt.Fprintf(s.out, "# kernel: %s\n", words("/proc/sys/kernel/osrelease"))
	fmt.Fprintf(s.out, "# go: %s\n", runtime.Version())
	fmt.Fprintf(s.out, "# wine: %s\n", wineVersion())
	s.load(ctx, "start")
}

// load writes the load of the machine, as averages of 1, 5 and 15 minutes, and its speed factor.
func (s *sheet) load(ctx context.Context, when string) {
	averages := strings.Fields(words("/proc/loadavg"))
	fmt.Fprintf(s.out, "# load at the %s: %s\n", when, strings.Join(averages[:min(3, len(averages))], " "))
	command := exec.CommandContext(ctx, "go", "run", "../hack/speed")
	command.Stderr = s.progress
	factor, err := command.Output()
	if err != nil {
		s.say("Measuring the speed of the machine: %v", err)
		return
	}
	fmt.Fprintf(s.out, "# speed factor at the %s: %s", when, factor)
}

// field returns the value of the first line "name: value" in a file of /proc.
func field(file, name string) string {
	raw, _ := os.ReadFile(file)
	for lines := bufio.NewScanner(bytes.NewReader(raw)); lines.Scan(); {
		key, value, _ := strings.Cut(lines.Text(), ":")
		if strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

func words(file string) string {
	raw, err := os.ReadFile(file)
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(raw))
}

// busySeconds is the processor time of all cores since the machine started (see proc_stat(5)), without the time that the
// hypervisor used for others.
func busySeconds() float64 {
	const user, nice, system, irq, softIRQ = 1, 2, 3, 6, 7 // columns, in hundredths of a second
	first, _, _ := strings.Cut(words("/proc/stat"), "\n")
	columns := strings.Fields(first)
	var sum float64
	for _, i := range []int{user, nice, system, irq, softIRQ} {
		if i < len(columns) {
			hundredths, _ := strconv.ParseFloat(columns[i], 64) // the kernel writes numbers
			sum += hundredths / 100
		}
	}
	return sum
}

func wineVersion() string {
	out, err := exec.Command("/usr/lib/wine/wine64", "--version").Output()
	if err != nil {
		return "none"
	}
	return strings.TrimSpace(string(out))
}

// median of at least one value; of an even number, the lower of the two in the middle.
func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[(len(sorted)-1)/2]
}
