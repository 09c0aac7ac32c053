//go:build linux

package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/lab/testenv"
)

// The Deployment of the demo.
const (
	webserver = "win-webserver"
	replicas  = 2
)

// A pod is a pod of the Deployment.
type pod struct {
	name, node, state, address string
	serves                     bool
}

// runPods creates a Deployment, and shows its pods until all of them run and respond at their addresses.
func runPods(ctx context.Context, env *testenv.Env) error {
	if !env.RunsPods() {
		logf("The demo shows no pods, because simulated hosts do not run programs. Hosts on Wine run a Deployment with images from a registry of the lab")
		return nil
	}
	if err := createGreeting(ctx, env); err != nil {
		return err
	}
	created := time.Now()
	if _, err := env.WinWebserver(ctx, webserver, replicas, showGreeting); err != nil {
		return err
	}
	logf("Deployment %s is created: %d replicas, each must answer a request with its name", webserver, replicas)
	show := podLines(created)
	tick := time.NewTicker(refresh)
	defer tick.Stop()
	for {
		pods, err := readPods(ctx, env)
		if err != nil && ctx.Err() == nil {
			return err
		}
		show(pods)
		if serving := countServing(pods); serving == replicas && len(pods) == replicas {
			logf("%d of %d pods of %s are Running and answer, %.1f s after they were created", serving, replicas, webserver, time.Since(created).Seconds())
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C:
		}
	}
}

func readPods(ctx context.Context, env *testenv.Env) ([]pod, error) {
	found, err := env.Pods(ctx, webserver)
	var pods []pod
	for i := range found {
		p := pod{name: found[i].Name, node: found[i].Spec.NodeName, state: stateOf(&found[i]), address: found[i].Status.PodIP}
		if missing := env.Serves(ctx, &found[i]); missing == "" {
			p.state, p.serves = "Running, answers", true
		}
		pods = append(pods, p)
	}
	return pods, err
}

// stateOf returns the phase of a pod, or the reason why its container waits.
func stateOf(p *corev1.Pod) string {
	for _, c := range p.Status.ContainerStatuses {
		if c.State.Waiting != nil && c.State.Waiting.Reason != "" {
			return c.State.Waiting.Reason
		}
	}
	return string(p.Status.Phase)
}

func countServing(pods []pod) (n int) {
	for _, p := range pods {
		if p.serves {
			n++
		}
	}
	return n
}

// podLines prints a line for each change of a pod.
func podLines(created time.Time) func([]pod) {
	shown := map[string]pod{}
	return func(pods []pod) {
		for _, p := range pods {
			if shown[p.name] != p {
				shown[p.name] = p
				fmt.Printf("%7.1f s  %-32s %-8s %-18s %s\n", time.Since(created).Seconds(), p.name, p.node, p.state, p.address)
			}
		}
	}
}
