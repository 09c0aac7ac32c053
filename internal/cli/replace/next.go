package replace

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/windows-machine-config/wmco/internal/operator/rollout"
	"github.com/windows-machine-config/wmco/internal/shared/windowsbuild"
)

// machineSet is a MachineSet with its Machines, by name.
type machineSet struct {
	name     string
	replicas int
	machines []machine
}

// machine is a Machine.
type machine struct {
	name string
	// isMarked means that its MachineSet deletes it before others when it is scaled down; isFailed, that it may do so.
	isDeleting, isMarked, isFailed bool
	// status is its phase, or what its deletion waits for.
	status string
	// node is the name in status.nodeRef; empty if there is none.
	node string
	// host is its WindowsInstance with its Node; nil if there is none. isPulling means that its node takes no pods until it has images.
	host      *rollout.Host
	isPulling bool
	object    *unstructured.Unstructured
}

// state is what was read of a replacement.
type state struct {
	now      time.Time
	from, to machineSet
	// total is the number of Machines that both have before and after each replacement. The run ends when from has keep Machines.
	total, keep int
	// soak is how long a new node must have worked before an old one is removed.
	soak time.Duration
}

type action string

// Actions.
const (
	wait   action = "Wait"
	add    action = "Add"
	remove action = "Remove"
	finish action = "Finish"
	refuse action = "Refuse"
)

// step is what to do next.
type step struct {
	action action
	// message is what to wait for, or why the replacement cannot continue.
	message string
	// machines are those of which one is removed, in order of preference.
	machines []machine
}

func waitFor(format string, args ...any) step {
	return step{action: wait, message: fmt.Sprintf(format, args...)}
}

// next decides the next step. One Machine at a time is deleted, and only while all Machines of the other MachineSet are working nodes, of which there is
// one more than needed, and while no other old node is out of service for maintenance.
func (s state) next() step {
	if i := slices.IndexFunc(s.from.machines, func(m machine) bool { return m.isDeleting }); i >= 0 {
		return waitFor("Machine %s is being deleted: %s", s.from.machines[i].name, s.from.machines[i].status)
	}
	if have := len(s.from.machines); have != s.from.replicas {
		return waitFor("MachineSet %s has %s, and spec.replicas is %d", s.from.name, count(have), s.from.replicas)
	}
	if s.from.replicas <= s.keep {
		return step{action: finish}
	}
	if have := len(s.to.machines); have != s.to.replicas {
		return waitFor("MachineSet %s has %s, and spec.replicas is %d", s.to.name, count(have), s.to.replicas)
	}
	newest := s.newest()
	for _, m := range s.to.machines {
		if fault := s.fault(m, newest); fault != "" {
			return waitFor("Machine %s: %s", m.name, fault)
		}
		if build := m.host.Node.Build; build < newest {
			return step{action: refuse, message: fmt.Sprintf("node %s of MachineSet %s has %s, and MachineSet %s has nodes with %s, a newer version of Windows", m.host.Node.Name, s.to.name,
				build, s.from.name, newest)}
		}
	}
	if s.to.replicas == 0 || s.from.replicas+s.to.replicas <= s.total {
		return step{action: add}
	}
	for _, m := range s.from.machines {
		if m.host != nil && m.host.Maintenance != nil {
			return waitFor("Machine %s: %s is in progress", m.name, m.host.Maintenance.Action)
		}
	}
	return step{action: remove, machines: s.order()}
}

func count(machines int) string {
	if machines == 1 {
		return "1 Machine"
	}
	return fmt.Sprintf("%d Machines", machines)
}

// newest returns the newest version of Windows of the old nodes.
func (s state) newest() (newest windowsbuild.Build) {
	for _, m := range s.from.machines {
		if m.host != nil && m.host.Node != nil {
			newest = max(newest, m.host.Node.Build)
		}
	}
	return newest
}

// fault returns why a new Machine does not count as a working node yet. It does not judge its version of Windows.
func (s state) fault(m machine, newest windowsbuild.Build) string {
	switch {
	case m.isDeleting:
		return "it is being deleted"
	case m.host == nil:
		return "it has no WindowsInstance yet: " + m.status
	}
	build := newest
	if m.host.Node != nil {
		build = min(newest, m.host.Node.Build)
	}
	fault, _ := rollout.TakeoverFault(*m.host, build, s.soak, s.now)
	if fault == "" && m.isPulling {
		return fmt.Sprintf("node %s takes no pods until it has pulled images", m.host.Node.Name)
	}
	return cmp.Or(fault, m.nodeFault())
}

// nodeFault returns why the Machine API would not drain the node of a host: it does not know that the node is the Machine's.
func (m machine) nodeFault() string {
	if m.host == nil || m.host.Node == nil || m.node == m.host.Node.Name {
		return ""
	}
	return fmt.Sprintf("status.nodeRef names node %q instead of %s, so that the Machine API would not drain it", m.node, m.host.Node.Name)
}

// order returns the old Machines, those without a working node first. If some are marked or have failed, it returns only these: their MachineSet deletes
// one of them, whichever it likes.
func (s state) order() []machine {
	all := slices.Clone(s.from.machines)
	if slices.ContainsFunc(all, machine.isPreferred) {
		all = slices.DeleteFunc(all, func(m machine) bool { return !m.isPreferred() })
	}
	slices.SortFunc(all, func(a, b machine) int {
		return cmp.Or(cmp.Compare(a.rank(), b.rank()), strings.Compare(a.name, b.name))
	})
	return all
}

// isPreferred reports whether the MachineSet deletes the Machine before others.
func (m machine) isPreferred() bool { return m.isMarked || m.isFailed }

// rank orders Machines without a working node first.
func (m machine) rank() int {
	if m.host != nil && m.host.Node != nil && m.host.Node.NotWorking(nil) == "" {
		return 1
	}
	return 0
}

// busy returns why a Machine must not be removed yet; empty if it may be.
func (m machine) busy() string {
	if m.host != nil && m.host.Paused {
		return "it is paused: kubectl windows resume " + m.host.Name
	}
	return m.nodeFault()
}

// choice is which of some Machines to remove.
type choice struct {
	// chosen is the Machine; nil if none can be removed now.
	chosen *machine
	// waits is what one of them waits for; kept are the Machines with pods that have no other place.
	waits string
	kept  []string
}

// choose returns the first of the Machines, as order returns them, whose pods have another place. If their MachineSet would choose among them, the pods of
// all must have one. staying returns the pods of a Machine that have none.
func choose(machines []machine, staying func(machine) (string, error)) (c choice, err error) {
	for i, m := range machines {
		if why := m.busy(); why != "" {
			c.waits = fmt.Sprintf("Machine %s: %s", m.name, why)
			continue
		}
		stay, err := staying(m)
		switch {
		case err != nil:
			return choice{}, err
		case stay != "":
			c.kept = append(c.kept, fmt.Sprintf("Machine %s%s: %s", m.name, m.preference(), stay))
		case !m.isPreferred():
			return choice{chosen: &machines[i]}, nil
		}
	}
	if c.waits == "" && len(c.kept) == 0 {
		c.chosen = &machines[0]
	}
	return c, nil
}

// preference explains why the MachineSet would delete a Machine before others.
func (m machine) preference() string {
	switch {
	case m.isMarked:
		return " (which its MachineSet would delete first, because of annotation " + annotationDelete + ")"
	case m.isFailed:
		return " (which its MachineSet would delete first, because it has failed)"
	}
	return ""
}
