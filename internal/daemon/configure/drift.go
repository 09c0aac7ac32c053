package configure

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/agent"
	"github.com/windows-machine-config/wmco/internal/backoff"
	"github.com/windows-machine-config/wmco/internal/daemon/state"
	"github.com/windows-machine-config/wmco/internal/desired"
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

// reconcileSettings looks at the settings once and mends what it finds. isFirewallOff is what the last look has shown.
func (d Drift) reconcileSettings(ctx context.Context, isFirewallOff *bool) error {
	c, err := newConfigurator(d.Host, d.Record.JoinRequest)
	if err != nil {
		return err
	}
	c.step, c.began = "keeping settings", time.Now()
	c.tell = func(s agent.Step) { d.Log.Info("Changed", "change", s.Name) }
	return errors.Join(
		c.mendFiles(),
		d.mendPrograms(ctx, c),
		c.authorizeKeys(ctx),
		c.setEnvironment(ctx),
		c.trustCertificates(ctx),
		d.mendFirewall(ctx, c, isFirewallOff),
		c.removeOldCertificates(),
		d.Metrics.Write(),
	)
}

// mendPrograms gives the node's programs their content again where somebody put something else in their place, and has services that run
// them start anew. Each is a name of a file in the store: to see that it still is costs no reading. What is changed in the store itself
// is found when the operator sends content the next time; nobody can change the program of a process.
func (d Drift) mendPrograms(ctx context.Context, c *configurator) error {
	clear(c.restart)
	err := c.linkPrograms(ctx)
	for name, why := range c.restart {
		if name != api.WICDService { // it would end itself, and has the content at its next start
			d.Services.Restart(name, why)
		}
	}
	return err
}

// mendFirewall is openFirewall for a host that has joined. That the firewall does not work is said when it begins, and not each time.
func (d Drift) mendFirewall(ctx context.Context, c *configurator, isOff *bool) error {
	err := c.setFirewall(ctx)
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

// mendFiles writes those declared files again that are not what they were: somebody edited them, or the disk lost them with
// its power. Who reads them does so at the next start.
func (c *configurator) mendFiles() error {
	var errs []error
	for _, f := range c.wanted.Files {
		if b, err := c.Disk.Read(f.Path); err == nil && string(b) == f.Content {
			continue
		}
		if _, err := c.write(f); err != nil {
			errs = append(errs, fmt.Errorf("writing %s: %w", f.Path, err))
			continue
		}
		c.recordChange("%s written again: it was altered", f.Path)
	}
	return errors.Join(errs...)
}

// keptCertificates is how many of each certificate stay: that of now and the one before it. A file that is younger than
// replacedFor may be one that its owner is about to use.
const (
	keptCertificates = 2
	replacedFor      = time.Hour
)

// removeOldCertificates removes the certificates that client-go's certificate store leaves behind whenever it makes a new
// one: kubelet-client-2006-01-02-15-04-05.pem (k8s.io/client-go, util/certificate/certificate_store.go). WICD replaces its
// own in place; a former operator did not.
func (c *configurator) removeOldCertificates() error {
	dated := regexp.MustCompile(`^(.+)-\d{4}(-\d{2}){5}\.pem$`)
	for _, folder := range []string{desired.KubeletCertificates, desired.WICDCertificates} {
		names, err := c.Disk.List(folder)
		if err != nil {
			return fmt.Errorf("listing %s: %w", folder, err)
		}
		slices.Reverse(names) // the newest first
		seen := map[string]int{}
		for _, name := range names {
			match := dated.FindStringSubmatch(name)
			if match == nil {
				continue
			}
			seen[match[1]]++
			if seen[match[1]] <= keptCertificates || !c.isReplaced(folder+`\`+name, folder+`\`+match[1]+`-current.pem`) {
				continue
			}
			if err := c.Disk.Remove(folder + `\` + name); err != nil {
				return fmt.Errorf("removing %s: %w", name, err)
			}
			c.recordChange(`%s\%s removed: it was replaced`, folder, name)
		}
	}
	return nil
}

// isReplaced tells whether a file is none that is in use, nor about to be. The clock may have gone back since the others
// were made: the name alone does not tell.
func (c *configurator) isReplaced(name, current string) bool {
	info, err := c.Disk.Stat(name)
	if err != nil || time.Since(info.ModTime()) < replacedFor {
		return false
	}
	was, err := c.Disk.Read(name)
	now, errNow := c.Disk.Read(current)
	return err == nil && errNow == nil && string(was) != string(now)
}
