//go:build linux

// Command bench measures the numbers that the documentation promises: the operator as users install it, a real control plane, and Windows hosts on
// Wine. Standard output has a line "name value unit" for each number, and lines with # that describe the machine; standard error has the progress.
// docs/performance.md explains the numbers.
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

	"github.com/prometheus/procfs"
)

// A group is a set of numbers that are measured together.
type group struct {
	name, about string
	measure     func(context.Context, *sheet) error
}

func groups() []group {
	return []group{
		{"payload", "the payload as users build it: its size, and what a minor version of Kubernetes adds", measurePayload},
		{"join", "how a Windows host becomes a Ready node: connections, bytes and seconds", measureJoin},
		{"fleet", "a thousand hosts: seconds to join, upgrade and leave, the operator's resources, the cost of hosts that never answer", measureFleet},
		{"fleet-chance", "fleets to which anything happens by chance: breaches of what users allow, and evictions for each one that was needed", measureChance},
		{"hostile", "hostile hosts, tenants and nodes: the operator's memory, and how long other hosts take to join", measureHostile},
		{"unkind", "simulated hosts that do what real Windows does: how many become nodes, restarts, networks and addresses lost", measureUnkind},
		{"network-nodes", "the overlay of hundreds of nodes: seconds until all have a change, and until a new one has all nodes", measureOverlay},
		{"network-host", "the network of one host: seconds to join it, to notice what Windows lost, and to restore it; memory", measureNetworkHost},
		{"network-repairs", "simulated hours of random Services: repairs of the network in a day that nothing required", measureRepairs},
		{"network-proxy", "clusters of random Services with kube-proxy.exe of each minor version: those with a difference from what is expected", measureProxy},
		{"settings-nodes", "how a change of settings reaches a thousand nodes: seconds, writes and restarts", measureCrowd},
		{"mirrors", "pulls through a mirror compared with direct ones: seconds, and WICD's memory", measurePulls},
		{"settings-idle", "the idle daemon of a node: memory, requests, processes, its answer about its host; the series and the scrapes of the node", measureIdle},
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
	// Simulated hosts replace machines with their own processors, so their garbage is collected rarely.
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
		fmt.Fprintf(out, "  %-19s %s\n", g.name, g.about)
	}
	fmt.Fprint(out, "A name stands for all groups that begin with it: settings for settings-nodes and settings-idle.\n\nFlags:\n")
	flag.PrintDefaults()
}

// choose returns the group with a name, the groups with a name and a hyphen as prefix, or all groups for "".
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

// run measures each group, even if another fails.
func run(ctx context.Context, chosen []group) error {
	kernel, err := procfs.NewDefaultFS()
	if err != nil {
		return err
	}
	s := &sheet{out: os.Stdout, progress: os.Stderr, begin: time.Now(), kernel: kernel}
	s.machine(ctx)
	var errs []error
	for _, g := range chosen {
		if ctx.Err() != nil {
			break
		}
		if err := g.measure(ctx, s); err != nil {
			errs = append(errs, fmt.Errorf("measuring group %s: %w", g.name, err))
		}
	}
	s.load(ctx, "end")
	return errors.Join(errs...)
}
