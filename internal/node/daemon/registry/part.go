package registry

import (
	"context"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/backoff"
	"github.com/windows-machine-config/wmco/internal/node/daemon/credentials"
	"github.com/windows-machine-config/wmco/internal/node/daemon/nodestatus"
	"github.com/windows-machine-config/wmco/internal/node/daemon/state"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

// checkInterval is how often the part checks for something to report and for re-created certificates, keyInterval how often it checks whether they
// exist.
const (
	checkInterval = 15 * time.Second
	keyInterval   = time.Second
)

// Part makes the server work as a session requires, and reports its state to the Node.
type Part struct {
	state.Session
	Server  *Server
	Metrics *nodestatus.Metrics
	// Wake wakes the reporter.
	Wake state.Signal
}

// Run passes the session's settings to the server, and reports changes until ctx is done. The server continues afterwards.
func (p Part) Run(ctx context.Context) {
	if !p.configure(ctx) {
		return
	}
	reported, counted := time.Time{}, map[string]int64(nil)
	for isRunning := true; isRunning; isRunning = backoff.Sleep(ctx, checkInterval) == nil {
		if err := p.useConfig(); err != nil {
			p.Log.Warn("Serving registry mirrors failed", "error", err.Error())
		}
		if since := p.Server.Problem().Since; !since.Equal(reported) {
			reported = since
			p.Wake.Send()
		}
		if counts := p.Server.Counts(); p.Wanted.Registries != nil && !maps.Equal(counts, counted) {
			if err := p.Metrics.Write(); err != nil {
				p.Log.Warn("Writing metrics failed", "error", err.Error())
			}
			counted = counts
		}
	}
}

// configure passes the settings on once the certificates exist; a join creates them.
func (p Part) configure(ctx context.Context) bool {
	for reported := false; ctx.Err() == nil; reported = true {
		err := p.useConfig()
		if err == nil {
			return true
		}
		if !reported {
			p.Log.Warn("Serving registry mirrors failed", "error", err.Error())
		}
		_ = backoff.Sleep(ctx, keyInterval)
	}
	return false
}

// useConfig passes on the settings, and the current certificates.
func (p Part) useConfig() error {
	if p.Wanted.Registries == nil {
		return p.Server.Use(Config{})
	}
	endpoint, err := credentials.ReadRegistry(p.Host.Disk)
	if err != nil {
		return err
	}
	c := Config{Table: p.Wanted.Registries, Keyring: p.Wanted.PullSecret(), Certificates: p.Wanted.Certificates, Endpoint: endpoint}
	for _, s := range p.Wanted.Services {
		if s.Name == desired.ContainerdService { // the registry uses containerd's proxy
			c.Proxy = s.Environment
		}
	}
	return p.Server.Use(c)
}

// ReportTo reports by an event of the Node that nothing is served.
func (p Part) ReportTo(ctx context.Context, w *nodestatus.Writer, node *corev1.Node) error {
	problem := p.Server.Problem()
	if problem.Err == nil {
		return nil
	}
	return w.CreateEvents(ctx, node, []nodestatus.Problem{{
		Service: "registry", Reason: api.EventRegistryUnavailable, Message: problem.Err.Error(), Since: problem.Since,
	}})
}
