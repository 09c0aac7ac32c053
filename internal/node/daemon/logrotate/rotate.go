package logrotate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/backoff"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

// logsInterval is how often the logs are checked. In between, a log that WICD rotates may exceed its limit.
const logsInterval = time.Minute

// rotatedTime is the format of the host's local time in the name of a rotated log, the same as kube-log-runner's (k8s.io/component-base,
// logs/kube-log-runner/internal/logrotation), so that all logs have the same form.
const rotatedTime = "20060102-150405"

// Rotator keeps the services' logs within their limits.
type Rotator struct {
	Disk     hostapi.Disk
	Services []desired.Service
	Limits   desired.LogLimits
	Log      *slog.Logger
}

// Run keeps the services' logs, and WICD's own, within their limits until ctx is done.
func (r Rotator) Run(ctx context.Context) {
	for ctx.Err() == nil {
		for _, s := range r.Services {
			for _, log := range logsOf(s.Log) {
				if err := Tidy(r.Disk, log, r.Limits, time.Now()); err != nil {
					r.Log.Warn("Rotating a log failed", "service", s.Name, "error", err.Error())
				}
			}
		}
		_ = backoff.Sleep(ctx, logsInterval)
	}
}

// Tidy rotates a log that has reached its size, and removes rotated files that are too old or too many. It removes before it writes, because the
// disk may be full.
func Tidy(d hostapi.Disk, log desired.Log, limits desired.LogLimits, now time.Time) error {
	if log.Path == "" || limits.Size <= 0 {
		return nil // declared by a version without log limits
	}
	if rest, ok := strings.CutPrefix(log.Path, desired.Logs+`\`); !ok || !hostapi.IsRelative(rest) {
		return fmt.Errorf(`the log is %q; one below %s is needed`, log.Path, desired.Logs)
	}
	folder := hostapi.Parent(log.Path)
	found, err := findLogs(d, folder)
	if err != nil {
		return err
	}
	do := decideLog(log, limits, found, now)
	for _, name := range do.remove {
		err = errors.Join(err, d.Remove(folder+`\`+name)) // it may be open for reading: the next check tries again
	}
	if do.aside != "" {
		err = errors.Join(err, rotate(d, log.Path, folder+`\`+do.aside))
	}
	return err
}

// foundLog is a file in a log's folder.
type foundLog struct {
	name    string
	size    int64
	changed time.Time
}

func findLogs(d hostapi.Disk, folder string) ([]foundLog, error) {
	names, err := d.List(folder)
	if err != nil {
		return nil, err
	}
	var found []foundLog
	for _, name := range names {
		if info, err := d.Stat(folder + `\` + name); err == nil && info.Mode().IsRegular() { // otherwise gone, or no log
			found = append(found, foundLog{name: name, size: info.Size(), changed: info.ModTime()})
		}
	}
	return found, nil
}

// rotationPlan is the plan for a log.
type rotationPlan struct {
	// remove are rotated files that are too old or too many, the oldest last.
	remove []string
	// aside is the name for the rotated content; empty when the log is not rotated.
	aside string
}

// decideLog plans the rotation of a log. It ignores files that are neither the log nor rotated from it.
func decideLog(log desired.Log, limits desired.LogLimits, found []foundLog, now time.Time) rotationPlan {
	file := log.Path[len(hostapi.Parent(log.Path))+1:]
	var do rotationPlan
	var aside []foundLog
	for _, f := range found {
		switch {
		case isRotatedName(file, f.name):
			aside = append(aside, f)
		case f.name == file && f.size >= limits.Size && !log.Rotates:
			do.aside = rotatedName(file, now)
		}
	}
	slices.SortFunc(aside, func(a, b foundLog) int {
		if order := b.changed.Compare(a.changed); order != 0 {
			return order
		}
		return strings.Compare(b.name, a.name)
	})
	keep := limits.Count
	if do.aside != "" {
		keep-- // the log is about to be rotated
	}
	for i, f := range aside {
		if i >= keep || now.Sub(f.changed) > limits.Age.Duration {
			do.remove = append(do.remove, f.name)
		}
	}
	return do
}

// rotatedName returns the name of a rotated log: kubelet-20060102-150405.log for kubelet.log.
func rotatedName(file string, at time.Time) string {
	base, ending := cutEnding(file)
	return base + "-" + at.Format(rotatedTime) + ending
}

// isRotatedName reports whether rotatedName could have returned name.
func isRotatedName(file, name string) bool {
	base, ending := cutEnding(file)
	rest, ok := strings.CutPrefix(name, base+"-")
	if !ok {
		return false
	}
	at, ok := strings.CutSuffix(rest, ending)
	if !ok {
		return false
	}
	parsed, err := time.Parse(rotatedTime, at)
	return err == nil && parsed.Format(rotatedTime) == at
}

// cutEnding splits a name at its last dot.
func cutEnding(file string) (base, ending string) {
	if dot := strings.LastIndexByte(file, '.'); dot >= 0 {
		return file[:dot], file[dot:]
	}
	return file, ""
}

// rotate copies a log and truncates it, because Windows does not allow renaming a file that a Go program has open, but allows truncating
// it. Lines written between the end of the copy and the truncation are lost. Most of the copy's time is the sync to disk, so lines written
// during the sync are copied after it.
func rotate(d hostapi.Disk, name, aside string) error {
	from, err := d.Open(name)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := d.Create(aside)
	if err != nil {
		return err
	}
	if err := copyThenTruncate(d, name, to, from); err != nil {
		return errors.Join(err, to.Close(), d.Remove(aside))
	}
	return to.Close()
}

func copyThenTruncate(d hostapi.Disk, name string, to, from *os.File) error {
	if _, err := io.Copy(to, from); err != nil {
		return err
	}
	if err := to.Sync(); err != nil {
		return err
	}
	if _, err := io.Copy(to, from); err != nil {
		return err
	}
	return d.Truncate(name)
}
