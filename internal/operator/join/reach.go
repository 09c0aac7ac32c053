package join

import (
	"context"
	"strings"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/shared/truncate"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

// reach has the host connect to the API server as its services will. Without this check, a name that only cluster nodes resolve, or the API server of
// another cluster, would go unnoticed until everything is installed and no Node registers.
func (j *Job) reach(ctx context.Context) error {
	request := wicdapi.ReachRequest{Server: j.known.Server, CA: j.known.CA}
	var result wicdapi.ReachResult
	if err := j.callWith(ctx, j.program(wicdapi.CommandReach), request, &result, StepCheck); err != nil {
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
		resolved = " resolves on the host to " + strings.Join(all, ", ") + ", and"
	}
	return unsupported(api.ReasonAPIServerUnreachable,
		"the host cannot reach the cluster's API server at %s, which%s was read from %s: %s; make the name resolvable and the port reachable from the host without a proxy, "+
			"or set spec.cluster.apiServer of WindowsConfig to an address that hosts can reach",
		j.known.Server, resolved, j.known.ServerFrom, truncate.Text(result.Failure, maxFailure))
}

// maxFailure limits how much of the host's error text a message repeats.
const maxFailure = 1000
