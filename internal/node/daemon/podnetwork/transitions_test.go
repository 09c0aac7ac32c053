package podnetwork

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/windows-machine-config/wmco/internal/shared/hns"
)

// way is a path through the table: the first phase, the events, the action of the last event, and the phase after it.
type way struct {
	from   phase
	events []event
	do     action
	want   phase
}

func (w way) walk(t *testing.T, taken map[transitionKey]bool) {
	t.Helper()
	got, do := w.from, none
	for _, e := range w.events {
		taken[transitionKey{got, e}] = true
		next, err := networkTransitions().after(got, e)
		if err != nil {
			t.Fatal(err)
		}
		got, do = next.next, next.do
	}
	if got != w.want || do != w.do {
		t.Errorf("%v from %q lead to %q and %q, want %q and %q", w.events, w.from, got, do, w.want, w.do)
	}
}

// TestTransitions walks paths of the Host Network Service, the network, kube-proxy and missing objects. They cover each row of the table.
func TestTransitions(t *testing.T) {
	taken := map[transitionKey]bool{}
	for name, w := range map[string]way{
		"the service answers":            {hnsAnswers, []event{networkFound}, none, hnsAnswers},
		"a read fails":                   {hnsAnswers, []event{readFails, networkFound}, none, hnsAnswers},
		"the service is unavailable":     {hnsAnswers, []event{readUnavailable, readUnavailable, readFails}, none, hnsUnavailable},
		"the service is available again": {hnsAnswers, []event{readUnavailable, networkFound}, restartProxy, hnsAnswers},

		"the network is created":                    {networkAwaited, []event{networkMissing, networkMissing, networkFound, networkFound}, none, networkPresent},
		"the network is not created":                {networkAwaited, []event{networkMissing, networkOverdue}, restartCreator, networkRestoring},
		"the network is lost":                       {networkPresent, []event{networkMissing, networkMissing}, none, networkLost},
		"the network stays missing":                 {networkPresent, []event{networkMissing, networkOverdue}, restartCreator, networkRestoring},
		"the network stays missing after a restart": {networkLost, []event{networkOverdue, networkMissing, networkOverdue}, restartCreator, networkRestoring},
		"the network is back":                       {networkPresent, []event{networkMissing, networkFound}, none, networkPresent},
		"the network is replaced":                   {networkPresent, []event{networkReplaced}, restartProxy, networkPresent},
		"the lost network is replaced":              {networkLost, []event{networkReplaced}, restartProxy, networkPresent},
		"a restart re-creates the network":          {networkLost, []event{networkOverdue, networkReplaced}, restartProxy, networkPresent},
		"the network is back after a restart":       {networkLost, []event{networkOverdue, networkFound}, none, networkPresent},

		"kube-proxy has created everything":                {proxyStarting, []event{proxyReplaced, proxyComplete, proxyComplete}, none, proxyServing},
		"kube-proxy exits by itself":                       {proxyStarting, []event{proxyComplete, proxyReplaced}, none, proxyStarting},
		"a load balancer is lost":                          {proxyStarting, []event{proxyComplete, proxyRestartRequested}, none, proxyRestarting},
		"a load balancer is lost, and kube-proxy restarts": {proxyServing, []event{proxyRestartRequested, proxyReplaced}, none, proxyRepairing},
		"kube-proxy exits after a loss, and again":         {proxyStarting, []event{proxyRestartRequested, proxyReplaced, proxyReplaced}, none, proxyRepairing},
		"another restart is requested":                     {proxyServing, []event{proxyRestartRequested, proxyReplaced, proxyRestartRequested}, none, proxyRepairing},
		"kube-proxy has re-created everything":             {proxyServing, []event{proxyRestartRequested, proxyReplaced, proxyComplete}, none, proxyServing},
		"a lost load balancer comes back by itself":        {proxyServing, []event{proxyRestartRequested, proxyComplete}, none, proxyServing},
		"the network is lost while kube-proxy starts":      {proxyStarting, []event{proxyRestartRequested}, none, proxyRepairing},
		"kube-proxy is repaired, and exits by itself":      {proxyServing, []event{proxyRestartRequested, proxyReplaced, proxyComplete, proxyReplaced}, none, proxyStarting},
		"load balancers are lost twice before the restart": {proxyServing, []event{proxyRestartRequested, proxyRestartRequested}, none, proxyRestarting},

		"an object is created":                          {unseen, []event{undecided, present, present}, none, seen},
		"an object is created late":                     {unseen, []event{missing, missing, overdue, present}, none, seen},
		"an object is not created":                      {unseen, []event{missing, overdue, overdue}, none, awaited},
		"an object is lost":                             {seen, []event{missing, missing, overdue, overdue}, none, lost},
		"an object is lost for certain":                 {seen, []event{overdue}, none, lost},
		"an object is back":                             {seen, []event{missing, present}, none, seen},
		"an object is no longer required":               {seen, []event{missing, unneeded, missing}, none, awaited},
		"an object may belong to the former process":    {unseen, []event{missing, undecided, present, undecided, missing, undecided}, none, lost},
		"a present object changes":                      {seen, []event{unneeded, present}, none, seen},
		"an awaited object is not required":             {unseen, []event{missing, unneeded}, none, unseen},
		"another process creates the object":            {seen, []event{forgotten}, none, unseen},
		"an object is lost, and another process starts": {seen, []event{missing, forgotten, forgotten}, none, awaited},
		"a restart does not restore the object":         {seen, []event{missing, overdue, retried, forgotten, undecided, missing, overdue}, none, abandoned},
		"a restart restores the object":                 {lost, []event{retried, forgotten, present}, none, seen},
		"after a restart, the object is not required":   {lost, []event{retried, unneeded}, none, unseen},
		"the API server does not confirm the object":    {lost, []event{unconfirmed}, none, unseen},
	} {
		t.Run(name, func(t *testing.T) { w.walk(t, taken) })
	}
	for row := range networkTransitions() {
		if !taken[row] {
			t.Errorf("no path covers event %q in phase %q", row.event, row.phase)
		}
	}
}

func TestUnlistedTransitionsAreRefused(t *testing.T) {
	table, phases, events := networkTransitions(), map[phase]bool{}, map[event]bool{}
	for row, next := range table {
		phases[row.phase], phases[next.next], events[row.event] = true, true, true
	}
	for p := range phases {
		for e := range events {
			if _, listed := table[transitionKey{p, e}]; listed {
				continue
			}
			j := evaluation{table: table}
			got := p
			if next := j.move(&got, e); got != p || next.do != none || len(j.plan.unlisted) != 1 {
				t.Errorf("%q in phase %q leads to %q and %q", e, p, got, next.do)
			}
		}
	}
}

// TestEveryViewHasTransitions evaluates random views: the table has a row for anything that Windows returns.
func TestEveryViewHasTransitions(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 0))
		one := func() bool { return random.IntN(3) == 0 }
		m, now, want := newNetworkMemory(), time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC), overlayWanted()
		want.Once = seed%2 == 0
		for pass := range 500 {
			now = now.Add(time.Duration(random.IntN(200)) * time.Second)
			v := networkView{now: now, state: healthy(random.IntN(6)), cluster: cluster(random.IntN(6)), proxy: uint32(random.IntN(3))}
			v.state.Networks[0].ID = fmt.Sprint("n", random.IntN(2))
			switch {
			case one():
				v.err = fmt.Errorf("reading: %w", hns.ErrUnavailable)
			case one():
				v.err = errors.New("too slow")
			case one():
				v.state.Networks = nil
			case one():
				v.state.Endpoints, v.pods = nil, []podNetwork{{"sandbox", addr("10.132.1.5")}}
			case one():
				v.state.LoadBalancers = append(v.state.LoadBalancers, hns.LoadBalancer{ID: "orphan", VIPs: []netip.Addr{addr("10.96.9.9")}})
			case one():
				v.cluster = nil
			}
			if p := m.evaluate(want, v); len(p.unlisted) > 0 {
				t.Fatalf("seed %d, pass %d: unlisted transitions %v (phases %s)", seed, pass, p.unlisted, slices.Sorted(maps.Values(map[int]phase{0: m.hns, 1: m.network, 2: m.proxy.phase})))
			}
		}
	}
}
