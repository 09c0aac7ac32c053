//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/term"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/lab/testenv"
)

// refresh is how often the instances are read.
const refresh = 250 * time.Millisecond

// maxRows is how many hosts the table shows; the others are counted.
const maxRows = 12

// watch shows how the hosts join until all are Ready: a table that updates in a terminal, a line for each change
// otherwise.
func watch(ctx context.Context, env *testenv.Env, announced time.Time) error {
	show := lines(announced)
	if terminal(os.Stdout) {
		show = table(announced)
	}
	tick := time.NewTicker(refresh)
	defer tick.Stop()
	for {
		var list v1alpha1.WindowsInstanceList
		if err := env.Client.List(ctx, &list, client.InNamespace(api.DefaultNamespace)); err != nil && ctx.Err() == nil {
			return err
		}
		show(list.Items)
		if ready := countReady(list.Items); ready == len(env.Hosts()) {
			fmt.Println()
			for _, i := range list.Items[:min(maxRows, len(list.Items))] {
				fmt.Printf("node/%s Ready\n", i.Status.NodeRef.Name)
			}
			say("%d of %d hosts are Ready nodes, %.1f s after they were announced", ready, len(env.Hosts()), time.Since(announced).Seconds())
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

func countReady(list []v1alpha1.WindowsInstance) int {
	n := 0
	for _, i := range list {
		if meta.IsStatusConditionTrue(i.Status.Conditions, api.ConditionReady) {
			n++
		}
	}
	return n
}

// lines prints a line for each step that starts, ends or fails.
func lines(announced time.Time) func([]v1alpha1.WindowsInstance) {
	shown := map[string]string{}
	return func(list []v1alpha1.WindowsInstance) {
		for _, i := range list {
			for _, s := range i.Status.Steps {
				key, now := i.Name+" "+s.Name, string(s.State)
				if s.State == v1alpha1.StepFailed {
					now += ": " + s.Message
				}
				if shown[key] != now && s.State != v1alpha1.StepWaiting {
					shown[key] = now
					fmt.Printf("%7.1f s  %-16s %-10s %s%s\n", time.Since(announced).Seconds(), title(i), s.Name, now, duration(s))
				}
			}
		}
	}
}

func title(i v1alpha1.WindowsInstance) string {
	if i.Status.Hostname != "" {
		return i.Status.Hostname
	}
	return i.Name
}

func duration(s v1alpha1.StepStatus) string {
	if s.StartedAt == nil || s.FinishedAt == nil {
		return ""
	}
	return fmt.Sprintf(" (%.1f s)", s.FinishedAt.Sub(s.StartedAt.Time).Seconds())
}

// table redraws one table in place.
func table(announced time.Time) func([]v1alpha1.WindowsInstance) {
	drawn := 0
	return func(list []v1alpha1.WindowsInstance) {
		text := render(list, time.Since(announced))
		if drawn > 0 {
			fmt.Printf("\033[%dA\033[J", drawn)
		}
		fmt.Print(text)
		drawn = strings.Count(text, "\n")
	}
}

func render(list []v1alpha1.WindowsInstance, since time.Duration) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "HOST\tCONNECT\tINSPECT\tCHECK\tTRANSFER\tCONFIGURE\tREGISTER\tREADY\tSTATUS\n")
	for n, i := range list {
		if n == maxRows {
			fmt.Fprintf(w, "and %d more\n", len(list)-maxRows)
			break
		}
		fmt.Fprint(w, title(i))
		for _, s := range i.Status.Steps {
			fmt.Fprint(w, "\t"+cell(s))
		}
		fmt.Fprintf(w, "\t%s\n", status(i))
	}
	_ = w.Flush()
	fmt.Fprintf(&b, "%d of %d Ready after %.1f s\n", countReady(list), len(list), since.Seconds())
	return b.String()
}

func cell(s v1alpha1.StepStatus) string {
	switch s.State {
	case v1alpha1.StepDone:
		return strings.Trim(duration(s), " ()")
	case v1alpha1.StepRunning:
		return "..."
	case v1alpha1.StepFailed:
		return "failed"
	}
	return "-"
}

// status is the message of the step that runs, or the reason of Ready.
func status(i v1alpha1.WindowsInstance) string {
	for _, s := range i.Status.Steps {
		if s.Message != "" && s.State != v1alpha1.StepDone {
			return s.Message[:min(len(s.Message), 60)]
		}
	}
	if c := meta.FindStatusCondition(i.Status.Conditions, api.ConditionReady); c != nil {
		return c.Reason
	}
	return "announced"
}

func terminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }
