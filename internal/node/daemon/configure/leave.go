package configure

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/windows-machine-config/wmco/internal/node/daemon/state"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/hns"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

// leaving removes everything that belongs to the operator from a host.
type leaving struct {
	work
	cluster string
	// program is the file of the running program; empty when unknown.
	program string
	// isManaged is true when the host has joined or has the operator's services: then the data of containerd and the kubelet belong to the
	// operator, too.
	isManaged bool
	former    former
}

// ownsImages reports whether the images of containerd belong to the operator: a machine that was made from a prepared image has one before it joins.
func (l *leaving) ownsImages() bool { return l.isManaged || l.Disk.Exists(desired.PreparedImage) }

// leaveSteps returns the steps that restore a host to its state before the join, in order. Services that would repair what is removed come
// first, then the users of what is removed. Each may be interrupted at any point and is repeated by the next leave.
func (l *leaving) leaveSteps() []step {
	services, containers, files := leavingServices{l}, leavingContainers{l}, leavingFiles{l}
	return []step{
		{"marking the host as leaving", l.mark},
		{"removing services", services.remove},
		{"stopping containers", containers.end},
		{"removing networks of pods", containers.removeNetworks},
		{"removing networks", l.removeNetworks},
		{"removing rules of NetworkPolicies", l.removePolicies},
		{"restoring values of the Host Network Service", hnsState{work: l.work}.restore},
		{"untrusting certificates", certificates{work: l.work}.untrust},
		{"clearing the environment", l.clearEnvironment},
		{"removing images", containers.removeLayers},
		{"removing exclusions of Microsoft Defender", exclusions{work: l.work}.remove},
		{"removing files", files.remove},
		{"closing the firewall", l.closeFirewall},
		{"completing", l.end},
	}
}

// Leave removes everything the operator installed from the host, except for journal and logs. It changes nothing on a host that belongs to
// another cluster, or that has nothing of the operator's. program is the file of the running program; it stays.
func Leave(ctx context.Context, s *wicdapi.Session, h hostapi.Host, program string) (wicdapi.LeaveResult, error) {
	var request wicdapi.LeaveRequest
	if err := s.Request(&request); err != nil {
		return wicdapi.LeaveResult{}, err
	}
	if request.Cluster == "" {
		return wicdapi.LeaveResult{}, &wicdapi.Error{Code: wicdapi.CodeRequestInvalid, Message: "cluster is empty; the UID of namespace kube-system is needed"}
	}
	notify := func(step wicdapi.Step) { _ = s.Step(step) } // the leave continues if no one reads the steps
	l := &leaving{work: newWork(h, notify), cluster: request.Cluster, program: program}
	found, err := l.check(ctx)
	if err != nil || !found {
		return wicdapi.LeaveResult{}, err
	}
	release, err := state.LockCommands(ctx, h)
	if err != nil {
		return wicdapi.LeaveResult{}, err
	}
	if l.former, err = readFormer(h.Disk); err == nil {
		err = l.run(ctx, l.leaveSteps())
	}
	release()
	if err == nil {
		removeLocks(h.Disk)
	}
	return wicdapi.LeaveResult{Removed: wicdapi.Brief(l.changed), Remains: wicdapi.Brief(l.remains)}, err
}

// check reports whether the host has anything of the operator's. It changes nothing.
func (l *leaving) check(ctx context.Context) (found bool, err error) {
	r, err := state.ReadLast(l.Disk)
	if err != nil {
		return false, err
	}
	if r.Cluster != "" && r.Cluster != l.cluster {
		return false, &wicdapi.Error{Code: wicdapi.CodeOtherCluster, Message: fmt.Sprintf(
			"the host is node %s of cluster %s, but the request is from cluster %s; only its own cluster can remove it", r.Node, r.Cluster, l.cluster)}
	}
	managed, err := operatorServices(ctx, l.Services)
	if err != nil {
		return false, err
	}
	l.isManaged = r.Cluster != "" || len(managed) > 0
	if l.isManaged {
		return true, nil
	}
	names, err := l.Disk.List(desired.State)
	if err != nil {
		return false, fmt.Errorf("listing %s: %w", desired.State, err)
	}
	return slices.ContainsFunc(names, func(name string) bool { return !state.IsJournal(desired.State + `\` + name) }), nil
}

// mark records that the host is leaving, so that WICD's service repairs nothing and no updater joins the host again. A host without a
// record gets one, so that the leave after an interrupted one knows the cluster.
func (l *leaving) mark(ctx context.Context) error {
	found, err := l.check(ctx) // again: a join may have run since
	if err != nil || !found || !l.isManaged {
		return err
	}
	r, err := state.ReadLast(l.Disk)
	if err != nil {
		return err
	}
	if r.Cluster == "" {
		r.Cluster, r.Node = l.cluster, "unknown"
	}
	l.former = formerOf(r)
	r.Complete, r.Pulled, r.Leaving = false, false, true
	changed, err := r.Write(l.Disk)
	if changed {
		l.recordChange("node %s is leaving cluster %s", r.Node, r.Cluster)
	}
	return err
}

// end removes the record of the cluster. The journal stays.
func (l *leaving) end(context.Context) error {
	l.noteFeatures()
	if l.former.Cluster != "" {
		l.recordChange("left cluster %s, where the host was node %s", l.former.Cluster, l.former.Node)
	}
	for _, name := range []string{state.RecordCopy, state.RecordFile} { // in this order: a cut in between leaves the record
		if err := l.Disk.Remove(name); err != nil {
			return fmt.Errorf("removing %s: %w", name, err)
		}
	}
	return nil
}

// noteFeatures reports Windows features that a join enabled. They stay: others may use them by now, and disabling them needs a restart.
func (l *leaving) noteFeatures() {
	notes, err := state.LastNotes(l.Disk, state.MaxJournalBytes) // all
	if err != nil {
		return
	}
	for _, name := range l.former.Desired.Features {
		change := fmt.Sprintf(featureEnabled, name)
		if slices.ContainsFunc(notes, func(e wicdapi.JournalEntry) bool { return e.Change == change }) {
			l.remains.note("feature %s of Windows (stays enabled)", name)
		}
	}
}

func (l *leaving) removeNetworks(ctx context.Context) error {
	return networks{work: l.work, former: l.former.wanted.Network}.removeAll(ctx)
}

// removePolicies removes the rules that WICD has written to endpoints that remain.
func (l *leaving) removePolicies(ctx context.Context) error {
	endpoints, err := state.ReadPolicyEndpoints(l.Disk)
	if err != nil {
		l.remains.note("rules of NetworkPolicies, if endpoints remain: %v", err)
	}
	for _, id := range endpoints {
		switch err := l.EndpointACLs.SetACLs(ctx, id, nil); {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, hns.ErrNotFound):
		case err != nil:
			l.remains.note("rules of endpoint %s: %v", id, err)
		default:
			l.recordChange("rules of endpoint %s removed", id)
		}
	}
	return nil
}

func (l *leaving) clearEnvironment(ctx context.Context) error {
	return environment{work: l.work, values: l.former.wanted.Environment, watched: l.former.wanted.WatchedEnvironment}.clear(ctx)
}

func (l *leaving) closeFirewall(ctx context.Context) error {
	return firewall{work: l.work, rules: l.former.wanted.Firewall}.close(ctx)
}
