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

	"github.com/windows-machine-config/wmco/internal/backoff"
	"github.com/windows-machine-config/wmco/internal/desired"
	"github.com/windows-machine-config/wmco/internal/host"
)

// logsEvery is how often the logs are looked at. In between, one that WICD puts aside may outgrow its limit.
const logsEvery = time.Minute

// asideTime is the time, the host's own, in the name of a log that was put aside: as kube-log-runner writes it
// (k8s.io/component-base, logs/kube-log-runner/internal/logrotation), so that all logs look the same.
const asideTime = "20060102-150405"

// Rotator keeps logs of services within their limits.
type Rotator struct {
	Disk     host.Disk
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
		_ = backoff.Sleep(ctx, logsEvery)
	}
}

// Tidy puts a log aside when it is as large as it may be, and removes what was put aside of it and is too old or too much. It removes before it
// writes: the disk may be full.
func Tidy(d host.Disk, log desired.Log, limits desired.LogLimits, now time.Time) error {
	if log.Path == "" || limits.Size <= 0 {
		return nil // declared by a version that did not know of logs
	}
	if rest, ok := strings.CutPrefix(log.Path, desired.Logs+`\`); !ok || !host.IsRelative(rest) {
		return fmt.Errorf(`the log is %q; one below %s is needed`, log.Path, desired.Logs)
	}
	folder := host.Parent(log.Path)
	found, err := findLogs(d, folder)
	if err != nil {
		return err
	}
	do := decideLog(log, limits, found, now)
	for _, name := range do.remove {
		err = errors.Join(err, d.Remove(folder+`\`+name)) // somebody may be reading it: the next look tries again
	}
	if do.aside != "" {
		err = errors.Join(err, putAside(d, log.Path, folder+`\`+do.aside))
	}
	return err
}

// foundLog is a file in the folder of a log.
type foundLog struct {
	name    string
	size    int64
	changed time.Time
}

func findLogs(d host.Disk, folder string) ([]foundLog, error) {
	names, err := d.List(folder)
	if err != nil {
		return nil, err
	}
	var found []foundLog
	for _, name := range names {
		if info, err := d.Stat(folder + `\` + name); err == nil && info.Mode().IsRegular() { // otherwise gone, or none of ours
			found = append(found, foundLog{name: name, size: info.Size(), changed: info.ModTime()})
		}
	}
	return found, nil
}

// tidying is what is to be done with a log.
type tidying struct {
	// remove are files that were put aside, the oldest last, that are too old or too many.
	remove []string
	// aside is the name that the log's content is to have from now on; empty when it stays where it is.
	aside string
}

// decideLog looks at the files of a log's folder. What is neither the log nor was put aside of it is not touched.
func decideLog(log desired.Log, limits desired.LogLimits, found []foundLog, now time.Time) tidying {
	file := log.Path[len(host.Parent(log.Path))+1:]
	var do tidying
	var aside []foundLog
	for _, f := range found {
		switch {
		case wasPutAside(file, f.name):
			aside = append(aside, f)
		case f.name == file && f.size >= limits.Size && !log.Rotates:
			do.aside = asideName(file, now)
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
		keep-- // the next one is about to come
	}
	for i, f := range aside {
		if i >= keep || now.Sub(f.changed) > limits.Age.Duration {
			do.remove = append(do.remove, f.name)
		}
	}
	return do
}

// asideName is kubelet-20060102-150405.log for kubelet.log.
func asideName(file string, at time.Time) string {
	base, ending := cutEnding(file)
	return base + "-" + at.Format(asideTime) + ending
}

// wasPutAside tells whether a name is one that asideName gives.
func wasPutAside(file, name string) bool {
	base, ending := cutEnding(file)
	rest, ok := strings.CutPrefix(name, base+"-")
	if !ok {
		return false
	}
	at, ok := strings.CutSuffix(rest, ending)
	if !ok {
		return false
	}
	parsed, err := time.Parse(asideTime, at)
	return err == nil && parsed.Format(asideTime) == at
}

// cutEnding cuts a name at its last dot.
func cutEnding(file string) (base, ending string) {
	if dot := strings.LastIndexByte(file, '.'); dot >= 0 {
		return file[:dot], file[dot:]
	}
	return file, ""
}

// putAside copies a log and empties it. Windows lets nobody rename a file that a Go program has open, but everybody empty
// it. What is written in the moment between the end of the copy and the emptying is lost; before that, most of the time
// that the copy takes goes into bringing it to disk, and what came meanwhile is added.
func putAside(d host.Disk, name, aside string) error {
	from, err := d.Open(name)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := d.Create(aside)
	if err != nil {
		return err
	}
	if err := copyThenEmpty(d, name, to, from); err != nil {
		return errors.Join(err, to.Close(), d.Remove(aside))
	}
	return to.Close()
}

func copyThenEmpty(d host.Disk, name string, to, from *os.File) error {
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
