//go:build linux

// Command bench measures what the documentation promises, on real programs: the operator as users install it, a real
// control plane, and Windows hosts on Wine. Every number is a line "name value unit" on standard output; lines that
// begin with # describe the machine; what is being done goes to standard error. docs/performance.md says what the
// numbers mean.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"
	"time"
)

// A group is a set of numbers that are measured together.
type group struct {
	name, about string
	measure     func(context.Context, *sheet) error
}

func groups() []group {
	return []group{
		{"join", "how a Windows host becomes a Ready node: connections, bytes and seconds", measureJoin},
		{"fleet", "a thousand hosts: seconds to join, upgrade and leave, what the operator takes, what hosts that never answer cost", measureFleet},
		{"hostile", "hosts that mean harm, and requests that are junk: what the operator takes, and how long others join beside them", measureHostile},
		{"network-nodes", "the overlay of hundreds of nodes: seconds until all know a change, and until one that starts knows all", measureOverlay},
		{"network-host", "the network of one host: seconds to join it, to notice what Windows lost, and to restore it; memory", measureNetworkHost},
		{"settings-nodes", "how a change of settings reaches a thousand nodes: seconds, writes and restarts", measureCrowd},
		{"settings-rest", "what the daemon on a node needs while nothing happens: memory, requests and processes", measureRest},
	}
}

func main() {
	only := flag.String("only", "", "measure this `group` only; empty for all")
	flag.Usage = usage
	flag.Parse()
	chosen, err := choose(*only)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(2)
	}
	// The simulated hosts stand for machines with processors of their own: what they leave behind is collected seldom.
	debug.SetGCPercent(400)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, chosen); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func usage() {
	out := flag.CommandLine.Output()
	fmt.Fprint(out, "bench measures, and prints lines \"name value unit\".\n\nUsage: go run ./bench [flags]\n\nGroups:\n")
	for _, g := range groups() {
		fmt.Fprintf(out, "  %-15s %s\n", g.name, g.about)
	}
	fmt.Fprint(out, "A name stands for all groups that begin with it: settings for settings-nodes and settings-rest.\n\nFlags:\n")
	flag.PrintDefaults()
}

// choose returns the group with a name, those whose names begin with it and a hyphen, or all for none.
func choose(name string) ([]group, error) {
	all := groups()
	if name == "" {
		return all, nil
	}
	var chosen []group
	var names []string
	for _, g := range all {
		names = append(names, g.name)
		if g.name == name || strings.HasPrefix(g.name, name+"-") {
			chosen = append(chosen, g)
		}
	}
	if len(chosen) > 0 {
		return chosen, nil
	}
	return nil, fmt.Errorf("there is no group %q; the groups are: %s", name, strings.Join(names, ", "))
}

// run measures group after group. A group that fails does not keep the others from being measured.
func run(ctx context.Context, chosen []group) error {
	s := &sheet{out: os.Stdout, progress: os.Stderr, begin: time.Now()}
	s.machine()
	errs := []error{s.calibrate(ctx, "start")}
	for _, g := range chosen {
		if ctx.Err() != nil {
			break
		}
		if err := g.measure(ctx, s); err != nil {
			errs = append(errs, fmt.Errorf("measuring group %s: %w", g.name, err))
		}
	}
	s.load("end")
	errs = append(errs, s.calibrate(ctx, "end"))
	return errors.Join(errs...)
}
