//go:build linux

package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/testenv"
)

// programBytes is the size of programs. It makes joins long enough to be interrupted within a program, and is large compared with the data that an
// interruption can lose.
const programBytes = 4 << 20

// TestChaos has a subtest for each failure that can happen at any moment. Nothing must be lost, and everything must recover without
// help. All subtests share a cluster; the hosts of one are bystanders in the next.
func TestChaos(t *testing.T) {
	p := newHarness(t, testenv.Options{ProgramBytes: programBytes})
	tests := []struct {
		name string
		test func(harness)
	}{
		{"ConnectionsAreCutAtAnyByte", connectionsCut},
		{"HostsLosePowerAtAnyChange", powerLost},
		{"HostsRestartAfterAnyStep", hostsRestarted},
		{"OperatorIsKilledAtAnyStep", operatorKilled},
		{"BootstrapTokenIsLost", tokenLost},
		{"APIServerIsUnavailable", apiServerUnavailable},
		{"APIServerFailsHalfOfTheRequests", apiServerFails},
		{"FileInTheStoreIsAltered", storeAltered},
		{"OperatorsPayloadIsAltered", payloadAltered},
		{"CertificatesOfOtherNodesAreNotApproved", certificatesNotApproved},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) { test.test(p.withT(t)) })
	}
}

// joiningHost is a simulated host and its instance.
type joiningHost struct {
	*sim.Host
	at   testenv.Host
	name types.NamespacedName
}

// addHost starts a host and announces it. In between it calls prepare, if not nil.
func (p harness) addHost(hostname string, prepare func(*sim.Host)) joiningHost {
	p.t.Helper()
	host, h := p.host(sim.Options{Windows: sim.WindowsOptions{Hostname: hostname, BootTime: time.Second}})
	if prepare != nil {
		prepare(host)
	}
	return joiningHost{host, h, p.announce(h, nil)}
}

// random returns a source of random numbers. It logs the seed, which can be set here to reproduce a failure.
func (p harness) random() *rand.Rand {
	p.t.Helper()
	seed := rand.Uint64()
	p.t.Logf("the seed is %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// expectAlive waits until a host is a Ready node that reports the host's current boot.
func (p harness) expectAlive(j joiningHost) {
	p.t.Helper()
	p.eventually("node "+j.at.Name+" reports the current boot", func(ctx context.Context) string {
		var node corev1.Node
		if err := p.Client.Get(ctx, types.NamespacedName{Name: j.at.Name}, &node); err != nil {
			return fmt.Sprintf("%v; the instance is %+v", err, p.instance(j.name).Status)
		}
		if got, want := node.Status.NodeInfo.BootID, j.Windows().BootID(); got != want {
			return fmt.Sprintf("it reports boot %s, want %s", got, want)
		}
		return notReady(&node)
	})
	p.expectReady(j.name)
}

// forget deletes an instance without changing the host, and waits until it is deleted.
func (p harness) forget(name types.NamespacedName) {
	p.t.Helper()
	must(p.t, p.Release(p.t.Context(), p.instance(name)))
	p.remove(p.instance(name))
	p.expectGone(name, &v1alpha1.WindowsInstance{})
}

// reached reports whether a step of an instance has reached a state, or is done.
func reached(i *v1alpha1.WindowsInstance, step string, state v1alpha1.StepState) bool {
	n := slices.IndexFunc(i.Status.Steps, func(s v1alpha1.StepStatus) bool { return s.Name == step })
	return n >= 0 && (i.Status.Steps[n].State == state || i.Status.Steps[n].State == v1alpha1.StepDone)
}

// follow calls observe for every state of each instance, in order and without gaps, until observe returns true. wait waits for that.
func (p harness) follow(what string, observe func(*v1alpha1.WindowsInstance) (done bool)) (wait func()) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), lab.Timeout(waitTimeout))
	w, err := p.Client.Watch(ctx, &v1alpha1.WindowsInstanceList{}, client.InNamespace(api.DefaultNamespace))
	if err != nil {
		cancel()
		p.t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		defer cancel()
		defer w.Stop()
		done <- until(w, observe)
	}()
	return func() {
		p.t.Helper()
		if err := <-done; err != nil {
			p.t.Fatalf("%s: %v", what, err)
		}
	}
}

func until(w watch.Interface, observe func(*v1alpha1.WindowsInstance) bool) error {
	for event := range w.ResultChan() {
		if i, ok := event.Object.(*v1alpha1.WindowsInstance); ok && observe(i) {
			return nil
		}
	}
	return errors.New("the watch ended too early")
}

// expectOneNodeEach checks that no host has two nodes. Each host has its own address.
func (p harness) expectOneNodeEach(all []joiningHost) {
	p.t.Helper()
	var nodes corev1.NodeList
	must(p.t, p.Client.List(p.t.Context(), &nodes))
	byAddress := map[string][]string{}
	for _, n := range nodes.Items {
		for _, a := range n.Status.Addresses {
			if a.Type == corev1.NodeInternalIP {
				byAddress[a.Address] = append(byAddress[a.Address], n.Name)
			}
		}
	}
	for address, names := range byAddress {
		if len(names) > 1 {
			p.t.Errorf("host %s has more than one node: %q", address, names)
		}
	}
	for _, j := range all {
		if ref := p.instance(j.name).Status.NodeRef; ref == nil || ref.Name != j.at.Name {
			p.t.Errorf("node of instance %s: got %v, want %s", j.name.Name, ref, j.at.Name)
		}
	}
}
