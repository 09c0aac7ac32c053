package configure

import (
	"context"
	"errors"
	"fmt"

	"github.com/windows-machine-config/wmco/internal/node/daemon/state"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

// joining has the parts that only a join needs: changes that take effect with a restart of Windows, and the removal of earlier
// configurations.
type joining struct {
	parts
	windows    *windows
	original   originalOperator
	membership membership
	// hostNetwork is prepared before services make the first pod network.
	hostNetwork hostNetwork
}

// joinSteps returns the steps that make a host a node, in order. Each may be interrupted at any point and is repeated by the next join.
func (j joining) joinSteps() []step {
	return []step{
		{"waiting for Windows", j.windows.await},
		{"taking over from the original operator", j.original.takeOver},
		{"setting the host name", j.windows.rename},
		{"enabling features", j.windows.enableFeatures},
		{"restarting the host", j.windows.restart},
		{"creating folders", j.folders.create},
		{"authorizing keys", j.keys.try},
		{"linking programs", j.programs.link},
		{"leaving the former cluster", j.membership.leaveFormer},
		{"removing networks of another cluster", j.membership.forgetNetworks},
		{"writing mirrors of registries", j.registries.write},
		{"writing configuration", j.files.write},
		{"setting the environment", j.environment.set},
		{"trusting certificates", j.certificates.trust},
		{"opening the firewall", j.firewall.open},
		{"setting exclusions of Microsoft Defender", j.exclusions.try},
		{"setting values of the Host Network Service", j.hostNetwork.prepare},
		{"recording the settings of the network adapter", j.hostNetwork.record},
		{"checking excluded ports", j.hostNetwork.checkPorts},
		{"checking the node's ports for other programs", j.hostNetwork.checkListeners},
		{"checking for other container engines", j.hostNetwork.checkEngines},
		{"checking the MTU", j.hostNetwork.checkMTU},
		{"writing the bootstrap token", j.membership.writeBootstrap},
		{"storing the request", j.record.remember},
		{"starting services", j.services.startAll},
		{"removing files of the original operator", j.original.removeFiles},
		{"removing old versions", j.programs.removeOldVersions},
		{"completing", j.record.complete},
		{"clearing recorded restarts", j.windows.forgetRestarts},
	}
}

// Join brings the host to the requested state. If a step needs a restart, the result has the reason, and the caller repeats the join after it.
func Join(ctx context.Context, s *wicdapi.Session, h hostapi.Host) (wicdapi.JoinResult, error) {
	var request wicdapi.JoinRequest
	if err := s.Request(&request); err != nil {
		return wicdapi.JoinResult{}, err
	}
	if len(request.Published) > 0 {
		var err error
		if request.Desired, err = desired.FromData(request.Published); err != nil {
			return wicdapi.JoinResult{}, &wicdapi.Error{Code: wicdapi.CodeRequestInvalid, Message: err.Error()}
		}
		request.Published = nil
	}
	return Apply(ctx, h, request, func(step wicdapi.Step) { _ = s.Step(step) }) // the join continues if no one reads the steps
}

// Apply brings the host to the requested state, as Join does, and calls notify for each step.
func Apply(ctx context.Context, h hostapi.Host, request wicdapi.JoinRequest, notify func(wicdapi.Step)) (wicdapi.JoinResult, error) {
	if _, err := newTarget(request); err != nil { // before Windows is queried, which can take long
		return wicdapi.JoinResult{}, err
	}
	facts, err := h.System.Facts(ctx)
	if err != nil {
		return wicdapi.JoinResult{}, fmt.Errorf("reading the facts of the host: %w", err)
	}
	request.Build = facts.Build
	t, err := newTarget(request)
	if err != nil {
		return wicdapi.JoinResult{}, err
	}
	if request.Register {
		t.restarts.mark(desired.KubeletService, "the cluster has no Node for this host")
	}
	w := newWork(h, notify)
	if err := newParts(w, t).services.check(ctx); err != nil { // before anything changes
		return wicdapi.JoinResult{}, err
	}
	release, err := state.LockCommands(ctx, h)
	if err != nil {
		return wicdapi.JoinResult{}, err
	}
	defer release()
	result := wicdapi.JoinResult{BootID: facts.BootID}
	if t, err = t.withFormer(h.Disk, facts); err != nil {
		return result, err
	}
	restarting := &windows{
		work: w, facts: facts, hostname: request.Hostname, features: t.wanted.Features, registers: request.Register, mayReboot: request.MayReboot,
		former: t.former, pastRestarts: state.Restarts{Retried: request.Retried},
	}
	err = w.run(ctx, newJoining(w, t, restarting).joinSteps())
	result.Changed = wicdapi.Brief(w.changed)
	if errors.Is(err, errRebooting) {
		result.Rebooting, err = restarting.why(), nil
	}
	return result, err
}

func newJoining(w work, t target, restarting *windows) joining {
	p := newParts(w, t)
	return joining{
		parts: p, windows: restarting,
		original:    originalOperator{work: w, certificates: p.certificates, exclusions: p.exclusions, isManaged: t.former.Cluster != "", declared: t.wanted},
		hostNetwork: hostNetwork{work: w, facts: restarting.facts, nodeIP: t.request.NodeIP, wanted: t.wanted.Network, ports: t.wanted.ListenPorts(), firewall: t.wanted.Firewall},
		membership:  membership{work: w, restarts: t.restarts, wanted: t.wanted, request: t.request, former: t.former},
	}
}
