package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
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

// keepSettings keeps files, programs, the machine's environment and the certificates it trusts as they are wanted, tells of the
// node's certificates, and removes those that were replaced.
func (l *life) keepSettings(ctx context.Context) {
	for ctx.Err() == nil {
		wait := settingsEvery
		err := l.tend(ctx)
		if errors.Is(err, errElsewhere) {
			wait = settingsSoon
		} else if err != nil && ctx.Err() == nil {
			l.log.Error("The host is not as it should be", "error", err.Error())
		}
		_ = backoff.Sleep(ctx, wait)
	}
}

// mendPrograms gives the node's programs their content again where somebody put something else in their place, and has services that run
// them start anew. Each is a name of a file in the store: to see that it still is costs no reading. What is changed in the store itself
// is found when the operator sends content the next time; nobody can change the program of a process.
func (l *life) mendPrograms(ctx context.Context, a *applying) error {
	clear(a.restart)
	err := a.linkPrograms(ctx)
	for name, why := range a.restart {
		if name != api.WICDService { // it would end itself, and has the content at its next start
			l.restartService(name, why)
		}
	}
	return err
}

// tend looks at the settings once and mends what it finds.
func (l *life) tend(ctx context.Context) error {
	release, err := l.host.System.Lock(state.CommandLock)
	if errors.Is(err, host.ErrLocked) || errors.Is(err, fs.ErrNotExist) {
		return errElsewhere
	}
	if err != nil {
		return err
	}
	defer release()
	if !l.record.IsCurrent(l.host.Disk) {
		return errElsewhere
	}
	a, err := newApplying(l.host, l.record.JoinRequest)
	if err != nil {
		return err
	}
	a.step, a.began = "keeping settings", time.Now()
	a.tell = func(s agent.Step) { l.log.Info("Changed", "change", s.Name) }
	return errors.Join(
		a.mendFiles(),
		l.mendPrograms(ctx, a),
		a.authorizeKeys(ctx),
		a.setEnvironment(ctx),
		a.trustCertificates(ctx),
		l.mendFirewall(ctx, a),
		a.removeOldCertificates(),
		l.tellMetrics(),
	)
}

// mendFiles writes those declared files again that are not what they were: somebody edited them, or the disk lost them with
// its power. Who reads them does so at the next start.
func (a *applying) mendFiles() error {
	var errs []error
	for _, f := range a.wanted.Files {
		if b, err := a.Disk.Read(f.Path); err == nil && string(b) == f.Content {
			continue
		}
		if _, err := a.write(f); err != nil {
			errs = append(errs, fmt.Errorf("writing %s: %w", f.Path, err))
			continue
		}
		a.did("%s written again: it was altered", f.Path)
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
func (a *applying) removeOldCertificates() error {
	dated := regexp.MustCompile(`^(.+)-\d{4}(-\d{2}){5}\.pem$`)
	for _, folder := range []string{desired.KubeletCertificates, desired.WICDCertificates} {
		names, err := a.Disk.List(folder)
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
			if seen[match[1]] <= keptCertificates || !a.isReplaced(folder+`\`+name, folder+`\`+match[1]+`-current.pem`) {
				continue
			}
			if err := a.Disk.Remove(folder + `\` + name); err != nil {
				return fmt.Errorf("removing %s: %w", name, err)
			}
			a.did(`%s\%s removed: it was replaced`, folder, name)
		}
	}
	return nil
}

// isReplaced tells whether a file is none that is in use, nor about to be. The clock may have gone back since the others
// were made: the name alone does not tell.
func (a *applying) isReplaced(name, current string) bool {
	info, err := a.Disk.Stat(name)
	if err != nil || time.Since(info.ModTime()) < replacedFor {
		return false
	}
	was, err := a.Disk.Read(name)
	now, errNow := a.Disk.Read(current)
	return err == nil && errNow == nil && string(was) != string(now)
}
