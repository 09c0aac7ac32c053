package daemon

import (
	"context"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/backoff"
	"github.com/windows-machine-config/wmco/internal/node/daemon/state"
	"github.com/windows-machine-config/wmco/internal/node/policypipe"
)

// policyServerInterval is the pause before the pipe is created again.
const policyServerInterval = time.Second

// policyServer answers the network plugin while policies are enforced.
type policyServer struct {
	state.Session
	// add returns when the rules of a new pod are in force, or why they are not.
	add func(ctx context.Context, r policypipe.Request) error
}

// run serves until ctx is done. Without the pipe, no pod starts, and its event names the pipe.
func (p policyServer) run(ctx context.Context) {
	if !p.Wanted.Policies.Enforces() {
		return
	}
	for reported := ""; ctx.Err() == nil; _ = backoff.Sleep(ctx, policyServerInterval) {
		l, err := p.Host.Pipes.Listen(policypipe.Name)
		if err == nil {
			err = policypipe.Serve(ctx, l, p.add)
		}
		if err != nil && err.Error() != reported {
			reported = err.Error()
			p.Log.Error("Serving the network plugin failed; no pod starts", "error", reported)
		}
	}
}
