package podpolicy_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/windows-machine-config/wmco/internal/shared/hns"
	"github.com/windows-machine-config/wmco/internal/shared/policyset"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

// newEnforcing returns a node with one pod whose rules are in force.
func newEnforcing(t *testing.T) (*node, runningPod) {
	t.Helper()
	n := newNode(t, enforced(), sim.WindowsOptions{NoQuirks: noQuirk})
	web := n.run(t, "shop", "web")
	n.publish(t, setOf("shop", 80, web))
	time.Sleep(inForce)
	n.expect(t, "at first", web, nil)
	return n, web
}

func TestRulesSurviveOutages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, web := newEnforcing(t)
		writes := n.hns.ACLWrites()
		n.cluster.SetUnavailable(true)
		time.Sleep(time.Hour)
		n.restart(t)
		time.Sleep(time.Hour)
		n.expect(t, "while the API server is away", web, nil)
		n.hns.Stop()
		time.Sleep(10 * time.Minute)
		n.hns.Start(false)
		time.Sleep(inForce)
		n.restart(t)
		time.Sleep(inForce)
		n.expect(t, "after HNS was away", web, nil)
		if more := n.hns.ACLWrites() - writes; more > 0 {
			t.Errorf("outages are %d writes", more)
		}
		n.publish(t, setOf("shop", 8080, web))
		n.cluster.SetUnavailable(false)
		time.Sleep(time.Minute)
		n.expect(t, "when the API server is back", web, nil)
	})
}

// TestLostEndpointsGetTheirRulesAgain: the Host Network Service has lost everything, and the network's service and the kubelet create it again.
func TestLostEndpointsGetTheirRulesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, web := newEnforcing(t)
		before := n.hns.State()
		n.hns.Restart(true)
		time.Sleep(3 * time.Minute)
		n.hns.Add(before)
		time.Sleep(inForce)
		n.expect(t, "when the endpoint is back", web, nil)
	})
}

// TestSetsStoredBeforeARestartAreApplied: WICD ends between the arrival of a set and the write of its rules.
func TestSetsStoredBeforeARestartAreApplied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, web := newEnforcing(t)
		n.hns.Stop()
		n.publish(t, setOf("shop", 8080, web))
		time.Sleep(inForce)
		n.stop()
		n.cluster.SetUnavailable(true)
		n.hns.Start(false)
		n.start(t)
		time.Sleep(inForce)
		n.expect(t, "after the restart", web, nil)
	})
}

// TestChangesOfOthersAreRepaired at once at first, and then with pauses: each write may reset connections.
func TestChangesOfOthersAreRepaired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, web := newEnforcing(t)
		for name, rules := range map[string][]hns.ACL{
			"removed":       nil,
			"replaced":      {{Action: hns.Allow, Direction: hns.In, Priority: 500}},
			"of a program":  {{Foreign: true}},
			"without ports": {{Action: hns.Allow, Direction: hns.In, Protocol: hns.TCP, Priority: 1000}},
		} {
			n.hns.ReplaceACLs(web.endpoint, rules)
			time.Sleep(inForce)
			n.expect(t, name, web, nil)
			time.Sleep(11 * time.Minute)
		}
		writes := n.hns.ACLWrites()
		for range 3600 {
			n.hns.ReplaceACLs(web.endpoint, nil)
			time.Sleep(time.Second)
		}
		if repairs := n.hns.ACLWrites() - writes; repairs < 12 || repairs > 30 {
			t.Errorf("there are %d repairs in an hour", repairs)
		}
		time.Sleep(10 * time.Minute)
		n.expect(t, "in the end", web, nil)
	})
}

// TestServiceThatOmitsPortsIsNotWrittenAgain: rules that it does not return as written are written again once.
func TestServiceThatOmitsPortsIsNotWrittenAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, web := newEnforcing(t)
		n.stop()
		n.hns.SetQuirks(sim.NetworkQuirks{OmitsACLPorts: true})
		n.start(t)
		writes := n.hns.ACLWrites()
		time.Sleep(time.Hour)
		if more := n.hns.ACLWrites() - writes; more > 2 {
			t.Errorf("there are %d writes in an hour", more)
		}
		n.hns.ReplaceACLs(web.endpoint, nil)
		time.Sleep(time.Minute)
		n.expect(t, "after a change", web, nil)
	})
}

func TestFailedWritesAreRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, web := newEnforcing(t)
		n.hns.Refuse("SetACLs", errors.New("access denied"))
		n.hns.ResetCalls()
		n.publish(t, setOf("shop", 8080, web))
		time.Sleep(time.Hour)
		if calls := n.hns.Calls()["SetACLs"]; calls < 5 || calls > 30 || n.part.PolicyCounts().Failures != int64(calls) {
			t.Errorf("there are %d attempts in an hour, and the counts are %+v", calls, n.part.PolicyCounts())
		}
		n.hns.Refuse("SetACLs", nil)
		time.Sleep(10 * time.Minute)
		n.expect(t, "in the end", web, nil)
	})
}

// TestRandomHistories: whatever happens, rules are in the end those of the last sets, on all kinds of Windows.
func TestRandomHistories(t *testing.T) {
	for seed := range uint64(24) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHistory(t, seed)
				for range 60 {
					h.step(t)
				}
				h.end(t)
			})
		})
	}
}

// history is a random history of a node.
type history struct {
	*node
	random *rand.Rand
	pods   []runningPod
}

func newHistory(t *testing.T, seed uint64) *history {
	t.Helper()
	h := &history{random: rand.New(rand.NewPCG(seed, 45))}
	o := sim.WindowsOptions{NoQuirks: "without quirks"}
	if seed%4 > 0 {
		o = sim.WindowsOptions{Quirks: sim.Quirks{Network: sim.RandomQuirks(seed).Network}}
	}
	policies := enforced()
	policies.OpenIfTooLarge = seed%2 == 0
	h.node = newNode(t, policies, o)
	return h
}

func (h *history) namespace() string { return []string{"shop", "bank", "open"}[h.random.IntN(3)] }

// step does one thing, and waits for a moment.
func (h *history) step(t *testing.T) {
	t.Helper()
	switch h.random.IntN(12) {
	case 0, 1:
		p := h.attach(h.namespace(), fmt.Sprintf("pod-%d", h.random.IntN(5)))
		if h.add(t, p, time.Minute) != nil { // the kubelet tries again with another sandbox
			h.node.end(t, p)
			break
		}
		if err := h.windows.RunPod(p.Pod); err != nil {
			t.Fatal(err)
		}
		h.pods = append(h.pods, p)
	case 2, 3, 4:
		h.publishAny(t)
	case 5:
		if i := h.random.IntN(len(h.pods) + 1); i < len(h.pods) {
			h.node.end(t, h.pods[i])
			h.pods = append(h.pods[:i:i], h.pods[i+1:]...)
		}
	case 6:
		// Rules of other programs on a pod without policies stay.
		if i := h.random.IntN(len(h.pods) + 1); i < len(h.pods) && len(h.hns.RulesOf(h.pods[i].endpoint)) > 0 {
			h.hns.ReplaceACLs(h.pods[i].endpoint, []hns.ACL{{Action: hns.Allow, Direction: hns.In, Priority: 200}})
		}
	case 7:
		h.restart(t)
	case 8:
		h.cluster.SetUnavailable(h.random.IntN(2) == 0)
	case 9:
		h.hns.Restart(false)
	case 10:
		h.hns.Slow(time.Duration(h.random.IntN(2)) * 300 * time.Millisecond)
	case 11:
		h.cluster.Forget()
	}
	time.Sleep(time.Duration(h.random.IntN(4000)) * time.Millisecond)
}

func (h *history) publishAny(t *testing.T) {
	t.Helper()
	namespace := h.namespace()
	var listed []runningPod
	names := map[string]bool{}
	for _, p := range h.pods {
		if p.Namespace == namespace && !names[p.Name] && h.random.IntN(5) > 0 {
			listed, names[p.Name] = append(listed, p), true
		}
	}
	switch h.random.IntN(8) {
	case 0:
		h.cluster.Delete(setsPath + namespace)
	case 1:
		h.publishText(t, namespace, "{")
	case 2:
		h.publish(t, policyset.Set{Namespace: namespace, Unlisted: policyset.Directions{Egress: true}, Omitted: policyset.MaxSize + 1})
	default:
		h.publish(t, setOf(namespace, uint16(1+h.random.IntN(3)), listed...))
	}
}

// end waits, and compares all pods.
func (h *history) end(t *testing.T) {
	t.Helper()
	h.cluster.SetUnavailable(false)
	h.hns.Slow(0)
	time.Sleep(20 * time.Minute)
	for _, p := range h.pods {
		h.expect(t, "in the end", p, nil)
	}
	h.stop()
	h.policies = nil
	h.start(t)
	time.Sleep(5 * time.Minute)
	h.expectOpen(t, "when policies are no longer enforced", h.pods...)
}
