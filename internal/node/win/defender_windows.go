package win

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

// Names of Microsoft Defender Antivirus: its service, and its documented interface in WMI
// (https://learn.microsoft.com/previous-versions/windows/desktop/defender/msft-mppreference).
const (
	defenderService   = "WinDefend"
	defenderNamespace = `root\Microsoft\Windows\Defender`
	defenderClass     = "MSFT_MpPreference"
	excludedPaths     = "ExclusionPath"
	excludedProcesses = "ExclusionProcess"
	// https://learn.microsoft.com/previous-versions/windows/desktop/defender/msft-mpcomputerstatus
	defenderStatus = "MSFT_MpComputerStatus"
	realTime       = "RealTimeProtectionEnabled"
)

// defender is Microsoft Defender Antivirus.
type defender struct{ wmi *wmi }

// Exclusions implements hostapi.Defender.
func (d defender) Exclusions(ctx context.Context) (desired.Exclusions, error) {
	if err := checkDefender(); err != nil {
		return desired.Exclusions{}, err
	}
	e, err := withNamespace(ctx, d.wmi, defenderNamespace, func(s wmiServices) (e desired.Exclusions, err error) {
		err = s.instance(defenderClass, func(o wmiClassObject) (err error) {
			if e.Processes, err = o.strings(excludedProcesses); err != nil {
				return err
			}
			e.Paths, err = o.strings(excludedPaths)
			return err
		})
		return e, err
	})
	if err != nil {
		return desired.Exclusions{}, fmt.Errorf("reading exclusions of Microsoft Defender: %w", err)
	}
	if slices.ContainsFunc(slices.Concat(e.Processes, e.Paths), isHidden) {
		return desired.Exclusions{}, hostapi.ErrExclusionsHidden
	}
	return e, nil
}

// isHidden recognizes the sentence that replaces all exclusions if policy HideExclusionsFromLocalAdmins hides them.
func isHidden(exclusion string) bool { return strings.HasPrefix(exclusion, "N/A:") }

// Add implements hostapi.Defender.
func (d defender) Add(ctx context.Context, e desired.Exclusions) error {
	return d.change(ctx, "Add", e)
}

// Remove implements hostapi.Defender.
func (d defender) Remove(ctx context.Context, e desired.Exclusions) error {
	return d.change(ctx, "Remove", e)
}

// Scans implements hostapi.Defender.
func (d defender) Scans(ctx context.Context) (bool, error) {
	if err := checkDefender(); err != nil {
		return false, err
	}
	scans, err := withNamespace(ctx, d.wmi, defenderNamespace, func(s wmiServices) (scans bool, err error) {
		err = s.instance(defenderStatus, func(o wmiClassObject) (err error) {
			scans, err = o.truth(realTime)
			return err
		})
		return scans, err
	})
	if err != nil {
		return false, fmt.Errorf("reading the state of Microsoft Defender: %w", err)
	}
	return scans, nil
}

func (d defender) change(ctx context.Context, method string, e desired.Exclusions) error {
	if err := checkDefender(); err != nil || e.IsEmpty() {
		return err
	}
	e = desired.Exclusions{Processes: slices.Clone(e.Processes), Paths: slices.Clone(e.Paths)} // the call may outlive this one
	_, err := withNamespace(ctx, d.wmi, defenderNamespace, func(s wmiServices) (struct{}, error) {
		return struct{}{}, s.do(defenderClass, method, func(in wmiClassObject) error {
			return errors.Join(in.putStrings(excludedProcesses, e.Processes), in.putStrings(excludedPaths, e.Paths))
		}, nil)
	})
	if err != nil {
		return fmt.Errorf("changing exclusions of Microsoft Defender: %w", err)
	}
	return nil
}

// checkDefender returns hostapi.ErrNoDefender unless the service of Defender runs.
func checkDefender() error {
	switch runs, err := isRunning(defenderService); {
	case errors.Is(err, hostapi.ErrNotFound):
		return fmt.Errorf("%w: this Windows has no service %s", hostapi.ErrNoDefender, defenderService)
	case err != nil:
		return fmt.Errorf("reading the state of service %s: %w", defenderService, err)
	case !runs:
		return fmt.Errorf("%w: service %s is stopped", hostapi.ErrNoDefender, defenderService)
	}
	return nil
}
