package configure

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/agent"
	"github.com/windows-machine-config/wmco/internal/backoff"
	"github.com/windows-machine-config/wmco/internal/daemon/state"
	"github.com/windows-machine-config/wmco/internal/daemon/supervisor"
	"github.com/windows-machine-config/wmco/internal/desired"
	"github.com/windows-machine-config/wmco/internal/host"
)

// decommissioner takes off a host what is ours. It is a configurator of nothing.
type decommissioner struct {
	*configurator
	cluster string
	// program is the file of the program that runs; empty when it is not known.
	program string
	// isOurs is true when the host was joined, or has services of ours: then data of containerd and the kubelet are ours, too.
	isOurs  bool
	remains []string
}

// leaveSteps are how a host becomes what it was before it joined, in order: first nothing mends any more what is taken off, then
// nothing uses it. Each may be cut at any point and is repeated by the next leave.
func (d *decommissioner) leaveSteps() []step {
	return []step{
		{"marking the host as leaving", d.mark},
		{"removing services", d.removeServices},
		{"ending containers", d.endContainers},
		{"removing networks of pods", d.removeNetworks},
		{"removing networks", d.removeNetwork},
		{"untrusting certificates", d.untrust},
		{"clearing the environment", d.clearEnvironment},
		{"removing images", d.removeLayers},
		{"removing files", d.removeFiles},
		{"closing the firewall", d.closeFirewall},
		{"completing", d.end},
	}
}

// Leave takes everything of ours off the host, but for journal and logs. A host that belongs to another cluster is left alone, and so
// is one that has nothing of ours. program is the file of the program that runs; it stays.
func Leave(ctx context.Context, s *agent.Session, h host.Host, program string) (agent.LeaveResult, error) {
	var request agent.LeaveRequest
	if err := s.Request(&request); err != nil {
		return agent.LeaveResult{}, err
	}
	if request.Cluster == "" {
		return agent.LeaveResult{}, &agent.Error{Code: agent.CodeRequestInvalid, Message: "cluster is empty; the UID of namespace kube-system is needed"}
	}
	tell := func(step agent.Step) { _ = s.Step(step) } // the host leaves when nobody listens, too
	d := &decommissioner{
		configurator: &configurator{Host: h, tell: tell, restart: map[string]string{}}, cluster: request.Cluster, program: program,
	}
	there, err := d.look(ctx)
	if err != nil || !there {
		return agent.LeaveResult{}, err
	}
	release, err := state.LockCommands(ctx, h)
	if err != nil {
		return agent.LeaveResult{}, err
	}
	err = d.run(ctx, d.leaveSteps())
	release()
	if err == nil {
		for _, name := range []string{state.CommandLock, state.ServicesLock} {
			_ = h.Disk.Remove(name) // somebody may have it again already
		}
	}
	return agent.LeaveResult{Removed: d.changed, Remains: d.remains}, err
}

// look tells whether there is anything of ours. It changes nothing.
func (d *decommissioner) look(ctx context.Context) (there bool, err error) {
	r, err := state.ReadLast(d.Disk)
	if err != nil {
		return false, err
	}
	if r.Cluster != "" && r.Cluster != d.cluster {
		return false, &agent.Error{Code: agent.CodeOtherCluster, Message: fmt.Sprintf(
			"the host is node %s of cluster %s, and the one that asks is cluster %s; only its own cluster can take it off", r.Node, r.Cluster, d.cluster)}
	}
	services, err := d.services(ctx)
	if err != nil {
		return false, err
	}
	d.isOurs = r.Cluster != "" || len(services) > 0
	if d.isOurs {
		return true, nil
	}
	names, err := d.Disk.List(desired.State)
	if err != nil {
		return false, fmt.Errorf("listing %s: %w", desired.State, err)
	}
	return slices.ContainsFunc(names, func(name string) bool { return !state.IsJournal(desired.State + `\` + name) }), nil
}

// mark writes into the record that the host leaves: from then on WICD's service mends nothing, and no updater joins the host
// again. A host without a record gets one, so that the next leave knows whose the rest is when this one is cut.
func (d *decommissioner) mark(ctx context.Context) error {
	there, err := d.look(ctx) // again: a join may have been faster
	if err != nil || !there || !d.isOurs {
		return err
	}
	r, err := state.ReadLast(d.Disk)
	if err != nil {
		return err
	}
	if r.Cluster == "" {
		r.Cluster, r.Node = d.cluster, "unknown"
	}
	d.former = r
	if d.formerWanted, err = r.Wanted(); err != nil {
		d.formerWanted = r.Desired
	}
	r.Complete, r.Pulled, r.Leaving = false, false, true
	changed, err := r.Write(d.Disk)
	if changed {
		d.recordChange("node %s begins to leave cluster %s", r.Node, r.Cluster)
	}
	return err
}

// services are those that are marked as ours.
func (d *decommissioner) services(ctx context.Context) ([]host.Service, error) {
	found, err := d.Services.List(ctx, nil)
	if err != nil {
		return nil, fmt.Errorf("listing services: %w", err)
	}
	return slices.DeleteFunc(found, func(s host.Service) bool { return !supervisor.IsOurs(s) }), nil
}

// removeServices removes the services that are ours: first those that would mend the others, then each after those that need it.
func (d *decommissioner) removeServices(ctx context.Context) error {
	release, err := state.LockServices(ctx, d.System)
	if err != nil {
		return err
	}
	defer release()
	rest, err := d.services(ctx)
	if err != nil {
		return err
	}
	for len(rest) > 0 {
		next := max(0, slices.IndexFunc(rest, func(s host.Service) bool { return !isNeeded(s, rest) }))
		if at := slices.IndexFunc(rest, isDaemon); at >= 0 {
			next = at
		}
		name := rest[next].Name
		if err := d.Services.Delete(ctx, name); err != nil {
			return err
		}
		d.recordChange("service %s removed", name)
		rest = slices.Delete(rest, next, next+1)
	}
	return d.awaitNoServices(ctx)
}

func isNeeded(s host.Service, others []host.Service) bool {
	return slices.ContainsFunc(others, func(o host.Service) bool {
		return slices.ContainsFunc(o.DependsOn, func(name string) bool { return strings.EqualFold(name, s.Name) })
	})
}

func isDaemon(s host.Service) bool {
	return s.Name == api.WICDUpdateService || s.Name == api.WICDService
}

// deletionPatience is how long a leave waits for services that it deleted to go: as long as somebody has one open, it stays.
const deletionPatience = 10 * time.Second

func (d *decommissioner) awaitNoServices(ctx context.Context) error {
	for end := time.Now().Add(deletionPatience); ; {
		rest, err := d.services(ctx)
		if err != nil || len(rest) == 0 {
			return err
		}
		if time.Now().After(end) {
			for _, s := range rest {
				d.noteRemaining("service %s: it is deleted, and goes when the last program that has it open closes it, or with a restart", s.Name)
			}
			return nil
		}
		if err := backoff.Sleep(ctx, 200*time.Millisecond); err != nil {
			return err
		}
	}
}

func (d *decommissioner) noteRemaining(format string, args ...any) {
	d.remains = append(d.remains, fmt.Sprintf(format, args...))
}

// endContainers ends the containers that containerd left running, and then every program of ours: shims outlive containerd, and
// keep their files.
func (d *decommissioner) endContainers(ctx context.Context) error {
	if !d.isOurs {
		return nil
	}
	names, err := d.Containers.List(ctx)
	if err != nil {
		d.noteRemaining("containers, if there are any: %v", err) // Windows may not have what runs them
	}
	for _, name := range names {
		if err := d.Containers.End(ctx, name); err != nil {
			d.noteRemaining("container %s: %v", name, err) // its files will tell, too; the rest can go
			continue
		}
		d.recordChange("container %s ended", name)
	}
	ended, err := d.Containers.EndPrograms(ctx, desired.Root)
	for _, program := range ended {
		d.recordChange("process of %s ended", program)
	}
	if err != nil {
		return fmt.Errorf("ending programs of %s: %w", desired.Root, err)
	}
	return ctx.Err()
}

func (d *decommissioner) untrust(ctx context.Context) error {
	ours, err := d.trusted()
	if err != nil {
		return err
	}
	for _, hash := range ours {
		removed, err := d.Certificates.Remove(ctx, hash)
		if err != nil {
			return fmt.Errorf("removing certificate %.12s: %w", hash, err)
		}
		if removed {
			d.recordChange("certificate %.12s is trusted no more", hash)
		}
	}
	return nil
}

// clearEnvironment removes the variables that are ours, those that were declared so and those that we gave a value.
func (d *decommissioner) clearEnvironment(ctx context.Context) error {
	names := slices.Sorted(maps.Keys(d.formerWanted.Environment))
	for _, name := range d.formerWanted.WatchedEnvironment {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	changed, err := d.Environment.Set(ctx, nil, names)
	for _, name := range changed {
		d.recordChange("variable %s of the machine removed", name)
	}
	return err
}

// end forgets the cluster. What it did stays in the journal.
func (d *decommissioner) end(context.Context) error {
	d.tellFeatures()
	if d.former.Cluster != "" {
		d.recordChange("left cluster %s, where the host was node %s", d.former.Cluster, d.former.Node)
	}
	for _, name := range []string{state.RecordCopy, state.RecordFile} { // in this order: a cut in between leaves the record
		if err := d.Disk.Remove(name); err != nil {
			return fmt.Errorf("removing %s: %w", name, err)
		}
	}
	return nil
}

// tellFeatures tells of features of Windows that a join enabled. They stay: others may use them by now, and it would take a restart.
func (d *decommissioner) tellFeatures() {
	notes, err := state.LastNotes(d.Disk, state.MaxJournalBytes) // all
	if err != nil {
		return
	}
	for _, name := range d.former.Desired.Features {
		change := fmt.Sprintf(featureEnabled, name)
		if slices.ContainsFunc(notes, func(e agent.JournalEntry) bool { return e.Change == change }) {
			d.noteRemaining("feature %s of Windows: it stays enabled", name)
		}
	}
}
