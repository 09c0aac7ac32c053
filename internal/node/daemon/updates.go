package daemon

import (
	"context"
	"fmt"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/daemon/state"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/internal/shared/windowsupdate"
)

// InstallUpdates stores an order for the service, which carries it out. An order with the name of the last one is not stored again. Another one is
// refused while the last one is being installed.
func InstallUpdates(ctx context.Context, s *wicdapi.Session, h hostapi.Host) (wicdapi.InstallUpdatesResult, error) {
	var r wicdapi.InstallUpdatesRequest
	if err := s.Request(&r); err != nil {
		return wicdapi.InstallUpdatesResult{}, err
	}
	if err := checkUpdatesRequest(r); err != nil {
		return wicdapi.InstallUpdatesResult{}, err
	}
	release, err := state.LockCommands(ctx, h)
	if err != nil {
		return wicdapi.InstallUpdatesResult{}, err
	}
	defer release()
	last, found, err := state.ReadUpdateOrder(h.Disk)
	if err != nil {
		return wicdapi.InstallUpdatesResult{}, err
	}
	if found && last.Order == r.Order {
		return wicdapi.InstallUpdatesResult{Installation: last.Installation}, nil
	}
	if found && last.State == windowsupdate.Installing {
		return wicdapi.InstallUpdatesResult{}, &wicdapi.Error{Code: wicdapi.CodeBusy, Message: fmt.Sprintf("installation %s is in progress on this host", last.Order)}
	}
	record, err := state.Read(h.Disk)
	if err != nil {
		return wicdapi.InstallUpdatesResult{}, fmt.Errorf("reading the record of the last join: %w", err)
	}
	if record.Leaving || record.Desired.UpdatesToInstall == nil {
		return wicdapi.InstallUpdatesResult{}, invalidRequest("the settings of this node do not let it install updates")
	}
	_, revision, err := h.Inventory.Version(ctx)
	if err != nil {
		return wicdapi.InstallUpdatesResult{}, fmt.Errorf("reading the revision of Windows: %w", err)
	}
	o := state.UpdateOrder{
		Installation: windowsupdate.Installation{Order: r.Order, State: windowsupdate.Installing}, KBs: r.KBs, From: revision, Received: time.Now().UTC(),
	}
	if r.Undoes != "" {
		if err := checkUndo(r, last, revision); err != nil {
			return wicdapi.InstallUpdatesResult{}, err
		}
		o.KBs, o.Removes = last.KBs, revision
	}
	if err := o.Write(h.Disk); err != nil {
		return wicdapi.InstallUpdatesResult{}, err
	}
	return wicdapi.InstallUpdatesResult{Installation: o.Installation}, nil
}

// checkUndo returns why the last order cannot be undone. Only a cumulative update changes the revision, and only one can be uninstalled.
func checkUndo(r wicdapi.InstallUpdatesRequest, last state.UpdateOrder, revision int) error {
	switch {
	case last.Order != r.Undoes || last.Removes > 0:
		return invalidRequest("the last order of this host is %.64q, not installation %.64q", last.Order, r.Undoes)
	case last.From == 0 || revision <= last.From:
		return invalidRequest("Windows has revision %d, and had %d before the installation: no cumulative update was installed", revision, last.From)
	}
	return nil
}

func invalidRequest(format string, args ...any) error {
	return &wicdapi.Error{Code: wicdapi.CodeRequestInvalid, Message: fmt.Sprintf(format, args...)}
}

func checkUpdatesRequest(r wicdapi.InstallUpdatesRequest) error {
	if r.Order == "" || len(r.Order) > windowsupdate.MaxOrder {
		return invalidRequest("order %.64q is empty or longer than %d bytes", r.Order, windowsupdate.MaxOrder)
	}
	if len(r.Undoes) > windowsupdate.MaxOrder {
		return invalidRequest("undoes %.64q is longer than %d bytes", r.Undoes, windowsupdate.MaxOrder)
	}
	if r.Undoes == "" && len(r.KBs) == 0 || len(r.KBs) > windowsupdate.MaxOffers {
		return invalidRequest("%d articles; 1 to %d are allowed", len(r.KBs), windowsupdate.MaxOffers)
	}
	for _, kb := range r.KBs {
		if kb == "" || windowsupdate.KBOf(kb) != kb {
			return invalidRequest("%.64q is not a KB number; the format is KB followed by 6 to 8 digits", kb)
		}
	}
	return nil
}
