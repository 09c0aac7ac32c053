package podnetwork

import (
	"slices"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/daemon/state"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

// restartsFile has the times of kube-proxy's restarts for lost load balancers. Their number is limited, even across restarts of WICD.
const restartsFile = desired.State + `\kube-proxy-restarts.json`

func (n *reconciliation) readRestarts(now time.Time) []time.Time {
	var restarts []time.Time
	if _, err := state.ReadJSON(n.Host.Disk, restartsFile, &restarts); err != nil {
		n.Log.Warn("Reading the kube-proxy restart history failed; starting a new one", "file", restartsFile, "error", err.Error())
		return nil
	}
	restarts = slices.DeleteFunc(restarts, func(t time.Time) bool { return t.After(now) })
	restarts = restarts[max(0, len(restarts)-restartsPerDay):]
	n.written = slices.Clone(restarts)
	return restarts
}

func (n *reconciliation) writeRestarts(restarts []time.Time) {
	if slices.Equal(restarts, n.written) {
		return
	}
	if err := state.WriteJSON(n.Host.Disk, restartsFile, restarts); err != nil {
		n.Log.Error("Writing the kube-proxy restart history failed", "file", restartsFile, "error", err.Error())
		return
	}
	n.written = slices.Clone(restarts)
}
