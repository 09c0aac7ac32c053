//go:build linux

package main

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/lab/testenv"
)

// fleet starts hosts before it announces them, so that their start does not take processor time from the measured join.
type fleet struct{ simulation }

const (
	manyHosts = 1000
	fewHosts  = 10
	deadHosts = 50
	// withDead is the number of hosts that join while others never answer. The same number joins without dead hosts, half of them
	// before and half after.
	withDead = 100
	idleFor  = 2 * time.Minute
)

func measureFleet(ctx context.Context, s *sheet) error {
	c, err := openSimulation(ctx, s)
	if err != nil {
		return err
	}
	defer c.Close()
	f := fleet{c}
	all := intstr.FromString("100%")
	if err := f.Change(ctx, func(spec *v1alpha1.WindowsConfigSpec) { spec.Rollout.MaxUnavailable = &all }); err != nil {
		return err
	}
	for _, measure := range []func(context.Context) error{f.measureJoins, f.measureIdle, f.measureHelperOnly, f.measureRemoval} {
		if err := measure(ctx); err != nil {
			return err
		}
	}
	return nil
}

// joinAll starts hosts, announces them at once, and waits until all are Ready.
func (f fleet) joinAll(ctx context.Context, n int) (seconds float64, err error) {
	for range n {
		if _, err := f.start(); err != nil {
			return 0, err
		}
	}
	all := f.Hosts()
	began, fresh := time.Now(), all[len(all)-n:]
	ready := make(chan error, 1)
	go func() { ready <- f.awaitReady(ctx, fresh) }()
	for _, at := range fresh {
		if err := f.Client.Create(ctx, at.Instance()); err != nil {
			return 0, err
		}
	}
	if err := <-ready; err != nil {
		return 0, err
	}
	took := time.Since(began).Seconds()
	f.logf("%d hosts joined in %.1f s", n, took)
	return took, nil
}

// awaitReady waits until all hosts have been Ready. It watches instances, because listing a thousand of them each second would load the
// API server. On two cores, the server sometimes closes a watch that is too slow; awaitReady then starts another.
func (f fleet) awaitReady(ctx context.Context, hosts []testenv.Host) error {
	missing := map[string]bool{}
	for _, at := range hosts {
		missing[at.Name] = true
	}
	record := func(i *v1alpha1.WindowsInstance) {
		if meta.IsStatusConditionTrue(i.Status.Conditions, api.ConditionReady) {
			delete(missing, i.Name)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, 20*time.Minute)
	defer cancel()
	inNamespace := client.InNamespace(api.DefaultNamespace)
	for len(missing) > 0 {
		events, err := f.Client.Watch(ctx, &v1alpha1.WindowsInstanceList{}, inNamespace)
		if err != nil {
			return fmt.Errorf("waiting until hosts are Ready, %d are not: %w\n%s", len(missing), err, f.Diagnosis())
		}
		var list v1alpha1.WindowsInstanceList // the state when the watch begins, or after events were lost
		if err := f.Client.List(ctx, &list, inNamespace); err != nil {
			events.Stop()
			return err
		}
		for i := range list.Items {
			record(&list.Items[i])
		}
		for len(missing) > 0 {
			event, open := <-events.ResultChan()
			if !open {
				break
			}
			if i, ok := event.Object.(*v1alpha1.WindowsInstance); ok {
				record(i)
			}
		}
		events.Stop()
	}
	return nil
}

// dead returns a host that never responds.
func dead(n int, address string) testenv.Host {
	return testenv.Host{Name: fmt.Sprintf("dead-%d", n), Address: address, Port: sshPort}
}

// measureJoins measures joins of few, some and many hosts, and of hosts that join while others never answer.
func (f fleet) measureJoins(ctx context.Context) error {
	few, err := f.joinAll(ctx, fewHosts)
	if err != nil {
		return err
	}
	// Half of the hosts without dead ones join before and half after, because the load of the machine changes over time.
	before, err := f.joinAll(ctx, withDead/2)
	if err != nil {
		return err
	}
	closeDead, err := f.announceDead(ctx)
	if err != nil {
		return err
	}
	amongDead, err := f.joinAll(ctx, withDead)
	closeDead()
	if err != nil {
		return err
	}
	if err := f.deleteDead(ctx); err != nil {
		return err
	}
	after, err := f.joinAll(ctx, withDead/2)
	if err != nil {
		return err
	}
	f.number("fleet.dead50_ratio", amongDead/(before+after), "ratio")
	rest := manyHosts - len(f.Simulated())
	many, err := f.joinAll(ctx, rest)
	if err != nil {
		return err
	}
	perHost := many / float64(rest)
	f.number("fleet.join_seconds_1000", perHost*manyHosts, "s")
	f.number("fleet.growth_10_to_1000", perHost/(few/fewHosts), "ratio")
	peak, err := f.Operator.PeakMemory()
	if err != nil {
		return err
	}
	f.number("fleet.operator_rss_mb", float64(peak)/1e6, "MB")
	return nil
}

// announceDead announces hosts that accept connections and never send anything. They cost the operator most: it detects other
// dead hosts immediately.
func (f fleet) announceDead(ctx context.Context) (closeAll func(), err error) {
	var listeners []net.Listener
	closeAll = func() {
		for _, l := range listeners {
			l.Close()
		}
	}
	for n := range deadHosts {
		address := f.UnusedAddress()
		l, err := net.Listen("tcp4", net.JoinHostPort(address, strconv.Itoa(sshPort)))
		if err != nil {
			closeAll()
			return nil, err
		}
		listeners = append(listeners, l)
		if err := f.Client.Create(ctx, dead(n, address).Instance()); err != nil {
			closeAll()
			return nil, err
		}
	}
	return closeAll, nil
}

func (f fleet) deleteDead(ctx context.Context) error {
	for n := range deadHosts {
		if err := f.Client.Delete(ctx, dead(n, "").Instance()); err != nil {
			return err
		}
	}
	return nil
}

// measureIdle measures the operator while nothing happens.
func (f fleet) measureIdle(ctx context.Context) error {
	f.logf("Measuring the idle operator for %s", idleFor)
	time.Sleep(time.Minute) // the operator finishes its work after the joins
	before, err := f.Operator.CPUTime()
	if err != nil {
		return err
	}
	began := time.Now()
	time.Sleep(idleFor)
	after, err := f.Operator.CPUTime()
	if err != nil {
		return err
	}
	f.number("fleet.idle_cores_1000", (after-before)/time.Since(began).Seconds(), "cores")
	requests, err := f.Lab.ControlPlane.Requests(began)
	if err != nil {
		return err
	}
	writes := 0
	for _, r := range requests {
		if (byOperator(r) || byDaemon(r)) && r.Writes() && r.Resource != "leases" && r.Resource != "subjectaccessreviews" {
			writes++
		}
	}
	perFiveMinutes := float64(writes) / manyHosts * (5 * time.Minute).Minutes() / idleFor.Minutes()
	f.number("fleet.idle_writes_per_node_5m", perFiveMinutes, "count")
	return nil
}

// measureHelperOnly upgrades a thousand nodes to a version in which only a program changed that no pod needs.
func (f fleet) measureHelperOnly(ctx context.Context) error {
	dir, err := f.AnotherPayload("helper", "windows_exporter.exe")
	if err != nil {
		return err
	}
	before, err := f.versions(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := f.Operator.Upgrade(dir); err != nil {
		return err
	}
	cordons := 0
	err = f.poll(ctx, slowPoll, 20*time.Minute, "all nodes have the new version", func(ctx context.Context) (bool, error) {
		n, err := f.cordoned(ctx)
		cordons += n
		now, err2 := f.versions(ctx)
		if err != nil || err2 != nil {
			return false, fmt.Errorf("%w %w", err, err2)
		}
		old := 0
		for version := range before {
			old += now[version]
		}
		return old == 0 && len(now) == 1, nil
	})
	if err != nil {
		return err
	}
	f.number("upgrade.helper_only_seconds_1000", time.Since(began).Seconds(), "s")
	requests, err := f.Lab.ControlPlane.Requests(began)
	if err != nil {
		return err
	}
	evictions := 0
	for _, r := range requests {
		if r.Resource == "pods/eviction" {
			evictions++
		}
	}
	f.number("upgrade.helper_only_cordons", float64(cordons), "count")
	f.number("upgrade.helper_only_evictions", float64(evictions), "count")
	return nil
}

// versions returns the number of nodes by the version that they report.
func (f fleet) versions(ctx context.Context) (map[string]int, error) {
	var nodes corev1.NodeList
	if err := f.Client.List(ctx, &nodes); err != nil {
		return nil, err
	}
	versions := map[string]int{}
	for _, n := range nodes.Items {
		versions[n.Annotations[api.AnnotationVersion]]++
	}
	return versions, nil
}

// measureRemoval removes all hosts at once.
func (f fleet) measureRemoval(ctx context.Context) error {
	inNamespace := client.InNamespace(api.DefaultNamespace)
	began := time.Now()
	for _, at := range f.Hosts() { // one by one, like kubectl: a request for all of them would exceed the API server's timeout
		if err := f.Client.Delete(ctx, at.Instance()); err != nil {
			return err
		}
	}
	err := f.poll(ctx, time.Second, 20*time.Minute, "all hosts have left", func(ctx context.Context) (bool, error) {
		var list v1alpha1.WindowsInstanceList
		if err := f.Client.List(ctx, &list, inNamespace); err != nil {
			return false, err
		}
		return len(list.Items) == 0, nil
	})
	f.number("fleet.remove_seconds_1000", time.Since(began).Seconds(), "s")
	return err
}
