//go:build linux

package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/kubeversions"
	"github.com/windows-machine-config/wmco/internal/testing/sshserver"
	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/testenv"
	"github.com/windows-machine-config/wmco/payload"
)

const (
	// waitTimeout is the timeout for operations that take seconds on an idle machine.
	waitTimeout = 3 * time.Minute
	// pollInterval is how often the cluster is read, which limits the precision of times.
	pollInterval = 100 * time.Millisecond
	// settle is longer than the interval at which a host's SSH server writes its counters.
	settle  = 500 * time.Millisecond
	sshPort = 22
	// writers is the number of concurrent calls of each.
	writers = 8
)

// stage is an environment in which groups of new hosts join one after another, so that the cluster has only measured hosts.
type stage struct {
	*testenv.Env
	*sheet
	payload payload.Manifest // of one host
	booted  []*lab.Host      // not used yet
	created int
}

// openStage opens the environment and waits for the operator, so that its start is not measured.
func openStage(ctx context.Context, s *sheet, o testenv.Options) (*stage, error) {
	s.logf("Starting the cluster, the operator and %d hosts", o.WineHosts)
	o.Log = s.progress
	env, err := testenv.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	st := &stage{Env: env, sheet: s, booted: env.Lab.Hosts(), created: o.WineHosts}
	if err := st.prepare(ctx); err != nil {
		env.Close()
		return nil, err
	}
	return st, nil
}

func (st *stage) prepare(ctx context.Context) error {
	opened, err := payload.Open(st.Payload)
	if err != nil {
		return err
	}
	releases := kubeversions.Of("bench", opened.Manifest)
	st.payload = releases[len(releases)-1].Content
	if err := st.Configure(ctx); err != nil {
		return err
	}
	return st.until(ctx, "the operator holds its Lease", func(ctx context.Context) (bool, error) {
		var lease coordinationv1.Lease
		name := types.NamespacedName{Namespace: api.DefaultNamespace, Name: testenv.OperatorAccount}
		err := st.Client.Get(ctx, name, &lease)
		return err == nil && lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity != "", client.IgnoreNotFound(err)
	})
}

// until waits until a condition holds.
func (st *stage) until(ctx context.Context, what string, condition func(context.Context) (bool, error)) error {
	return st.poll(ctx, pollInterval, waitTimeout, what, condition)
}

// poll waits until a condition holds. Its error contains the logs that explain a failure.
func (st *stage) poll(ctx context.Context, every, timeout time.Duration, what string, condition func(context.Context) (bool, error)) error {
	if err := poll(ctx, every, timeout, what, condition); err != nil {
		return fmt.Errorf("%w\n%s", err, st.Diagnosis())
	}
	return nil
}

// poll checks a condition at an interval until it holds or the timeout expires.
func poll(ctx context.Context, every, timeout time.Duration, what string, condition func(context.Context) (bool, error)) error {
	if err := wait.PollUntilContextTimeout(ctx, every, timeout, true, condition); err != nil {
		return fmt.Errorf("waiting for %s until %s: %w", timeout, what, err)
	}
	return nil
}

// each calls a function n times, concurrently, and stops after the first error.
func each(ctx context.Context, n int, call func(context.Context, int) error) error {
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(writers)
	for i := range n {
		all.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			return call(ctx, i)
		})
	}
	return all.Wait()
}

// newHosts returns new hosts. It boots all of them at the same time.
func (st *stage) newHosts(ctx context.Context, n int) ([]*lab.Host, error) {
	taken := min(n, len(st.booted))
	hosts := slices.Clone(st.booted[:taken])
	st.booted = st.booted[taken:]
	added := make([]*lab.Host, n-taken)
	var all errgroup.Group
	for i := range added {
		st.created++
		name := fmt.Sprintf("win-%d", st.created)
		all.Go(func() (err error) {
			added[i], err = st.Lab.AddHost(ctx, name)
			return err
		})
	}
	err := all.Wait()
	return append(hosts, added...), err
}

// joinResult is the measurement of a join of hosts.
type joinResult struct {
	// seconds is the time from the announcement until the last host was Ready, cpuSeconds the machine's processor time in it.
	seconds, cpuSeconds float64
	// steps are the steps of the last host.
	steps []v1alpha1.StepStatus
	// seen are the counters of each host's SSH server during the join.
	seen []sshserver.Counters
}

// join announces hosts in one ConfigMap and waits until all are Ready.
func (st *stage) join(ctx context.Context, hosts []*lab.Host) (joinResult, error) {
	var entries []testenv.Host
	for _, h := range hosts {
		entries = append(entries, testenv.Host{Name: h.Name(), Address: h.Address(), Port: sshPort})
	}
	return st.joinAt(ctx, hosts, entries)
}

// joinAt announces hosts at given addresses and waits until all are Ready.
func (st *stage) joinAt(ctx context.Context, hosts []*lab.Host, entries []testenv.Host) (joinResult, error) {
	before, err := sshCounters(hosts)
	if err != nil {
		return joinResult{}, err
	}
	var a joinResult
	busy, begin := st.busySeconds(), time.Now()
	if err := st.Announce(ctx, entries...); err != nil {
		return a, err
	}
	err = st.until(ctx, fmt.Sprintf("%d hosts are Ready", len(hosts)), func(ctx context.Context) (bool, error) {
		var list v1alpha1.WindowsInstanceList
		if err := st.Client.List(ctx, &list, client.InNamespace(api.DefaultNamespace)); err != nil {
			return false, err
		}
		ready := 0
		for _, i := range list.Items {
			if meta.IsStatusConditionTrue(i.Status.Conditions, api.ConditionReady) {
				ready++
				a.steps = i.Status.Steps
			}
		}
		return ready == len(hosts), nil
	})
	if err != nil {
		return a, err
	}
	a.seconds, a.cpuSeconds = time.Since(begin).Seconds(), st.busySeconds()-busy
	time.Sleep(settle)
	after, err := sshCounters(hosts)
	if err != nil {
		return a, err
	}
	for i, h := range hosts {
		seen := after[i].Sub(before[i])
		a.seen = append(a.seen, seen)
		if seen.Connections > 1 {
			st.logf("%s accepted %d connections; %s", h.Name(), seen.Connections, st.Diagnosis())
		}
	}
	return a, nil
}

func sshCounters(hosts []*lab.Host) ([]sshserver.Counters, error) {
	var all []sshserver.Counters
	for _, h := range hosts {
		s, err := h.Stats()
		if err != nil {
			return nil, fmt.Errorf("reading the counters of the SSH server of %s: %w", h.Name(), err)
		}
		all = append(all, s)
	}
	return all, nil
}

// removeAll removes all hosts from the cluster, without changing the hosts.
func (st *stage) removeAll(ctx context.Context) error {
	inNamespace := client.InNamespace(api.DefaultNamespace)
	var all v1alpha1.WindowsInstanceList
	if err := st.Client.List(ctx, &all, inNamespace); err != nil {
		return err
	}
	for i := range all.Items {
		if err := st.Release(ctx, &all.Items[i]); err != nil {
			return err
		}
	}
	entries := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: api.DefaultNamespace, Name: api.InstancesConfigMap}}
	if err := client.IgnoreNotFound(st.Client.Delete(ctx, entries)); err != nil {
		return fmt.Errorf("deleting the entries: %w", err)
	}
	if err := st.Client.DeleteAllOf(ctx, &v1alpha1.WindowsInstance{}, inNamespace); err != nil {
		return fmt.Errorf("deleting the instances: %w", err)
	}
	err := st.until(ctx, "no instance is left", func(ctx context.Context) (bool, error) {
		var list v1alpha1.WindowsInstanceList
		err := st.Client.List(ctx, &list, inNamespace)
		return len(list.Items) == 0, err
	})
	if err != nil {
		return err
	}
	if err := st.Client.DeleteAllOf(ctx, &corev1.Node{}); err != nil {
		return fmt.Errorf("deleting the nodes: %w", err)
	}
	return nil
}

// leave removes all hosts from the cluster and turns them off.
func (st *stage) leave(ctx context.Context, hosts []*lab.Host) error {
	err := st.removeAll(ctx)
	for _, h := range hosts {
		h.PowerOff()
	}
	return err
}
