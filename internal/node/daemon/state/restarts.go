package state

import (
	"fmt"
	"slices"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

// restartsFile stores the restarts of an incomplete join, replacementsFile the files that wait for their replacement.
const (
	restartsFile     = desired.State + `\restarts.json`
	replacementsFile = desired.State + `\replacements.json`
)

// Restart is a restart of the host by a join.
type Restart struct {
	// Causes are the keys of its causes.
	Causes []string `json:"causes"`
	// Boot is the boot ID of the host before it, At its time.
	Boot string    `json:"boot"`
	At   time.Time `json:"at"`
}

// Restarts are those by a join since the user's last retry request.
type Restarts struct {
	Retried string    `json:"retried,omitempty"`
	Made    []Restart `json:"made,omitempty"`
}

// ReadRestarts returns the stored restarts. Those before the user's last retry request do not count.
func ReadRestarts(d hostapi.Disk, retried string) (Restarts, error) {
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

// Write stores the restarts.
func (r Restarts) Write(d hostapi.Disk) error { return WriteJSON(d, restartsFile, r) }

// ForgetRestarts removes the file after a complete join.
func ForgetRestarts(d hostapi.Disk) error { return d.Remove(restartsFile) }

// Since returns the last restart for a cause before the current boot; nil if there was none.
func (r Restarts) Since(cause, boot string) *Restart {
	for _, restart := range slices.Backward(r.Made) {
		if restart.Boot != boot && slices.Contains(restart.Causes, cause) {
			return &restart
		}
	}
	return nil
}

// RequestedIn reports whether a restart was requested in this boot.
func (r Restarts) RequestedIn(boot string) bool {
	return slices.ContainsFunc(r.Made, func(made Restart) bool { return made.Boot == boot })
}

// With returns the restarts with next, which replaces one in the same boot.
func (r Restarts) With(next Restart) Restarts {
	r.Made = slices.DeleteFunc(slices.Clone(r.Made), func(made Restart) bool { return made.Boot == next.Boot })
	r.Made = append(r.Made, next)
	return r
}

// replacements are the files that wait for their replacement, as seen in one boot and in the previous one.
type replacements struct {
	Boot   string   `json:"boot"`
	Seen   []string `json:"seen,omitempty"`
	Before []string `json:"before,omitempty"`
}

// maxReplacements limits what is stored of one boot.
const maxReplacements = 512

// NewReplacements returns the files that were not seen in the previous boot: a restart has not helped the others. It stores them all.
func NewReplacements(d hostapi.Disk, boot string, files []string) ([]string, error) {
	var r replacements
	if _, err := ReadJSON(d, replacementsFile, &r); err != nil {
		return nil, fmt.Errorf("reading %s: %w", replacementsFile, err)
	}
	if boot == "" { // unknown
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
