package configure

import (
	"context"
	"errors"
	"time"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/agent"
	"github.com/windows-machine-config/wmco/internal/backoff"
	"github.com/windows-machine-config/wmco/internal/daemon/state"
	"github.com/windows-machine-config/wmco/internal/host"
)

// settingsEvery is how often settings are looked at of whose changes nobody tells, settingsSoon how soon again when a
// command is at work on the host.
const (
	settingsEvery = 5 * time.Minute
	settingsSoon  = 10 * time.Second
)

// Restarter restarts services.
type Restarter interface {
	// Restart has a service restarted, for a reason. It does not wait for it.
	Restart(name, why string)
}

// MetricsWriter writes the metrics of the node.
type MetricsWriter interface {
	Write() error
}

// Drift keeps files, programs, the machine's environment and the certificates it trusts as they are wanted, tells of the
// node's certificates, and removes those that were replaced.
type Drift struct {
	state.Session
	Services Restarter
	Metrics  MetricsWriter
}

// Run corrects drift until ctx is done.
func (d Drift) Run(ctx context.Context) {
	isFirewallOff := false
	for ctx.Err() == nil {
		wait := settingsEvery
		err := d.IfIdle(func() error { return d.reconcileSettings(ctx, &isFirewallOff) })
		if errors.Is(err, state.ErrBusy) {
			wait = settingsSoon
		} else if err != nil && ctx.Err() == nil {
			d.Log.Error("Correcting configuration drift failed", "error", err.Error())
		}
		_ = backoff.Sleep(ctx, wait)
	}
}

// reconcileSettings looks at the settings once and corrects what it finds. isFirewallOff is what the last look has shown.
func (d Drift) reconcileSettings(ctx context.Context, isFirewallOff *bool) error {
	t, err := newTarget(d.Record.JoinRequest)
	if err != nil {
		return err
	}
	w := newWork(d.Host, func(s agent.Step) { d.Log.Info("Changed", "change", s.Name) })
	w.begin("keeping settings")
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

// correctPrograms gives the node's programs their content again where somebody put something else in their place, and restarts services
// that run them. Each is a name of a file in the store: to see that it still is costs no reading. What is changed in the store itself
// is found when the operator sends content the next time; nobody can change the program of a process.
func (d Drift) correctPrograms(ctx context.Context, p programs) error {
	err := p.link(ctx)
	for name, why := range p.restarts {
		if name != api.WICDService { // it would end itself, and has the content at its next start
			d.Services.Restart(name, why)
		}
	}
	return err
}

// correctFirewall opens the firewall of a host that has joined. That the firewall does not work is said when it begins, and not each time.
func (d Drift) correctFirewall(ctx context.Context, f firewall, isOff *bool) error {
	err := f.set(ctx)
	off := errors.Is(err, host.ErrNoFirewall)
	if off && !*isOff {
		d.Log.Warn("Setting firewall rules failed", "error", err.Error())
	}
	if off || err == nil {
		*isOff = off
		return nil
	}
	return err
}
