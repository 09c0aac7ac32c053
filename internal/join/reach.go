package join

import (
	"context"
	"strings"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/agent"
	"github.com/windows-machine-config/wmco/internal/shorten"
)

// reach has the host connect to the API server as its services will. Without this check, a name that only cluster nodes resolve, or the API server of
// another cluster, would go unnoticed until everything is installed and no Node registers.
func (j *Job) reach(ctx context.Context) error {
	wicd, err := j.wicd()
	if err != nil {
		return err
	}
	request := agent.ReachRequest{Server: j.known.Server, CA: j.known.CA}
	var result agent.ReachResult
	if err := j.callWith(ctx, j.program(wicd, agent.CommandReach), request, &result, StepCheck); err != nil {
		return err
	}
	if result.Failure == "" {
		return nil
	}
	resolved := ""
	if len(result.Resolved) > 0 {
		var all []string
		for _, ip := range result.Resolved {
			all = append(all, ip.String())
		}
		resolved = " resolves there to " + strings.Join(all, ", ") + ", and"
	}
	return unsupported(api.ReasonAPIServerUnreachable,
		"the host does not reach the cluster's API server at %s, which%s was read from %s: %s; let the host resolve the name and reach that port without a proxy, "+
			"or set spec.cluster.apiServer of WindowsConfig to an address at which hosts reach it",
		j.known.Server, resolved, j.known.ServerFrom, shorten.Text(result.Failure, maxFailure))
}

// maxFailure limits how much of the host's error text a message repeats.
const maxFailure = 1000
