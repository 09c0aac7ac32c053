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
		"the service answers":              {hnsAnswers, []event{networkFound}, none, hnsAnswers},
		"a look fails":                     {hnsAnswers, []event{readFails, networkFound}, none, hnsAnswers},
		"the service is away":              {hnsAnswers, []event{readUnavailable, readUnavailable, readFails}, none, hnsAway},
		"the service was away, and is not": {hnsAnswers, []event{readUnavailable, networkFound}, restartProxy, hnsAnswers},

		"the network is made":                   {networkAwaited, []event{networkMissing, networkMissing, networkFound, networkFound}, none, networkPresent},
		"the network is not made":               {networkAwaited, []event{networkMissing, networkOverdue}, restartMaker, networkRestoring},
		"the network is gone":                   {networkPresent, []event{networkMissing, networkMissing}, none, networkLost},
		"the network stays away":                {networkPresent, []event{networkMissing, networkOverdue}, restartMaker, networkRestoring},
		"the network stays away for long":       {networkLost, []event{networkOverdue, networkMissing, networkOverdue}, restartMaker, networkRestoring},
		"the network is back":                   {networkPresent, []event{networkMissing, networkFound}, none, networkPresent},
		"the network is another":                {networkPresent, []event{networkReplaced}, restartProxy, networkPresent},
		"the network was gone, and is another":  {networkLost, []event{networkReplaced}, restartProxy, networkPresent},
		"the network was made again by restart": {networkLost, []event{networkOverdue, networkReplaced}, restartProxy, networkPresent},
		"the network is back after a restart":   {networkLost, []event{networkOverdue, networkFound}, none, networkPresent},

		"kube-proxy has made all":                         {proxyStarting, []event{proxyReplaced, proxyComplete, proxyComplete}, none, proxyServing},
		"kube-proxy ends by itself":                       {proxyStarting, []event{proxyComplete, proxyReplaced}, none, proxyStarting},
		"kube-proxy lost some":                            {proxyStarting, []event{proxyComplete, proxyRestartRequested}, none, proxyRestarting},
		"kube-proxy lost some, and starts again":          {proxyServing, []event{proxyRestartRequested, proxyReplaced}, none, proxyRepairing},
		"kube-proxy lost some, and ends before":           {proxyStarting, []event{proxyRestartRequested, proxyReplaced, proxyReplaced}, none, proxyRepairing},
		"kube-proxy is asked again":                       {proxyServing, []event{proxyRestartRequested, proxyReplaced, proxyRestartRequested}, none, proxyRepairing},
		"kube-proxy has made all again":                   {proxyServing, []event{proxyRestartRequested, proxyReplaced, proxyComplete}, none, proxyServing},
		"what kube-proxy lost came back by itself":        {proxyServing, []event{proxyRestartRequested, proxyComplete}, none, proxyServing},
		"the network went while kube-proxy started":       {proxyStarting, []event{proxyRestartRequested}, none, proxyRepairing},
		"kube-proxy is repaired, and ends by itself":      {proxyServing, []event{proxyRestartRequested, proxyReplaced, proxyComplete, proxyReplaced}, none, proxyStarting},
		"kube-proxy lost some, and lost some before that": {proxyServing, []event{proxyRestartRequested, proxyRestartRequested}, none, proxyRestarting},

		"it is made":                            {unseen, []event{undecided, present, present}, none, seen},
		"it is made late":                       {unseen, []event{missing, missing, overdue, present}, none, seen},
		"it is not made":                        {unseen, []event{missing, overdue, overdue}, none, awaited},
		"it is lost":                            {seen, []event{missing, missing, overdue, overdue}, none, lost},
		"it is lost without doubt":              {seen, []event{overdue}, none, lost},
		"it is back":                            {seen, []event{missing, present}, none, seen},
		"it need not be there any more":         {seen, []event{missing, unneeded, missing}, none, awaited},
		"it may be the former process's":        {unseen, []event{missing, undecided, present, undecided, missing, undecided}, none, lost},
		"it changes while it is there":          {seen, []event{unneeded, present}, none, seen},
		"it was awaited, and need not be there": {unseen, []event{missing, unneeded}, none, unseen},
		"another process is to make it":         {seen, []event{forgotten}, none, unseen},
		"it is lost, and another process comes": {seen, []event{missing, forgotten, forgotten}, none, awaited},
		"a restart does not bring it back":      {seen, []event{missing, overdue, retried, forgotten, undecided, missing, overdue}, none, abandoned},
		"a restart brings it back":              {lost, []event{retried, forgotten, present}, none, seen},
		"after a restart, it need not be there": {lost, []event{retried, unneeded}, none, unseen},
		"the cluster knows nothing of it":       {lost, []event{doubted}, none, unseen},
	} {
		t.Run(name, func(t *testing.T) { w.walk(t, taken) })
	}
	for row := range networkTransitions() {
		if !taken[row] {
			t.Errorf("no way takes the row of %q in phase %q", row.event, row.phase)
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
		for look := range 500 {
			now = now.Add(time.Duration(random.IntN(200)) * time.Second)
			v := networkView{now: now, state: healthy(random.IntN(6)), cluster: cluster(random.IntN(6)), proxy: uint32(random.IntN(3))}
			v.state.Networks[0].ID = fmt.Sprint("n", random.IntN(2))
			switch {
			case one():
				v.err = fmt.Errorf("asking: %w", hns.ErrUnavailable)
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
				t.Fatalf("seed %d, look %d: %v (phases %s)", seed, look, p.unlisted, slices.Sorted(maps.Values(map[int]phase{0: m.hns, 1: m.network, 2: m.proxy.phase})))
			}
		}
	}
}
