package storytest

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/controllers/instance"
	"github.com/windows-machine-config/wmco/internal/operator/remote"
	"github.com/windows-machine-config/wmco/internal/shared/nodestate"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

// dialWithFailures behaves like remote.Dial, with random failures.
func (w *chaosWorld) dialWithFailures(_ context.Context, t remote.Target, _ remote.Options) (instance.SSHHost, error) {
	for _, h := range w.hosts {
		if h.address == t.Address && h.alive() && !h.sshCut && !w.chance(w.sshFails/2) {
			return chaosConnection{storyConnection{h.storyHost}, h}, nil
		}
	}
	return nil, &remote.Error{Kind: remote.Timeout, Host: t.Address, Err: errors.New("no answer")}
}

// chaosConnection is a connection that may break before or after a command.
type chaosConnection struct {
	storyConnection
	h *chaosHost
}

// Run executes the command unless the connection breaks first.
func (c chaosConnection) Run(_ context.Context, command string, stdin io.Reader, stdout io.Writer) error {
	w := c.h.w
	lost := &remote.Error{Kind: remote.Lost, Host: c.address, Err: errors.New("the connection broke")}
	fails := w.chance(w.sshFails) && !strings.HasSuffix(command, wicdapi.CommandFacts) // otherwise the operator would send WICD, which stories do not support
	if fails && w.chance(0.5) {
		return lost
	}
	host := quirkyHost{c.h, c.h.storyHost}
	does := commandHandler(host)
	if fails {
		stdout, does = io.Discard, host.afterLoss()
	}
	err := handleCommand(does, command, stdin, stdout)
	if fails {
		return lost
	}
	return err
}

// restart restarts Windows for the operator.
func (h *chaosHost) restart() error {
	h.w.record("%s restarts", h.name)
	h.effect("restart")
	h.checkRestarts()
	h.restartWindows()
	return nil
}

// restartWindows restarts Windows for any reason. WICD starts late if services start slowly.
func (h *chaosHost) restartWindows() {
	h.powerUp()
	h.backAt = time.Now().Add(h.w.between(time.Minute, 4*time.Minute))
	h.reportsAt = h.backAt.Add(h.w.between(0, 45*time.Second) + 4*h.windows.quirks.Setup.SlowServices.StartTakes)
}

// join makes the host a node, or repairs it.
func (h *chaosHost) join(r wicdapi.JoinRequest) (wicdapi.JoinResult, error) {
	h.checkJoin(r.Desired.Version)
	isFirst := h.joined == 0
	if h.version != r.Desired.Version {
		h.w.record("%s joins with %s", h.name, r.Desired.Version)
		h.hasVersion(r.Desired.Version)
		h.firstJoined = ""
		if isFirst {
			h.firstJoined = r.Desired.Version
		}
	} else {
		h.w.record("%s is joined again", h.name)
	}
	if h.dies.isActive() && h.w.chance(0.5) {
		h.dies = chaosSpan{} // the join repairs it
	}
	h.cluster, h.targetVersion, h.signingKey, h.seenState = r.Cluster, "", r.Desired.SigningKey, ""
	h.joinedAt, h.joined, h.registers = time.Now(), h.joined+1, true
	return wicdapi.JoinResult{BootID: h.boot()}, nil
}

// leave removes everything the operator installed from the host.
func (h *chaosHost) leave(wicdapi.LeaveRequest) (wicdapi.LeaveResult, error) {
	h.effect("leave")
	h.w.record("%s leaves", h.name)
	h.cluster, h.version, h.targetVersion, h.staged, h.pending = "", "", "", false, ""
	return wicdapi.LeaveResult{}, nil
}

// checkJoin checks that a join does not change a host's version outside its upgrade, and does not start while the rollout is paused.
func (h *chaosHost) checkJoin(version string) {
	m := h.maintenance()
	if m == nil && h.w.isPaused(time.Now()) {
		h.w.breach(rulePause, "%s is joined although the rollout is paused", h.name)
	}
	isTurn := m != nil && m.Action == v1alpha1.ActionUpgrade && (m.Version == version || m.PreviousVersion == version)
	if h.version == "" || h.version == version || h.joined == 0 || isTurn {
		return
	}
	switch node := h.nodeSeen(); {
	case node != nil && nodestate.IsReady(node):
		h.w.breach(ruleTurnByJoin, "%s, whose node is Ready with %s, is joined with %s; under way: %+v", h.name, h.version, version, m)
	case node != nil:
		h.w.breach(ruleTurnByRepair, "%s with %s is joined with %s as a repair; under way: %+v", h.name, h.version, version, m)
	default:
		if failed := h.w.failedWith(version); failed != "" {
			h.w.breach(ruleTurnWithoutNode, "%s with %s, whose Node was deleted, is joined with %s, which failed on %s; under way: %+v", h.name, h.version, version, failed, m)
		}
	}
}

// failedWith returns a host with a failed upgrade to the version in its status, or "".
func (w *chaosWorld) failedWith(version string) string {
	for _, i := range w.allInstances() {
		if f := i.Status.Failure; f != nil && f.Action == v1alpha1.ActionUpgrade && f.Version == version && f.Step != v1alpha1.MaintenanceDrain && !i.Spec.Paused {
			return i.Name
		}
	}
	return ""
}
