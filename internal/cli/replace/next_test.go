package replace

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/rollout"
	"github.com/windows-machine-config/wmco/internal/shared/windowsbuild"
)

func noon() time.Time { return time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC) }

// working returns a Machine whose node has worked for an hour.
func working(name string, build windowsbuild.Build, change ...func(*machine)) machine {
	m := machine{name: name, node: name, status: "its phase is Running", host: &rollout.Host{
		Name: name, Joined: true, Node: &rollout.Node{Name: name, Ready: true, Build: build, WorksSince: noon().Add(-time.Hour)},
	}}
	for _, c := range change {
		c(&m)
	}
	return m
}

func deleting(m *machine) { m.isDeleting = true }
func marked(m *machine)   { m.isMarked = true }
func failed(m *machine)   { m.isFailed = true }
func notReady(m *machine) { m.host.Node.Ready = false }
func paused(m *machine)   { m.host.Paused = true }
func noHost(m *machine)   { m.host, m.node, m.status = nil, "", "its phase is Provisioning" }
func busyHost(m *machine) {
	m.host.Maintenance = &v1alpha1.Maintenance{Action: v1alpha1.ActionPatch}
}

func set(name string, replicas int, machines ...machine) machineSet {
	return machineSet{name: name, replicas: replicas, machines: machines}
}

func TestNext(t *testing.T) {
	old := func(name string, change ...func(*machine)) machine {
		return working(name, windowsbuild.Server2022, change...)
	}
	young := func(name string, change ...func(*machine)) machine {
		return working(name, windowsbuild.Server2025, change...)
	}
	for name, test := range map[string]struct {
		from, to    machineSet
		total, keep int
		want        string
	}{
		"begin":                            {set("old", 2, old("a"), old("b")), set("new", 0), 2, 0, "Add"},
		"some exist":                       {set("old", 2, old("a"), old("b")), set("new", 1, young("n")), 3, 0, "Add"},
		"scaled up":                        {set("old", 2, old("a"), old("b")), set("new", 1), 2, 0, "Wait: MachineSet new has 0 Machines, and spec.replicas is 1"},
		"provisioning":                     {set("old", 2, old("a"), old("b")), set("new", 1, young("n", noHost)), 2, 0, "Wait: Machine n: it has no WindowsInstance yet: its phase is Provisioning"},
		"not Ready":                        {set("old", 2, old("a"), old("b")), set("new", 1, young("n", notReady)), 2, 0, "Wait: Machine n: node n does not work: the node is not Ready"},
		"Ready since a moment":             {set("old", 1, old("a")), set("new", 1, young("n", func(m *machine) { m.host.Node.WorksSince = noon() })), 1, 0, "Wait: Machine n: node n must work until 2026-03-02T12:10:00Z"},
		"an older version":                 {set("old", 1, young("a")), set("new", 1, old("n")), 1, 0, "Refuse: node n of MachineSet new has 10.0.20348 (Windows Server 2022), and MachineSet old has nodes with 10.0.26100 (Windows Server 2025), a newer version of Windows"},
		"pulls images":                     {set("old", 1, old("a")), set("new", 1, young("n", func(m *machine) { m.isPulling = true })), 1, 0, "Wait: Machine n: node n takes no pods until it has pulled images"},
		"the Machine API does not know it": {set("old", 1, old("a")), set("new", 1, young("n", func(m *machine) { m.node = "" })), 1, 0, `Wait: Machine n: status.nodeRef names node "" instead of n, so that the Machine API would not drain it`},
		"an old one is in maintenance":     {set("old", 2, old("a"), old("b", busyHost)), set("new", 1, young("n")), 2, 0, "Wait: Machine b: Patch is in progress"},
		"fewer in the end, but none yet":   {set("old", 2, old("a"), old("b")), set("new", 0), 1, 0, "Add"},
		"a new one is deleted":             {set("old", 1, old("a")), set("new", 1, young("n", deleting)), 1, 0, "Wait: Machine n: it is being deleted"},
		"it works":                         {set("old", 2, old("b"), old("a")), set("new", 1, young("n")), 2, 0, "Remove a b"},
		"one of several does not":          {set("old", 1, old("a")), set("new", 2, young("m"), young("n", notReady)), 2, 0, "Wait: Machine n: node n does not work: the node is not Ready"},
		"old ones that do not work first":  {set("old", 2, old("a"), old("b", notReady)), set("new", 1, young("n")), 2, 0, "Remove b a"},
		"only those that may be chosen":    {set("old", 3, old("a"), old("b", failed), old("c", marked)), set("new", 1, young("n")), 3, 0, "Remove b c"},
		"an old one is deleted":            {set("old", 1, old("a", deleting), old("b")), set("new", 1, young("n")), 2, 0, "Wait: Machine a is being deleted: its phase is Running"},
		"scaled down":                      {set("old", 1, old("a"), old("b")), set("new", 1, young("n")), 2, 0, "Wait: MachineSet old has 2 Machines, and spec.replicas is 1"},
		"the next one":                     {set("old", 1, old("b")), set("new", 1, young("n")), 2, 0, "Add"},
		"enough for this run":              {set("old", 1, old("b")), set("new", 1, young("n", notReady)), 2, 1, "Finish"},
		"the end":                          {set("old", 0), set("new", 2, young("m"), young("n")), 2, 0, "Finish"},
		"fewer in the end":                 {set("old", 2, old("a"), old("b")), set("new", 1, young("n")), 1, 0, "Remove a b"},
		"more in the end":                  {set("old", 2, old("a"), old("b")), set("new", 1, young("n")), 4, 0, "Add"},
		"nothing is added to what is down": {set("old", 1, old("a")), set("new", 1, young("n", notReady)), 2, 0, "Wait: Machine n: node n does not work: the node is not Ready"},
	} {
		t.Run(name, func(t *testing.T) {
			next := state{now: noon(), from: test.from, to: test.to, total: test.total, keep: test.keep, soak: rollout.ReplacementSoak}.next()
			got := string(next.action)
			switch next.action {
			case wait:
				got += ": " + next.message
			case refuse:
				got += ": " + next.message
			case remove:
				for _, m := range next.machines {
					got += " " + m.name
				}
			}
			if got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

func TestChoose(t *testing.T) {
	m := func(name string, change ...func(*machine)) machine {
		return working(name, windowsbuild.Server2022, change...)
	}
	for name, test := range map[string]struct {
		machines []machine
		keeps    string // the Machines with pods that have no other place
		want     string
	}{
		"the first":                           {[]machine{m("a"), m("b")}, "", "a"},
		"the first whose pods can move":       {[]machine{m("a"), m("b")}, "a", "b"},
		"no pods can move":                    {[]machine{m("a"), m("b")}, "a b", "kept a b"},
		"paused ones stay":                    {[]machine{m("a", paused), m("b")}, "", "b"},
		"a paused one may be possible later":  {[]machine{m("a", paused), m("b")}, "b", "waits"},
		"one that the API would not drain":    {[]machine{m("a", func(m *machine) { m.node = "" })}, "", "waits"},
		"without an instance":                 {[]machine{m("a", noHost)}, "", "a"},
		"one that is marked":                  {[]machine{m("a", marked)}, "", "a"},
		"one that is marked stays":            {[]machine{m("a", marked)}, "a", "kept a"},
		"the MachineSet could take the other": {[]machine{m("a", marked), m("b", failed)}, "b", "kept b"},
		"the other is paused":                 {[]machine{m("a", marked), m("b", marked, paused)}, "", "waits"},
	} {
		t.Run(name, func(t *testing.T) {
			c, err := choose(test.machines, func(m machine) (string, error) {
				if slices.Contains(strings.Fields(test.keeps), m.name) {
					return "shop/web", nil
				}
				return "", nil
			})
			got := ""
			switch {
			case err != nil:
				t.Fatal(err)
			case c.chosen != nil:
				got = c.chosen.name
			case c.waits != "":
				got = "waits"
			default:
				got = "kept"
				for _, k := range c.kept {
					got += " " + strings.Fields(strings.ReplaceAll(k, ":", ""))[1]
				}
			}
			if got != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

// world is a simulated cluster with two MachineSets. Machines take a while to become nodes and to be deleted.
type world struct {
	rand  *rand.Rand
	state state
	born  int
	keeps map[string]bool // Machines with pods that have no other place
}

// turn lets the Machine API and others act.
func (w *world) turn() {
	from, to := &w.state.from, &w.state.to
	from.machines = slices.DeleteFunc(from.machines, func(m machine) bool { return m.isDeleting && w.rand.IntN(3) == 0 })
	alive := slices.DeleteFunc(slices.Clone(from.machines), func(m machine) bool { return m.isDeleting })
	if len(alive) > from.replicas && w.rand.IntN(2) == 0 { // one that is preferred, whichever; otherwise any
		preferred := slices.DeleteFunc(slices.Clone(alive), func(m machine) bool { return !m.isPreferred() })
		if len(preferred) == 0 {
			preferred = alive
		}
		name := preferred[w.rand.IntN(len(preferred))].name
		from.machines[slices.IndexFunc(from.machines, func(m machine) bool { return m.name == name })].isDeleting = true
	}
	if len(to.machines) < to.replicas && w.rand.IntN(2) == 0 {
		w.born++
		to.machines = append(to.machines, working(fmt.Sprintf("new-%d", w.born), windowsbuild.Server2025, notReady))
	}
	for i := range to.machines {
		node := to.machines[i].host.Node
		changes := 3
		if node.Ready { // it can also stop working
			changes = 100
		}
		if w.rand.IntN(changes) == 0 {
			node.Ready, node.WorksSince = !node.Ready, w.state.now.Add(-time.Duration(w.rand.IntN(20))*time.Minute)
		}
	}
	if i := w.rand.IntN(len(from.machines) + 1); i < len(from.machines) && from.machines[i].host != nil && w.rand.IntN(4) == 0 {
		from.machines[i].host.Paused = !from.machines[i].host.Paused
	}
	if i := w.rand.IntN(len(from.machines) + 1); i < len(from.machines) && from.machines[i].host != nil && w.rand.IntN(4) == 0 {
		h := from.machines[i].host
		if h.Maintenance == nil {
			h.Maintenance = &v1alpha1.Maintenance{Action: v1alpha1.ActionUpgrade}
		} else {
			h.Maintenance = nil
		}
	}
	w.state.now = w.state.now.Add(time.Minute)
}

// serving returns the number of Machines that are not out of service for maintenance.
func (w *world) serving() int {
	n := len(w.state.to.machines) + len(w.state.from.machines)
	for _, m := range w.state.from.machines {
		if m.isDeleting || m.host != nil && m.host.Maintenance != nil {
			n--
		}
	}
	return n
}

// take takes the next step, and checks that it does no harm.
func (w *world) take(t *testing.T) action {
	s := &w.state
	next := s.next()
	switch next.action {
	case add:
		if s.to.replicas++; s.to.replicas+s.from.replicas > s.total+1 {
			t.Fatalf("scales up to %d, with %d old ones and %d in total", s.to.replicas, s.from.replicas, s.total)
		}
	case remove:
		c, err := choose(next.machines, func(m machine) (string, error) {
			if w.keeps[m.name] {
				return "shop/web", nil
			}
			return "", nil
		})
		if err != nil || c.chosen == nil {
			if len(c.kept) > 0 {
				return finish // the user has to act
			}
			return wait
		}
		if s.from.replicas+s.to.replicas <= s.total {
			t.Fatalf("removes %s without a new Machine", c.chosen.name)
		}
		for _, m := range s.to.machines {
			if !m.host.Node.Ready || s.now.Sub(m.host.Node.WorksSince) < s.soak {
				t.Fatalf("removes %s although %s does not work", c.chosen.name, m.name)
			}
		}
		if i := slices.IndexFunc(s.from.machines, func(m machine) bool { return m.name == c.chosen.name }); !s.from.machines[i].isPreferred() {
			s.from.machines[i].isMarked = true
			return wait
		}
		if n := w.serving() - 1; n < s.total {
			t.Fatalf("removes %s, so that %d of %d nodes are left", c.chosen.name, n, s.total)
		}
		s.from.replicas--
	}
	return next.action
}

// TestReplacementsDoNoHarm replaces Machines in random clusters.
func TestReplacementsDoNoHarm(t *testing.T) {
	finished := 0
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		w := world{rand: r, keeps: map[string]bool{}, state: state{now: noon(), from: set("old", 1+r.IntN(4)), to: set("new", r.IntN(2)), soak: 10 * time.Minute}}
		s := &w.state
		for i := range s.from.replicas {
			m := working(fmt.Sprintf("old-%d", i), windowsbuild.Server2022)
			for _, change := range []func(*machine){marked, failed, notReady, paused, noHost} {
				if r.IntN(12) == 0 && m.host != nil {
					change(&m)
				}
			}
			w.keeps[m.name] = r.IntN(12) == 0
			s.from.machines = append(s.from.machines, m)
		}
		s.total = s.from.replicas + s.to.replicas
		began, isDone := s.total, false
		for range 2000 {
			if w.take(t) == finish {
				isDone = true
				break
			}
			w.turn()
			gone := 0
			for _, m := range s.from.machines {
				if m.isDeleting {
					gone++
					if w.keeps[m.name] {
						t.Fatalf("seed %d: %s is deleted although it has pods that have no other place", seed, m.name)
					}
				}
			}
			if gone > 1 {
				t.Fatalf("seed %d: %d Machines are deleted at once", seed, gone)
			}
		}
		if !isDone {
			t.Fatalf("seed %d: does not end: %+v", seed, s.next())
		}
		if s.from.replicas == 0 {
			finished++
			if s.to.replicas != began {
				t.Errorf("seed %d: ends with %d Machines, want %d", seed, s.to.replicas, began)
			}
		}
	}
	if finished < 150 {
		t.Errorf("only %d of 300 replacements were completed", finished)
	}
}
