package state

import (
	"fmt"
	"slices"
	"time"

	"github.com/windows-machine-config/wmco/internal/desired"
	"github.com/windows-machine-config/wmco/internal/host"
)

// restartsFile remembers the restarts of a join that is not complete, replacementsFile which files wait for their replacement.
const (
	restartsFile     = desired.State + `\restarts.json`
	replacementsFile = desired.State + `\replacements.json`
)

// Restart is one restart of the host that a join made.
type Restart struct {
	// Causes are what it was made for, by their keys.
	Causes []string `json:"causes"`
	// Boot is the boot ID of the host before it, and At the time.
	Boot string    `json:"boot"`
	At   time.Time `json:"at"`
}

// Restarts are those that a join made since the user last asked to try again.
type Restarts struct {
	Retried string    `json:"retried,omitempty"`
	Made    []Restart `json:"made,omitempty"`
}

// ReadRestarts returns what a join of the host remembers. What was remembered before the user last asked counts no more.
func ReadRestarts(d host.Disk, retried string) (Restarts, error) {
	var r Restarts
	_, err := ReadJSON(d, restartsFile, &r)
	if err != nil {
		return r, fmt.Errorf("reading %s: %w", restartsFile, err)
	}
	if r.Retried != retried {
		r = Restarts{Retried: retried}
	}
	return r, nil
}

// Write remembers them.
func (r Restarts) Write(d host.Disk) error { return WriteJSON(d, restartsFile, r) }

// ForgetRestarts is for a join that is complete.
func ForgetRestarts(d host.Disk) error { return d.Remove(restartsFile) }

// Since is the restart that was made for a cause before the present boot; nil when there was none.
func (r Restarts) Since(cause, boot string) *Restart {
	for _, made := range slices.Backward(r.Made) {
		if made.Boot != boot && slices.Contains(made.Causes, cause) {
			return &made
		}
	}
	return nil
}

// IsUnderWay says that the host was told to restart in this boot.
func (r Restarts) IsUnderWay(boot string) bool {
	return slices.ContainsFunc(r.Made, func(made Restart) bool { return made.Boot == boot })
}

// With are the restarts with one more.
func (r Restarts) With(next Restart) Restarts {
	r.Made = slices.DeleteFunc(slices.Clone(r.Made), func(made Restart) bool { return made.Boot == next.Boot })
	r.Made = append(r.Made, next)
	return r
}

// replacements are files that wait for their replacement, as far as they were seen in one boot, and in the one before it.
type replacements struct {
	Boot   string   `json:"boot"`
	Seen   []string `json:"seen,omitempty"`
	Before []string `json:"before,omitempty"`
}

// maxReplacements bounds what is remembered of one boot.
const maxReplacements = 512

// NewReplacements are those of the files that were not there in the boot before: a restart has not helped the others. It remembers them all.
func NewReplacements(d host.Disk, boot string, files []string) ([]string, error) {
	var r replacements
	if _, err := ReadJSON(d, replacementsFile, &r); err != nil {
		return nil, fmt.Errorf("reading %s: %w", replacementsFile, err)
	}
	if boot == "" { // nobody knows
		boot = r.Boot
	}
	if len(files) == 0 && (r.Boot == "" || r.Boot == boot) {
		return nil, nil
	}
	changed := r.Boot != boot
	if changed {
		r = replacements{Boot: boot, Before: r.Seen}
	}
	var fresh []string
	for _, file := range files {
		if !slices.Contains(r.Before, file) {
			fresh = append(fresh, file)
		}
		if !slices.Contains(r.Seen, file) && len(r.Seen) < maxReplacements {
			r.Seen, changed = append(r.Seen, file), true
		}
	}
	if !changed {
		return fresh, nil
	}
	return fresh, WriteJSON(d, replacementsFile, r)
}
