//go:build linux

package main

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/lab/testenv"
)

// refresh is how often the instances are read.
const refresh = 250 * time.Millisecond

// maxRows is the maximum number of Ready nodes that are listed.
const maxRows = 12

// watch prints a line for each change until all hosts are Ready.
func watch(ctx context.Context, env *testenv.Env, announced time.Time) error {
	show := lines(announced)
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
			logf("%d of %d hosts are Ready nodes, %.1f s after they were announced", ready, len(env.Hosts()), time.Since(announced).Seconds())
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
