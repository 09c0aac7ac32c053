package configure

import (
	"context"
	"errors"
	"time"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/backoff"
	"github.com/windows-machine-config/wmco/internal/node/daemon/nodestatus"
	"github.com/windows-machine-config/wmco/internal/node/daemon/state"
	"github.com/windows-machine-config/wmco/internal/node/daemon/supervisor"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

// settingsInterval is how often settings that send no change notifications are checked, and settingsSoon the wait before the next check while a
// command is running on the host.
const (
	settingsInterval = 5 * time.Minute
	settingsSoon     = 10 * time.Second
)

// Drift repairs files, programs, SSH keys, the machine's environment, trusted certificates and firewall rules, writes the node's metrics, and
// removes replaced certificates.
type Drift struct {
	state.Session
	Services *supervisor.Supervisor
	Metrics  *nodestatus.Metrics
}

// Run corrects drift until ctx is done.
func (d Drift) Run(ctx context.Context) {
	isFirewallOff := false
	for ctx.Err() == nil {
		wait := settingsInterval
		err := d.IfIdle(func() error { return d.reconcileSettings(ctx, &isFirewallOff) })
		if errors.Is(err, state.ErrBusy) {
			wait = settingsSoon
		} else if err != nil && ctx.Err() == nil {
			d.Log.Error("Correcting configuration drift failed", "error", err.Error())
		}
		_ = backoff.Sleep(ctx, wait)
	}
}

// reconcileSettings checks the settings once and repairs differences. isFirewallOff carries the firewall's state from the last check.
func (d Drift) reconcileSettings(ctx context.Context, isFirewallOff *bool) error {
	t, err := newTarget(d.Record.JoinRequest)
	if err != nil {
		return err
	}
	w := newWork(d.Host, func(s wicdapi.Step) { d.Log.Info("Host changed", "change", s.Name) })
	w.begin("correcting drift")
	p := newParts(w, t)
	return errors.Join(
		p.files.correct(),
		p.registries.write(ctx),
		d.correctPrograms(ctx, p.programs),
		p.keys.authorize(ctx),
		p.environment.set(ctx),
		p.certificates.trust(ctx),
		d.correctFirewall(ctx, p.firewall, isFirewallOff),
		replacedCertificates{w}.remove(),
		d.Metrics.Write(),
	)
}

// correctPrograms restores the links to the node's programs where they were replaced, and restarts the services that run them. Each program is a
// hard link to a file in the store, so the check reads no content. Changes in the store itself are found at the operator's next transfer; the
// program of a running process cannot be changed.
func (d Drift) correctPrograms(ctx context.Context, p programs) error {
	err := p.link(ctx)
	for name, reason := range p.restarts {
		if name != api.WICDService { // it would stop itself, and runs the new content after its next start
			d.Services.Restart(name, reason)
		}
	}
	return err
}

// correctFirewall opens the firewall of a joined host. A firewall that does not work is logged only once.
func (d Drift) correctFirewall(ctx context.Context, f firewall, isOff *bool) error {
	err := f.set(ctx)
	off := errors.Is(err, hostapi.ErrNoFirewall)
	if off && !*isOff {
		d.Log.Warn("Setting firewall rules failed", "error", err.Error())
	}
	if off || err == nil {
		*isOff = off
		return nil
	}
	return err
}
