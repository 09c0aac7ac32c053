package main

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/windows-machine-config/wmco/internal/shared/tlsprofile"
)

// profileInterval is how often the TLS security profile is read; profileTimeout limits each read.
const profileInterval, profileTimeout = time.Minute, 10 * time.Second

// profileFollower reads what the cluster's TLS security profile has servers offer. It runs in all replicas, since each serves metrics.
type profileFollower struct {
	read   func(context.Context) (*tlsprofile.Server, error)
	logger logr.Logger
	server atomic.Pointer[tlsprofile.Server]
}

// NeedLeaderElection returns false: each replica serves metrics.
func (p *profileFollower) NeedLeaderElection() bool { return false }

// Start reads until the context ends. If a read fails, the previous profile remains.
func (p *profileFollower) Start(ctx context.Context) error {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		within, cancel := context.WithTimeout(ctx, profileTimeout)
		defer cancel()
		current, err := p.read(within)
		if err != nil {
			if ctx.Err() == nil {
				p.logger.Error(err, "Reading the TLS security profile failed; serving metrics with the previous one")
			}
			return
		}
		p.server.Store(current)
	}, profileInterval)
	return nil
}
