//go:build linux

// Command bench measures the numbers of docs/performance.md, with the operator as users install it, a real control plane, and
// Windows hosts on Wine. It prints a line "name value unit" for each number, and lines with # that describe the machine, to
// standard output, and its progress to standard error.
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
		{"join", "the join of a Windows host: connections, bytes and seconds", measureJoin},
		{"fleet", "a thousand hosts: seconds to join, upgrade and remove them, the operator's resources, the cost of hosts that never answer", measureFleet},
		{"fleet-chance", "random fleets: violations of the budget, and evictions for each necessary one", measureRandomFleets},
		{"hostile", "hostile hosts, tenants and nodes: the operator's memory, and how long other hosts take to join", measureHostile},
		{"unkind", "simulated hosts with the quirks of real Windows: how many become nodes, restarts, lost networks and addresses", measureQuirks},
		{"patches", "Windows updates on two hundred simulated hosts and on Wine: seconds, requests lost, out of service; a prepared machine: its join", measurePatches},
		{"network-nodes", "the overlay of hundreds of nodes: seconds until all nodes have a changed subnet, and until a new node has all subnets", measureOverlay},
		{"network-host", "the network of one host: seconds to configure it, to detect objects that Windows lost, and to restore them; memory", measureNetworkHost},
		{"network-repairs", "simulated hours of random Services: unnecessary repairs of the network per day", measureRepairs},
		{"network-proxy", "clusters of random Services with kube-proxy.exe of each minor version: how many differ from WICD's predictions", measureProxy},
		{"settings-nodes", "a change of settings on a thousand nodes: seconds, writes and restarts", measureSettings},
		{"policy", "NetworkPolicies with 10,000 pods, or WMCO_BENCH_PODS: what one pod changes, seconds to effect, milliseconds that a pod waits, WICD's memory", measurePolicies},
		{"mirrors", "pulls through a mirror compared with direct ones: seconds, and WICD's memory", measurePulls},
		{"settings-idle", "the idle daemon of a node: memory, requests, processes, time to report facts; the node's metrics: series and scrape time", measureIdle},
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
	// Simulated hosts stand for machines with processors of their own, so their garbage collection should take little of this
	// machine's.
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
	return nil, fmt.Errorf("unknown group %q; the groups are: %s", name, strings.Join(names, ", "))
}

// run measures all chosen groups, even if one fails.
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
