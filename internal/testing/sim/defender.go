package sim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

// Defender is Microsoft Defender Antivirus.
type Defender struct {
	// Stopped is true while its service does not run.
	Stopped bool
	// Set are the exclusions that are set on the host, Policy those of a group policy.
	Set, Policy desired.Exclusions
	// PolicyOnly is true if exclusions set on the host have no effect (policy DisableLocalAdminMerge).
	PolicyOnly bool
	// Hidden is true if a policy hides exclusions from administrators of the host.
	Hidden bool
	// RealTimeOff is true if it does not scan files when programs use them.
	RealTimeOff bool
	// Refuses makes each change of exclusions fail.
	Refuses error
	// Hangs makes each call fail after half a minute.
	Hangs bool
	// Writes counts the calls that change exclusions, even without effect: each is an event in the log of Defender.
	Writes int
}

// defender is the Defender of one boot.
type defender struct{ boot *boot }

// Exclusions implements hostapi.Defender.
func (d defender) Exclusions(ctx context.Context) (e desired.Exclusions, err error) {
	err = d.use(ctx, func(got *Defender) error {
		if got.Hidden {
			return hostapi.ErrExclusionsHidden
		}
		e = got.Policy.And(desired.Exclusions{})
		if !got.PolicyOnly {
			e = e.And(got.Set)
		}
		return nil
	})
	return e, err
}

// Add implements hostapi.Defender.
func (d defender) Add(ctx context.Context, e desired.Exclusions) error {
	return d.change(ctx, "exclude", e, func(got *Defender) { got.Set = got.Set.And(e) })
}

// Remove implements hostapi.Defender.
func (d defender) Remove(ctx context.Context, e desired.Exclusions) error {
	return d.change(ctx, "include", e, func(got *Defender) { got.Set = got.Set.Without(e) })
}

// Scans implements hostapi.Defender.
func (d defender) Scans(ctx context.Context) (scans bool, err error) {
	err = d.use(ctx, func(got *Defender) error {
		scans = !got.RealTimeOff
		return nil
	})
	return scans, err
}

func (d defender) change(ctx context.Context, operation string, e desired.Exclusions, change func(*Defender)) error {
	return d.use(ctx, func(got *Defender) error {
		if e.IsEmpty() {
			return nil
		}
		got.Writes++
		if got.Refuses != nil {
			return got.Refuses
		}
		if err := d.boot.changeLocked(operation); err != nil {
			return err
		}
		change(got)
		return nil
	})
}

// use passes the running Defender to a function.
func (d defender) use(ctx context.Context, use func(*Defender) error) error {
	w := d.boot.w
	w.mu.Lock()
	hangs := w.defender.Hangs
	w.mu.Unlock()
	if hangs {
		select {
		case <-ctx.Done():
		case <-time.After(30 * time.Second):
			return errors.New("no answer within 30s")
		}
	}
	if err := d.boot.lock(ctx); err != nil {
		return err
	}
	defer w.mu.Unlock()
	if w.defender.Stopped {
		return fmt.Errorf("%w: its service is stopped", hostapi.ErrNoDefender)
	}
	return use(&w.defender)
}

// EditDefender changes Microsoft Defender, like an administrator or a policy.
func (w *Windows) EditDefender(edit func(*Defender)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	edit(&w.defender)
}

// Defender returns the current state of Microsoft Defender.
func (w *Windows) Defender() Defender {
	w.mu.Lock()
	defer w.mu.Unlock()
	d := w.defender
	d.Set, d.Policy = d.Set.And(desired.Exclusions{}), d.Policy.And(desired.Exclusions{})
	return d
}
