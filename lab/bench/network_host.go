//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/testenv"
	"github.com/windows-machine-config/wmco/lab/windows/hns"
)

// lostServices is the number of load balancers in the most cited report of lost objects (kubernetes#110849).
const lostServices = 577

// netHost is one Wine host with the overlay and a real kube-proxy.
type netHost struct {
	*stage
	host *lab.Host
}

func measureNetworkHost(ctx context.Context, s *sheet) error {
	st, err := openStage(ctx, s, testenv.Options{WineHosts: 1, Network: testenv.NetworkHybridOverlay})
	if err != nil {
		return err
	}
	defer st.Close()
	n := &netHost{stage: st, host: st.Lab.Hosts()[0]}
	before := processes()
	if _, err := n.join(ctx, n.booted[:1]); err != nil {
		return err
	}
	for _, measure := range []func(context.Context) error{
		func(context.Context) error { return n.measureJoin(before) }, n.measureRepair, n.measureMemory,
	} {
		if err := measure(ctx); err != nil {
			return err
		}
	}
	return nil
}

// measureJoin reads from WICD's journal how long the configuration of the pod network took: from the moment when the service
// that precedes hybrid-overlay-node runs. It also counts the processes started in addition to the services.
func (n *netHost) measureJoin(others map[int]string) error {
	raw, err := n.host.ReadFile(desired.State + `\journal.jsonl`)
	if err != nil {
		return err
	}
	var before, began, ended time.Time
	for line := range strings.Lines(string(raw)) {
		var e wicdapi.JournalEntry
		if json.Unmarshal([]byte(line), &e) != nil {
			continue
		}
		at := e.Time.Add(e.Duration) // Time is the beginning of the step
		switch {
		case strings.Contains(e.Change, "service hybrid-overlay-node started"):
			began = before
		case strings.HasPrefix(e.Change, "service ") && strings.HasSuffix(e.Change, " started"):
			before = at
		case strings.Contains(e.Change, `cni.conf written`), strings.Contains(e.Change, `cni.conflist written`):
			ended = at
		}
	}
	if began.IsZero() || !ended.After(began) {
		return fmt.Errorf("the journal lacks the start (%v) or the end (%v) of the network's configuration", began, ended)
	}
	n.number("join.network_seconds", ended.Sub(began).Seconds(), "s")
	shells := 0
	for pid, command := range processes() {
		if _, previous := others[pid]; !previous && (strings.Contains(command, "powershell") || strings.Contains(command, "netsh") || strings.Contains(command, "cmd.exe")) {
			shells++
		}
	}
	starts, err := n.host.PowerShellStarts()
	if err != nil {
		return err
	}
	n.number("join.network_processes", float64(shells+len(starts)), "count")
	return nil
}

// measureRepair restarts the network service without its load balancers, and measures how soon the Node reports the loss and how soon
// all of them are restored.
func (n *netHost) measureRepair(ctx context.Context) error {
	n.logf("%d Services", lostServices)
	for i := range lostServices {
		address := fmt.Sprintf("10.132.%d.%d", 200+i/250, i%250+1)
		if _, err := testenv.AddService(ctx, n.Clients, fmt.Sprintf("bench-%d", i), address); err != nil {
			return err
		}
	}
	complete := func(context.Context) (bool, error) {
		found, err := n.host.HNS().List(hns.LoadBalancer)
		return len(found) >= lostServices, err
	}
	if err := n.until(ctx, "all Services have load balancers", complete); err != nil {
		return err
	}
	if err := n.until(ctx, "the Node reports a complete network", n.conditionIs(corev1.ConditionFalse)); err != nil {
		return err
	}
	time.Sleep(quietBefore)
	began := time.Now()
	if err := n.host.HNS().Restart(ctx, hns.LoadBalancer, hns.Endpoint); err != nil {
		return err
	}
	restarted := time.Now()
	if err := n.until(ctx, "the Node reports the loss", n.conditionIs(corev1.ConditionTrue)); err != nil {
		return err
	}
	n.logf("The service was stopped for %.1f s; the Node reported the loss after %.1f s", restarted.Sub(began).Seconds(), time.Since(began).Seconds())
	n.number("repair.detect_seconds", time.Since(began).Seconds(), "s")
	if err := n.until(ctx, "all load balancers are restored", complete); err != nil {
		return err
	}
	n.number("repair.restore_577_seconds", time.Since(restarted).Seconds(), "s")
	return nil
}

// quietBefore is how long kube-proxy and WICD run undisturbed before a measurement.
const quietBefore = 30 * time.Second

// conditionIs returns a check whether the Node's network condition has a status.
func (n *netHost) conditionIs(status corev1.ConditionStatus) func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		var node corev1.Node
		if err := n.Client.Get(ctx, types.NamespacedName{Name: n.host.Name()}, &node); err != nil {
			return false, err
		}
		return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == api.ConditionWindowsNetworkUnavailable && c.Status == status
		}), nil
	}
}

// measureMemory measures the memory of hybrid-overlay-node in a cluster with a thousand other nodes.
func (n *netHost) measureMemory(ctx context.Context) error {
	n.logf("%d other nodes", remoteNodes)
	for i := range remoteNodes {
		if _, err := n.AddLinuxNode(ctx, fmt.Sprintf("other-%d", i), addressOf(i).String()); err != nil {
			return err
		}
	}
	err := n.until(ctx, "the host has routes to all nodes", func(context.Context) (bool, error) {
		networks, err := n.host.HNS().List(hns.Network)
		for _, o := range networks {
			policies, _ := o["Policies"].([]any)
			if len(policies) >= remoteNodes {
				return true, err
			}
		}
		return false, err
	})
	if err != nil {
		return err
	}
	time.Sleep(quietBefore)
	all := processes()
	overlay, err := processOf(all, "hybrid-overlay-node.exe", "")
	if err != nil {
		return err
	}
	return n.memoryOverFloor(all, overlay, "overlay")
}
