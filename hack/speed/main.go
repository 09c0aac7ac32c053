// Command speed measures the speed of this machine for the work of the lab, and prints a factor: 1 if a host on Wine joins in 6 s, as on the
// machine of docs/performance.md, 2 if the same takes twice as long. The timeouts of tests and the budgets of rings are multiplied by the
// factor.
//
// Compilers and simulated hosts need processor speed. Windows programs on Wine mostly start processes and send requests to Wine's
// server, each with a write, a context switch and a read, which is what differs most between virtual machines.
package main

import (
	"bytes"
	"compress/flate"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"time"
)

// probe is an operation with its duration at factor 1, scaled from a machine on which a join takes 7.4 s.
type probe struct {
	name      string
	reference time.Duration
	do        func() error
}

func probes() []probe {
	return []probe{
		{"computing", 70 * time.Millisecond, compute},
		{"starting processes", 55 * time.Millisecond, startProcesses},
		{"switching processes", 185 * time.Millisecond, switchProcesses},
	}
}

// rounds is how often each probe runs; the median counts.
const rounds = 5

func main() {
	if err := run(os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "speed:", err)
		os.Exit(1)
	}
}

func run(out, explanation io.Writer) error {
	sum, text := 0.0, ""
	for _, p := range probes() {
		took, err := median(p.do)
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		ratio := float64(took) / float64(p.reference)
		sum += ratio
		text += fmt.Sprintf(", %s %.2f (%s)", p.name, ratio, took.Round(100*time.Microsecond))
	}
	factor := sum / float64(len(probes()))
	fmt.Fprintf(explanation, "speed factor %.2f%s\n", factor, text)
	_, err := fmt.Fprintf(out, "%.2f\n", factor)
	return err
}

func median(do func() error) (time.Duration, error) {
	var took []time.Duration
	for range rounds {
		begin := time.Now()
		if err := do(); err != nil {
			return 0, err
		}
		took = append(took, time.Since(begin))
	}
	slices.Sort(took)
	return took[len(took)/2], nil
}

// compute compresses the same three megabytes each time.
func compute() error {
	random := rand.New(rand.NewPCG(1, 2))
	text := make([]byte, 3<<20)
	for i := range text {
		text[i] = byte('a' + random.IntN(16))
	}
	w, err := flate.NewWriter(io.Discard, flate.DefaultCompression)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, bytes.NewReader(text))
	return err
}

func startProcesses() error {
	for range 100 {
		if err := exec.Command("true").Run(); err != nil {
			return err
		}
	}
	return nil
}

// switchProcesses exchanges single bytes with another process, many times.
func switchProcesses() error {
	other := exec.Command("cat")
	to, err := other.StdinPipe()
	if err != nil {
		return err
	}
	from, err := other.StdoutPipe()
	if err != nil {
		return err
	}
	if err := other.Start(); err != nil {
		return err
	}
	b := []byte{0}
	for range 5000 {
		if _, err := to.Write(b); err != nil {
			return err
		}
		if _, err := io.ReadFull(from, b); err != nil {
			return err
		}
	}
	if err := to.Close(); err != nil {
		return err
	}
	return other.Wait()
}
