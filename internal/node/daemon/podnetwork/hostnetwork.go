package podnetwork

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/daemon/state"
	"github.com/windows-machine-config/wmco/internal/node/hostnetwork"
	"github.com/windows-machine-config/wmco/internal/shared/hns"
)

// hostNetwork has the settings of the host's adapter, which creating the first network can remove. flanneld restores nothing
// (checkHostNetworkReady in pkg/backend/vxlan/device_windows.go of Flannel 0.28 only waits for the address); hybrid-overlay-node has its own guard.
type hostNetwork struct {
	record   hostnetwork.Record
	recovery hostnetwork.Recovery
	// failure is why missing settings were not restored.
	failure string
	// warning is the last logged error.
	warning string
}

// readHostNetwork reads the record that the join wrote.
func (n *reconciliation) readHostNetwork() {
	r, err := state.ReadHostNetwork(n.Host.Disk)
	if err != nil {
		n.Log.Warn("Reading the settings that this host had before its first network failed; continuing without them", "error", err.Error())
	}
	n.host = hostNetwork{record: r}
}

// protectHostNetwork records the settings of the adapter while flanneld's network does not exist, and compares them once it is usable. Windows can
// lose the network while it runs, and at a restart.
func (n *reconciliation) protectHostNetwork(ctx context.Context, v networkView, p *networkPlan) {
	if !n.want.Once || v.err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, networkTimeout)
	defer cancel()
	exists := slices.ContainsFunc(v.state.Networks, func(h hns.Network) bool { return h.Name == n.want.Name })
	switch phase := n.host.record.Phase; {
	case !exists && phase != hostnetwork.Making:
		n.beginHostNetwork(ctx)
	case phase == hostnetwork.Changed && !n.Host.Disk.Exists(state.HostNetworkFile):
		n.Log.Info("The record of the host's network settings was deleted: they are no longer compared")
		n.host = hostNetwork{}
	case p.values != nil && (phase == hostnetwork.Making || phase == hostnetwork.Changed):
		n.compareHostNetwork(ctx, p)
	}
}

func (n *reconciliation) beginHostNetwork(ctx context.Context) {
	address, _ := netip.ParseAddr(n.Record.NodeIP) // no adapter has an invalid one
	r, err := state.BeginHostNetwork(ctx, n.Host, address)
	n.host = hostNetwork{record: r, warning: n.host.warning}
	n.warnOfHostNetwork("Recording the network settings of this host failed", err)
}

// warnOfHostNetwork logs an error unless it was the last one.
func (n *reconciliation) warnOfHostNetwork(what string, err error) {
	if err == nil || err.Error() == n.host.warning {
		return
	}
	n.host.warning = err.Error()
	n.Log.Warn(what, "error", n.host.warning)
}

// compareHostNetwork restores once what the adapter has lost with the network, and reports what is missing afterwards.
func (n *reconciliation) compareHostNetwork(ctx context.Context, p *networkPlan) {
	r := n.host.record
	all, err := n.Host.Adapters.Adapters(ctx)
	n.warnOfHostNetwork("Reading the network settings of this host failed", err)
	if _, found := hostnetwork.With(all, r.Address); !found { // also if the reading failed
		n.host.recovery.Reset()
		return
	}
	step := n.host.recovery.Step(r, all, time.Now(), n.want.Repairs())
	if !n.want.Repairs() {
		n.host.failure = fmt.Sprintf("spec.network.repair is %s", n.want.Repair)
	}
	if !step.Restore.IsEmpty() {
		n.restoreHostNetwork(ctx, step.Restore)
	}
	if !step.Missing.IsEmpty() {
		p.notice(api.ReasonHostNetworkChanged, "%s", r.Message(step.Missing, n.host.failure, state.HostNetworkFile))
	}
	if step.Phase == r.Phase {
		return
	}
	r.Phase = step.Phase
	if err := state.WriteHostNetwork(n.Host.Disk, r); err != nil {
		n.warnOfHostNetwork("Storing the phase of the host's network settings failed", err)
		return
	}
	n.host.record = r
}

func (n *reconciliation) restoreHostNetwork(ctx context.Context, lost hostnetwork.Loss) {
	adapter := n.host.record.Before.Name
	if err := n.Host.Adapters.Restore(ctx, n.host.record.Address, lost); err != nil {
		n.host.failure = "restoring it failed: " + err.Error()
		n.RecordChange("restoring settings of adapter %q that network %s removed (%s): %v", adapter, n.want.Name, lost, err)
		return
	}
	n.repaired("restored settings of adapter %q that network %s had removed: %s", adapter, n.want.Name, lost)
}
