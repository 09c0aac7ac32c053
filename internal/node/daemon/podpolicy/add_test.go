package podpolicy_test

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/policypipe"
	"github.com/windows-machine-config/wmco/internal/shared/hns"
	"github.com/windows-machine-config/wmco/internal/shared/policyset"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

// add adds a pod within a time.
func (n *node) add(t *testing.T, p runningPod, within time.Duration) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	return n.part.Add(ctx, p.request())
}

func expectError(t *testing.T, when string, err error, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%s, the error is %v, want %q in it", when, err, part)
		}
	}
}

func TestNewPodsStartWithTheirRules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, enforced(), sim.WindowsOptions{NoQuirks: noQuirk})
		n.publish(t, setOf("shop", 80))
		for _, name := range []string{"web", "db"} {
			p := n.attach("shop", name)
			n.publish(t, setOf("bank", 80, p))
			began := time.Now()
			n.mustAdd(t, p)
			if took := time.Since(began); took > time.Second {
				t.Errorf("adding pod %s took %v", name, took)
			}
			if len(n.hns.RulesOf(p.endpoint)) == 0 {
				t.Errorf("pod %s is open", name)
			}
			writes := n.hns.ACLWrites()
			n.mustAdd(t, p)
			if more := n.hns.ACLWrites() - writes; more > 0 {
				t.Errorf("repeating it is %d writes", more)
			}
		}
		open := n.attach("open", "web")
		n.mustAdd(t, open)
		n.expectOpen(t, "in a namespace without policies", open)
	})
}

// TestNewPodsWaitForTheirEndpoint: a Host Network Service that has just started may not list it.
func TestNewPodsWaitForTheirEndpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, enforced(), sim.WindowsOptions{NoQuirks: noQuirk})
		web := n.attach("shop", "web")
		n.publish(t, setOf("shop", 80, web))
		n.hns.Lose(web.endpoint)
		expectError(t, "without endpoint", n.add(t, web, 10*time.Second), "shop/web", web.Address.String())
		e := hns.Endpoint{ID: web.endpoint, Network: n.network, Name: web.Sandbox, Address: web.Address}
		time.AfterFunc(5*time.Second, func() { n.hns.Add(hns.State{Endpoints: []hns.Endpoint{e}}) })
		n.mustAdd(t, web)
		n.hns.Stop()
		time.AfterFunc(5*time.Second, func() { n.hns.Start(false) })
		n.mustAdd(t, web)
		n.hns.Refuse("SetACLs", errors.New("access denied"))
		db := n.attach("shop", "db")
		expectError(t, "with a Host Network Service that refuses", n.add(t, db, 10*time.Second), "shop/db", "access denied")
		n.hns.Refuse("SetACLs", nil)
		n.mustAdd(t, db)
	})
}

// TestNewPodsNeedASet: it must have been read from the API server or, if that is away, from the disk.
func TestNewPodsNeedASet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, enforced(), sim.WindowsOptions{NoQuirks: noQuirk})
		web := n.attach("shop", "web")
		n.publish(t, setOf("shop", 80, web))
		n.cluster.SetUnavailable(true)
		expectError(t, "without an API server", n.add(t, web, 10*time.Second), "namespace shop", "operators", "503")
		n.unconnect()
		expectError(t, "without a client", n.add(t, web, 10*time.Second), "namespace shop", "not connected")
		if n.hns.ACLWrites() > 0 {
			t.Error("rules were written")
		}
		n.cluster.SetUnavailable(false)
		n.connect(t)
		n.mustAdd(t, web)
		n.unconnect()
		n.restart(t)
		n.cluster.SetUnavailable(true)
		time.Sleep(time.Minute)
		again := n.attach("shop", "web")
		again.UID = web.UID // the kubelet creates the sandbox again
		began := time.Now()
		n.mustAdd(t, again)
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("with a stored set, adding a pod took %v", took)
		}
	})
}

func TestInvalidRequestsAreRejected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, enforced(), sim.WindowsOptions{NoQuirks: noQuirk})
		for name, change := range map[string]func(r *policypipe.Request){
			"no namespace": func(r *policypipe.Request) { r.Namespace = "" },
			"a path":       func(r *policypipe.Request) { r.Namespace = `..\x` },
			"no name":      func(r *policypipe.Request) { r.Name = "" },
			"no UID":       func(r *policypipe.Request) { r.UID = "" },
			"no sandbox":   func(r *policypipe.Request) { r.ContainerID = "" },
			"no address":   func(r *policypipe.Request) { r.Addresses = nil },
			"only IPv6":    func(r *policypipe.Request) { r.Addresses = []netip.Addr{netip.MustParseAddr("fd00::1")} },
		} {
			r := n.attach("shop", "web").request()
			change(&r)
			if err := n.part.Add(t.Context(), r); err == nil {
				t.Errorf("%s: no error", name)
			}
		}
	})
}

// TestPodsAreAddedInParallel while the Host Network Service is slow and a set changes.
func TestPodsAreAddedInParallel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, enforced(), sim.WindowsOptions{NoQuirks: noQuirk})
		var all []runningPod
		for _, name := range []string{"a", "b", "c", "d", "e", "f", "g", "h"} {
			all = append(all, n.attach("shop", name))
		}
		n.publish(t, setOf("shop", 80, all...))
		n.hns.Slow(time.Second)
		began := time.Now()
		var work sync.WaitGroup
		for _, p := range all {
			work.Go(func() {
				if err := n.add(t, p, time.Minute); err != nil {
					t.Error(err)
				}
			})
		}
		work.Wait()
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("adding %d pods took %v", len(all), took)
		}
		for port := range uint16(5) {
			n.publish(t, setOf("shop", 81+port, all...))
			for _, p := range all {
				work.Go(func() { _ = n.add(t, p, time.Minute) })
			}
			time.Sleep(700 * time.Millisecond)
		}
		work.Wait()
		n.hns.Slow(0)
		time.Sleep(inForce)
		for _, p := range all {
			n.expect(t, "after changes", p, nil)
		}
	})
}

// TestAddDoesNotWaitForPausesOfRepairs: the rules are in force when it returns.
func TestAddDoesNotWaitForPausesOfRepairs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, enforced(), sim.WindowsOptions{NoQuirks: noQuirk})
		web := n.run(t, "shop", "web")
		n.publish(t, setOf("shop", 80, web))
		time.Sleep(inForce)
		for range 10 {
			n.hns.ReplaceACLs(web.endpoint, nil)
			n.mustAdd(t, web)
			closed := policyset.Closed("shop")
			if hns.SameACLs(n.hns.RulesOf(web.endpoint), n.wanted(web, closed)) {
				t.Error("the pod is closed")
			}
		}
	})
}
