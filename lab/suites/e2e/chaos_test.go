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

// programBytes makes joins long enough to be interrupted within a program, and makes the loss of an interruption comparatively small.
const programBytes = 4 << 20

// TestChaos has a subtest for each failure that can happen at any moment. Nothing is lost, and everything recovers without help.
// All subtests share a cluster; the hosts of one are bystanders of the next.
func TestChaos(t *testing.T) {
	p := newPlace(t, testenv.Options{ProgramBytes: programBytes})
	tests := []struct {
		name string
		test func(place)
	}{
		{"ConnectionsAreCutAtAnyByte", connectionsCut},
		{"HostsLosePowerAtAnyChange", powerLost},
		{"HostsRestartAfterAnyStep", hostsRestarted},
		{"TheOperatorIsKilledAtAnyStep", operatorKilled},
		{"TheTokenOfAHostIsLost", tokenLost},
		{"TheAPIServerIsUnavailable", apiServerUnavailable},
		{"TheAPIServerFailsHalfOfTheTime", apiServerFails},
		{"AFileInTheStoreIsAltered", storeAltered},
		{"TheOperatorsOwnFileIsAltered", payloadAltered},
		{"CertificatesOfOthersAreRequested", certificatesRefused},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) { test.test(p.in(t)) })
	}
}

// joiner is a simulated host and its instance.
type joiner struct {
	*sim.Host
	at   testenv.Host
	name types.NamespacedName
}

// joiner starts a host and announces it. prepare, if any, is called in between.
func (p place) joiner(hostname string, prepare func(*sim.Host)) joiner {
	p.t.Helper()
	host, h := p.host(sim.Options{Windows: sim.WindowsOptions{Hostname: hostname, BootTime: time.Second}})
	if prepare != nil {
		prepare(host)
	}
	return joiner{host, h, p.announce(h, nil)}
}

// random returns a source of random numbers. It logs its seed, which can be set here to repeat a failure.
func (p place) random() *rand.Rand {
	p.t.Helper()
	seed := rand.Uint64()
	p.t.Logf("the seed is %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// expectAlive waits until a host is a Ready node that reports the host's current boot.
func (p place) expectAlive(j joiner) {
	p.t.Helper()
	p.eventually("node "+j.at.Name+" reports the current boot", func(ctx context.Context) string {
		var node corev1.Node
		if err := p.Client.Get(ctx, types.NamespacedName{Name: j.at.Name}, &node); err != nil {
			return fmt.Sprintf("%v; the instance is %+v", err, p.instance(j.name).Status)
		}
		if got, want := node.Status.NodeInfo.BootID, j.Windows().BootID(); got != want {
			return fmt.Sprintf("it reports boot %s, the host is at %s", got, want)
		}
		return notReady(&node)
	})
	p.expectReady(j.name)
}

// forget deletes an instance without changing the host, and returns when it is gone.
func (p place) forget(name types.NamespacedName) {
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

// follow calls see for every state of each instance, in order and without gaps, until see returns true.
func (p place) follow(what string, see func(*v1alpha1.WindowsInstance) (enough bool)) (wait func()) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), lab.Patience(patience))
	w, err := p.Client.Watch(ctx, &v1alpha1.WindowsInstanceList{}, client.InNamespace(api.DefaultNamespace))
	if err != nil {
		cancel()
		p.t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		defer cancel()
		defer w.Stop()
		done <- until(w, see)
	}()
	return func() {
		p.t.Helper()
		if err := <-done; err != nil {
			p.t.Fatalf("%s: %v", what, err)
		}
	}
}

func until(w watch.Interface, see func(*v1alpha1.WindowsInstance) bool) error {
	for event := range w.ResultChan() {
		if i, ok := event.Object.(*v1alpha1.WindowsInstance); ok && see(i) {
			return nil
		}
	}
	return errors.New("the watch ended too early")
}

// expectOneNodeEach checks that no host has two nodes. Each host has its own address.
func (p place) expectOneNodeEach(all []joiner) {
	p.t.Helper()
	var nodes corev1.NodeList
	must(p.t, p.Client.List(p.t.Context(), &nodes))
	of := map[string][]string{}
	for _, n := range nodes.Items {
		for _, a := range n.Status.Addresses {
			if a.Type == corev1.NodeInternalIP {
				of[a.Address] = append(of[a.Address], n.Name)
			}
		}
	}
	for address, names := range of {
		if len(names) > 1 {
			p.t.Errorf("the host at %s has the nodes %q", address, names)
		}
	}
	for _, j := range all {
		if ref := p.instance(j.name).Status.NodeRef; ref == nil || ref.Name != j.at.Name {
			p.t.Errorf("instance %s has node %v, want %s", j.name.Name, ref, j.at.Name)
		}
	}
}
