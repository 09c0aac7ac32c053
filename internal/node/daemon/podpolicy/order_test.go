package podpolicy_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/daemon/state"
	"github.com/windows-machine-config/wmco/internal/shared/hns"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

// TestEachWriteHasTheNewestSet: a set that changes during a pass is in the writes that follow.
func TestEachWriteHasTheNewestSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, a := newEnforcing(t)
		b := n.run(t, "shop", "b")
		n.publish(t, setOf("shop", 80, a, b))
		time.Sleep(inForce)
		n.hns.Slow(2 * time.Second)
		writes := n.hns.ACLWrites()
		n.publish(t, setOf("shop", 81, a, b))
		time.Sleep(5 * time.Second) // the first write is running
		n.publish(t, setOf("shop", 82, a, b))
		time.Sleep(time.Minute)
		if more := n.hns.ACLWrites() - writes; more != 3 {
			t.Errorf("there are %d writes, want one of the first set and two of the second", more)
		}
		n.expect(t, "in the end", a, nil)
		n.expect(t, "in the end", b, nil)
	})
}

// TestPodWithoutItsAddressDoesNotStart: a later pod has got it, so that the rules of the endpoint are that pod's.
func TestPodWithoutItsAddressDoesNotStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, enforced(), sim.WindowsOptions{NoQuirks: noQuirk})
		former, later := n.attach("open", "former"), n.attach("shop", "later")
		n.hns.Lose(former.endpoint, later.endpoint)
		later.Address = former.Address
		n.publish(t, setOf("shop", 80, later))
		failed := make(chan error)
		go func() { failed <- n.add(t, former, 20*time.Second) }()
		time.Sleep(2 * time.Second)
		later.endpoint = n.windows.AttachPod(n.network, later.Pod)
		n.mustAdd(t, later)
		expectError(t, "for the former pod", <-failed, "shop/later", later.Address.String())
		n.expect(t, "in the end", later, nil)
	})
}

// TestPodWhoseEndpointVanishesDoesNotStart: it vanishes between the read and the write.
func TestPodWhoseEndpointVanishesDoesNotStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, enforced(), sim.WindowsOptions{NoQuirks: noQuirk})
		web := n.attach("shop", "web")
		n.publish(t, setOf("shop", 80, web))
		n.hns.Refuse("SetACLs", hns.ErrNotFound)
		expectError(t, "without endpoint", n.add(t, web, 10*time.Second), hns.ErrNotFound.Error())
		if counts := n.part.PolicyCounts(); counts.Failures > 0 {
			t.Errorf("the counts are %+v", counts)
		}
	})
}

// TestListsWithoutAddressesSuffice: each endpoint is read then.
func TestListsWithoutAddressesSuffice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, enforced(), sim.WindowsOptions{Quirks: sim.Quirks{Network: sim.NetworkQuirks{OmitsAddresses: true}}})
		web, old := n.attach("shop", "web"), n.run(t, "shop", "old")
		n.publish(t, setOf("shop", 80, web, old))
		n.mustAdd(t, web)
		time.Sleep(time.Hour)
		n.expect(t, "later", web, nil)
		n.expect(t, "later", old, nil)
		if reads := n.hns.Calls()["ReadObjects"]; reads > 5 {
			t.Errorf("each endpoint was read %d times", reads)
		}
	})
}

// TestLostHostEndpointCausesNoWrites: it is created again with its address.
func TestLostHostEndpointCausesNoWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, web := newEnforcing(t)
		writes := n.hns.ACLWrites()
		for _, e := range n.hns.State().Endpoints {
			if e.Host {
				n.hns.Lose(e.ID)
			}
		}
		time.Sleep(time.Minute)
		if more := n.hns.ACLWrites() - writes; more > 0 {
			t.Errorf("there are %d writes", more)
		}
		n.expect(t, "without the host's endpoint", web, nil)
	})
}

// TestSetThatCouldNotBeStoredIsStoredLater, and is in force meanwhile.
func TestSetThatCouldNotBeStoredIsStoredLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, web := newEnforcing(t)
		file := state.PolicySets + `\ns-shop.json`
		before, err := n.windows.Disk().Read(file)
		if err != nil {
			t.Fatal(err)
		}
		n.windows.FailNext("create " + file + ".new")
		n.publish(t, setOf("shop", 8080, web))
		time.Sleep(50 * time.Millisecond)
		if got, err := n.windows.Disk().Read(file); err != nil || string(got) != string(before) {
			t.Errorf("the file is %s (%v)", got, err)
		}
		time.Sleep(time.Second)
		n.expect(t, "a second later", web, nil)
		n.stop()
		n.cluster.SetUnavailable(true)
		n.start(t)
		time.Sleep(inForce)
		n.expect(t, "after a restart", web, nil)
	})
}
