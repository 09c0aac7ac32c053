//go:build linux

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/testenv"
)

// simulation is an environment with simulated hosts: real daemon code, a real API server, a simulated Windows.
type simulation struct{ *stage }

// slowPoll is the interval between reads of all nodes. Reading a thousand of them takes processor time from the measured programs.
const slowPoll = 2 * time.Second

// fleets returns the numbers of hosts for which a change is measured.
func fleets() []int { return []int{1, 10, 1000} }

// openSimulation opens a cluster without hosts. Simulated hosts share the drive of this machine.
func openSimulation(ctx context.Context, s *sheet) (simulation, error) {
	if err := lab.PreferMemory(); err != nil {
		return simulation{}, err
	}
	st, err := openStage(ctx, s, testenv.Options{})
	return simulation{st}, err
}

// comparableResults is the reason why simulated hosts have no quirks.
const comparableResults = "results of different versions must be comparable, whatever quirks the simulator has learned since"

// start starts a host without announcing it.
func (c simulation) start() (testenv.Host, error) {
	_, at, err := c.AddSimulated(sim.Options{
		// One machine cannot renew the leases of a thousand kubelets every ten seconds.
		Kubelet: sim.KubeletOptions{Heartbeat: 30 * time.Second},
		Windows: sim.WindowsOptions{Hostname: fmt.Sprintf("sim-%d", len(c.Simulated())), BootTime: time.Second, NoQuirks: comparableResults},
	})
	return at, err
}

func measureSettings(ctx context.Context, s *sheet) error {
	c, err := openSimulation(ctx, s)
	if err != nil {
		return err
	}
	defer c.Close()
	for _, n := range fleets() {
		if err := c.grow(ctx, n); err != nil {
			return err
		}
		if err := c.measureMirror(ctx); err != nil {
			return err
		}
	}
	return c.measureProxy(ctx)
}

// grow adds hosts until there are n.
func (c simulation) grow(ctx context.Context, n int) error {
	began := time.Now()
	for len(c.Simulated()) < n {
		at, err := c.start()
		if err != nil {
			return err
		}
		if err := c.Client.Create(ctx, at.Instance()); err != nil {
			return err
		}
	}
	err := c.poll(ctx, slowPoll, 20*time.Minute, fmt.Sprintf("%d nodes have the published settings", n), func(ctx context.Context) (bool, error) {
		updated, err := c.updated(ctx)
		return updated == n, err
	})
	c.logf("%d hosts have joined; adding the last ones took %.0f s", n, time.Since(began).Seconds())
	return err
}

// published returns the hash of the published settings.
func (c simulation) published(ctx context.Context) (settings string, err error) {
	var maps corev1.ConfigMapList
	if err := c.Client.List(ctx, &maps, client.InNamespace(api.DefaultNamespace)); err != nil {
		return "", err
	}
	for _, cm := range maps.Items {
		if strings.HasPrefix(cm.Name, api.ServicesConfigMapPrefix) {
			settings = cm.Annotations[api.AnnotationSettings]
		}
	}
	return settings, nil
}

// updated returns the number of nodes that report the published settings.
func (c simulation) updated(ctx context.Context) (n int, err error) {
	settings, err := c.published(ctx)
	if err != nil || settings == "" {
		return 0, err
	}
	var nodes corev1.NodeList
	if err := c.Client.List(ctx, &nodes); err != nil {
		return 0, err
	}
	for _, node := range nodes.Items {
		if node.Annotations[api.AnnotationSettings] == settings {
			n++
		}
	}
	return n, nil
}

// measureMirror changes the mirror of a registry, and measures how long the change takes to reach the last host.
func (c simulation) measureMirror(ctx context.Context) error {
	var seconds, writes []float64
	connections := c.connections()
	for round := range rounds {
		mirror := fmt.Sprintf("mirror-%d-%d.example", len(c.Simulated()), round)
		time.Sleep(settle + 6*time.Second) // the operator counts nodes some time after they report
		began := time.Now()
		if err := c.Change(ctx, func(spec *v1alpha1.WindowsConfigSpec) {
			spec.Registries.Mirrors = []v1alpha1.RegistryMirrors{{Source: "quay.io", Mirrors: []v1alpha1.RegistryMirror{{Location: mirror}}}}
		}); err != nil {
			return err
		}
		err := c.poll(ctx, pollInterval, 5*time.Minute, "all hosts have the mirror", func(context.Context) (bool, error) {
			return !slices.ContainsFunc(c.Simulated(), func(h *sim.Host) bool {
				text, err := h.Windows().Disk().Read(`C:\k\state\node.json`) // WICD's registry uses it from then on
				return err != nil || !strings.Contains(string(text), mirror)
			}), nil
		})
		if err != nil {
			return err
		}
		took := time.Since(began).Seconds()
		seconds = append(seconds, took)
		published, err := c.writes(began, time.Now())
		if err != nil {
			return err
		}
		writes = append(writes, float64(published))
		c.logf("%d hosts had the mirror after %.2f s; the operator wrote %d objects", len(c.Simulated()), took, published)
	}
	floor, err := c.watchFloor(ctx, len(c.Simulated()))
	if err != nil {
		return err
	}
	c.number(fmt.Sprintf("mirror.seconds_%d", len(c.Simulated())), median(seconds), "s")
	c.number(fmt.Sprintf("mirror.floor_seconds_%d", len(c.Simulated())), floor, "s")
	c.number(fmt.Sprintf("mirror.seconds_%d_over_floor", len(c.Simulated())), median(seconds)/floor, "ratio")
	c.number(fmt.Sprintf("mirror.operator_writes_%d", len(c.Simulated())), slices.Max(writes), "count")
	c.number(fmt.Sprintf("mirror.ssh_connections_%d", len(c.Simulated())), float64(c.connections()-connections), "count")
	return nil
}

// writes returns the number of objects that the operator wrote between two times, except events and its Lease.
func (c simulation) writes(from, to time.Time) (n int, err error) {
	requests, err := c.Lab.ControlPlane.Requests(from)
	if err != nil {
		return 0, err
	}
	for _, r := range requests {
		if byOperator(r) && r.Writes() && r.Time.Before(to) &&
			r.Resource != "leases" && r.Resource != "events" && r.Resource != "subjectaccessreviews" {
			n++
		}
	}
	return n, nil
}

func byOperator(r lab.APIRequest) bool {
	return strings.HasSuffix(r.User, ":"+testenv.OperatorAccount)
}

func byDaemon(r lab.APIRequest) bool { return strings.HasPrefix(r.User, api.WICDUserPrefix) }

func (c simulation) connections() (n int) {
	for _, h := range c.Simulated() {
		n += h.SSH().Counters().Connections
	}
	return n
}

// measureProxy sets a proxy, and counts the drains, reboots and restarts that it causes.
func (c simulation) measureProxy(ctx context.Context) error {
	few := c.Simulated()[:10]
	before := observe(few)
	previous, err := c.published(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := c.Change(ctx, func(spec *v1alpha1.WindowsConfigSpec) { spec.Proxy.HTTPSProxy = "http://proxy.example:3128" }); err != nil {
		return err
	}
	err = c.poll(ctx, slowPoll, 10*time.Minute, "all nodes have the proxy", func(ctx context.Context) (bool, error) {
		if now, err := c.published(ctx); now == previous || err != nil {
			return false, err
		}
		updated, err := c.updated(ctx)
		return updated == len(c.Simulated()), err
	})
	if err != nil {
		return err
	}
	c.logf("%d hosts had the proxy, and services that use it, after %.2f s", len(c.Simulated()), time.Since(began).Seconds())
	after := observe(few)
	restarted := 0
	for service, pid := range after.pids {
		if before.pids[service] != pid {
			restarted++
		}
	}
	cordoned, err := c.cordoned(ctx)
	if err != nil {
		return err
	}
	c.number("proxy.seconds_1000", time.Since(began).Seconds(), "s")
	c.number("proxy.drains", float64(cordoned), "count")
	c.number("proxy.reboots", float64(after.boots-before.boots), "count")
	c.number("proxy.services_restarted", float64(restarted)/float64(len(few)), "count")
	return nil
}

// observation is the boots and processes of hosts, for comparison before and after a change.
type observation struct {
	boots int
	pids  map[string]uint32 // by host and service
}

func observe(hosts []*sim.Host) observation {
	o := observation{pids: map[string]uint32{}}
	for n, h := range hosts {
		var boot int
		_, _ = fmt.Sscan(h.Windows().BootID(), &boot) // simulated hosts count their boots
		o.boots += boot
		for _, service := range []string{"containerd", "kubelet", api.WICDService} {
			o.pids[fmt.Sprint(n, service)] = h.Windows().Service(service).PID
		}
	}
	return o
}

// cordoned returns the number of unschedulable nodes. A drain begins with a cordon.
func (c simulation) cordoned(ctx context.Context) (n int, err error) {
	var nodes corev1.NodeList
	if err := c.Client.List(ctx, &nodes); err != nil {
		return 0, err
	}
	for _, node := range nodes.Items {
		if node.Spec.Unschedulable {
			n++
		}
	}
	return n, nil
}
