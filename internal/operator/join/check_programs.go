package join

import (
	"fmt"
	"strings"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

// checkRuntime rejects a host on which another containerd listens on the named pipe that the node's containerd needs: neither that containerd nor the
// kubelet would work. On a node, the pipe belongs to its own services.
func checkRuntime(f wicdapi.Facts, _ CheckInput) *Unsupported {
	if !f.Host.RuntimePipe || isNode(f) {
		return nil
	}
	var engines []string
	for _, e := range f.Engines {
		engines = append(engines, fmt.Sprintf("%s (%s)", e.Name, e.State))
	}
	others := ""
	if len(engines) > 0 {
		others = "; services on the host: " + strings.Join(engines, ", ")
	}
	return unsupported(api.ReasonContainerRuntimeConflict, "another program on the host listens on named pipe %s, which the node's containerd needs%s: "+
		"remove that container runtime, or configure its containerd to listen on another pipe, and restart the host if the pipe remains", desired.RuntimePipe, others)
}

// checkPorts rejects a host on which other programs listen on ports that the node's services need. It never rejects a node, where a pod may use such
// a port.
func checkPorts(f wicdapi.Facts, s CheckInput) *Unsupported {
	if isNode(f) {
		return nil
	}
	var taken []string
	for _, l := range f.Host.Listeners {
		for _, p := range s.Ports {
			if !l.UDP && l.Port == p.Number && p.IsTakenAt(l.Address) && !l.Ours() {
				taken = append(taken, fmt.Sprintf("%s, the port of %s", l, p.Service))
			}
		}
	}
	if len(taken) == 0 {
		return nil
	}
	return unsupported(api.ReasonPortInUse, "other programs on the host listen on ports that the node needs: %s; stop each program, or change its port", strings.Join(taken, "; "))
}
