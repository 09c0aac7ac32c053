package podpolicy_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/daemon/daemontest"
	"github.com/windows-machine-config/wmco/internal/node/daemon/state"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/hns"
	"github.com/windows-machine-config/wmco/internal/shared/policyset"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

func TestPoliciesOfNamespacesAreEnforced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, enforced(), sim.WindowsOptions{NoQuirks: noQuirk})
		web, db, free := n.run(t, "shop", "web"), n.run(t, "bank", "db"), n.run(t, "open", "free")
		unlisted := n.run(t, "shop", "unlisted")
		n.publish(t, setOf("shop", 80, web))
		n.publish(t, setOf("bank", 5432, db))
		time.Sleep(inForce)
		all := []runningPod{web, db, free, unlisted}
		check := func(when string) {
			t.Helper()
			for _, p := range all {
				n.expect(t, when, p, nil)
			}
			n.expectOpen(t, when, free)
		}
		check("at first")
		if len(n.hns.RulesOf(web.endpoint)) == 0 || len(n.hns.RulesOf(unlisted.endpoint)) == 0 {
			t.Error("pods with policies have no rules")
		}
		writes := n.hns.ACLWrites()
		n.publish(t, setOf("shop", 8080, web))
		time.Sleep(time.Second)
		check("a second after a change")
		if more := n.hns.ACLWrites() - writes; more != 1 {
			t.Errorf("a change of one pod's rules is %d writes", more)
		}
		n.cluster.Delete(setsPath + "bank")
		time.Sleep(time.Second)
		check("a second after the last policy of a namespace was deleted")
		n.expectOpen(t, "without policies", db)
		writes, requests := n.hns.ACLWrites(), n.cluster.Count("", "")
		n.cluster.Patch(setsPath+"shop", map[string]any{"metadata": map[string]any{"labels": map[string]any{"a": "b"}}})
		time.Sleep(4 * time.Minute)
		if more := n.hns.ACLWrites() - writes; more != 0 || n.cluster.Count("", "") != requests {
			t.Errorf("an idle node makes %d writes and %d requests", more, n.cluster.Count("", "")-requests)
		}
		for _, e := range n.hns.State().Endpoints {
			isPod := slices.ContainsFunc(all, func(p runningPod) bool { return p.endpoint == e.ID })
			if !isPod && len(n.hns.RulesOf(e.ID)) > 0 {
				t.Errorf("endpoint %s, which is not of a pod, has rules", e.Name)
			}
		}
	})
}

// TestPodCreatedAgainIsClosed until the set lists it: the UID is another one.
func TestPodCreatedAgainIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, enforced(), sim.WindowsOptions{NoQuirks: noQuirk})
		first := n.run(t, "shop", "web")
		n.publish(t, setOf("shop", 80, first))
		time.Sleep(inForce)
		n.end(t, first)
		second := n.attach("shop", "web")
		n.mustAdd(t, second)
		closed := policyset.Closed("shop")
		n.expect(t, "before it is listed", second, &closed)
		n.publish(t, setOf("shop", 80, second))
		time.Sleep(time.Second)
		n.expect(t, "when it is listed", second, nil)
		time.Sleep(2 * time.Minute)
		if got, err := state.ReadPolicyEndpoints(n.windows.Disk()); err != nil || !slices.Equal(got, []string{second.endpoint}) {
			t.Errorf("remembered are %v (%v), want only %s", got, err, second.endpoint)
		}
	})
}

// TestLaterPodHasAnAddress: libcni removes the result of a pod after its address is free.
func TestLaterPodHasAnAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, enforced(), sim.WindowsOptions{NoQuirks: noQuirk})
		former := n.run(t, "open", "former")
		time.Sleep(time.Minute)
		n.hns.Lose(former.endpoint)
		next := n.attach("shop", "web")
		next.Address = former.Address
		n.hns.Lose(next.endpoint)
		next.endpoint = n.windows.AttachPod(n.network, next.Pod)
		n.publish(t, setOf("shop", 80, next))
		n.mustAdd(t, next)
		time.Sleep(time.Minute)
		n.expect(t, "with the result of the former pod", next, nil)
		if len(n.hns.RulesOf(next.endpoint)) == 0 {
			t.Error("the pod is open")
		}
	})
}

func TestReportWritesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, &desired.Policies{Mode: desired.PolicyReport}, sim.WindowsOptions{NoQuirks: noQuirk})
		web := n.run(t, "shop", "web")
		n.publish(t, setOf("shop", 80, web))
		if err := n.part.Add(t.Context(), web.request()); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Hour)
		if counts := n.part.PolicyCounts(); n.hns.ACLWrites() != 0 || counts.Endpoints != 1 || counts.ACLs == 0 {
			t.Errorf("%d writes, and the counts are %+v", n.hns.ACLWrites(), counts)
		}
	})
}

// TestOnlyOwnRulesAreRemoved when NetworkPolicies are no longer enforced, even if the Host Network Service does not answer at first.
func TestOnlyOwnRulesAreRemoved(t *testing.T) {
	for name, next := range map[string]*desired.Policies{"off": nil, "report": {Mode: desired.PolicyReport}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNode(t, enforced(), sim.WindowsOptions{NoQuirks: noQuirk})
				web, gone, foreign := n.run(t, "shop", "web"), n.run(t, "shop", "gone"), n.run(t, "open", "foreign")
				n.publish(t, setOf("shop", 80, web))
				time.Sleep(inForce)
				rules := []hns.ACL{{Action: hns.Block, Direction: hns.In, Priority: 1000}}
				n.hns.ReplaceACLs(foreign.endpoint, rules)
				time.Sleep(inForce)
				n.stop()
				n.end(t, gone)
				n.hns.Stop()
				n.policies = next
				n.start(t)
				time.Sleep(time.Minute)
				n.hns.Start(false)
				time.Sleep(3 * time.Minute)
				n.expectOpen(t, name, web)
				if !hns.SameACLs(n.hns.RulesOf(foreign.endpoint), rules) {
					t.Error("another program's rules were removed")
				}
				if got, err := state.ReadPolicyEndpoints(n.windows.Disk()); err != nil || len(got) > 0 {
					t.Errorf("remembered are %v (%v)", got, err)
				}
				if files := n.files(t); next == nil && len(files) > 0 {
					t.Errorf("there are the files %v", files)
				}
				if err := n.part.Add(t.Context(), web.request()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestNodeWithoutPoliciesDoesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, nil, sim.WindowsOptions{NoQuirks: noQuirk})
		n.run(t, "shop", "web")
		time.Sleep(time.Hour)
		if calls := n.hns.Calls(); len(calls) > 0 || n.cluster.Count("GET", "windowspolicysets") > 0 {
			t.Errorf("the calls are %v, with %d requests", calls, n.cluster.Count("GET", "windowspolicysets"))
		}
	})
}

// TestStoredSetsBelongToNamespacesWithPods: they are removed some time after the last pod.
func TestStoredSetsBelongToNamespacesWithPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, enforced(), sim.WindowsOptions{NoQuirks: noQuirk})
		web := n.run(t, "shop", "web")
		n.run(t, "con", "web") // a name that Windows reserves
		time.Sleep(inForce)
		expect := func(want ...string) {
			t.Helper()
			if got := n.files(t); !slices.Equal(got, want) {
				t.Errorf("there are the files %v, want %v", got, want)
			}
		}
		expect("ns-con.json", "ns-shop.json")
		n.end(t, web)
		time.Sleep(5 * time.Minute)
		expect("ns-con.json", "ns-shop.json")
		n.restart(t)
		time.Sleep(11 * time.Minute)
		expect("ns-con.json")
	})
}

// TestUnreadableSetsClosePods, and the Node reports it.
func TestUnreadableSetsClosePods(t *testing.T) {
	for name, text := range map[string]string{
		"no set":       "x",
		"empty":        "",
		"later format": `{"version":2,"namespace":"shop"}`,
		"other name":   `{"version":1,"namespace":"bank"}`,
		"too large":    `{"version":1,"namespace":"shop"}` + strings.Repeat(" ", policyset.MaxSize),
	} {
		for _, open := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					policies := enforced()
					policies.OpenIfTooLarge = open
					n := newNode(t, policies, sim.WindowsOptions{NoQuirks: noQuirk})
					web := n.run(t, "shop", "web")
					n.publish(t, policyset.Set{Namespace: "shop"})
					time.Sleep(inForce)
					n.publishText(t, "shop", text)
					time.Sleep(inForce)
					closed := policyset.Closed("shop")
					n.expect(t, "with the text", web, &closed)
					n.unconnect()
					n.restart(t)
					time.Sleep(time.Minute)
					n.expect(t, "after a restart of WICD", web, &closed)
				})
			})
		}
	}
}

func TestTooLargePoliciesCloseOrOpen(t *testing.T) {
	for _, open := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			policies := enforced()
			policies.OpenIfTooLarge = open
			n := newNode(t, policies, sim.WindowsOptions{NoQuirks: noQuirk})
			web := n.run(t, "shop", "web")
			n.publish(t, policyset.Set{Namespace: "shop", Unlisted: policyset.Directions{Ingress: true}, Omitted: policyset.MaxSize + 5})
			time.Sleep(inForce)
			n.expect(t, "too large", web, nil)
			if isOpen := len(n.hns.RulesOf(web.endpoint)) == 0; isOpen != open {
				t.Errorf("the pod is open: %t, want %t", isOpen, open)
			}
		})
	}
}

// TestDamagedFilesDoNotOpenPods: they are those of a power failure.
func TestDamagedFilesDoNotOpenPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, enforced(), sim.WindowsOptions{NoQuirks: noQuirk})
		web := n.run(t, "shop", "web")
		n.publish(t, setOf("shop", 80, web))
		time.Sleep(inForce)
		n.stop()
		n.cluster.SetUnavailable(true)
		disk := n.windows.Disk()
		for _, file := range []string{state.PolicySets + `\ns-shop.json`, desired.State + `\policy-endpoints.json`} {
			daemontest.MustWrite(t, disk, file, `{"version":1,"name`)
		}
		daemontest.MustWrite(t, disk, state.PolicySets+`\x.json`, "{}")
		n.start(t)
		time.Sleep(5 * time.Minute)
		closed := policyset.Closed("shop")
		n.expect(t, "with damaged files", web, &closed)
		n.cluster.SetUnavailable(false)
		time.Sleep(time.Minute)
		n.expect(t, "when the API server is back", web, nil)
	})
}

// TestUnknownPodsAndPoliciesAreClosed: a pod that runs when enforcement begins keeps its connections for a while, in which its policies
// are usually read.
func TestUnknownPodsAndPoliciesAreClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNode(t, nil, sim.WindowsOptions{NoQuirks: noQuirk})
		web := n.run(t, "shop", "web")
		nameless := n.attach("shop", "")
		if err := n.windows.RunPod(nameless.Pod); err != nil {
			t.Fatal(err)
		}
		n.cluster.SetUnavailable(true)
		n.policies = enforced()
		n.restart(t)
		time.Sleep(40 * time.Second)
		closed := policyset.Closed("shop")
		n.expectOpen(t, "before the policies count as unknown", web)
		n.expect(t, "without a name", nameless, &closed)
		time.Sleep(time.Minute)
		n.expect(t, "without policies", web, &closed)
	})
}
