package acceptance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/windows-machine-config/wmco/internal/shared/windowsupdate"
)

// updatesTimeout is how long the Windows Update Agent may take, as in WICD; installTimeout is for a search, a download and an installation together.
const updatesTimeout, installTimeout = 10 * time.Minute, 30 * time.Minute

func tryUpdates(ctx context.Context, s *session) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, updatesTimeout)
	defer cancel()
	began := time.Now()
	r, err := s.Host.UpdateAgent.Updates(ctx)
	if err != nil {
		return "", err
	}
	seen, err := checkUpdates(r)
	return fmt.Sprintf("%s; it took %.1f s", seen, time.Since(began).Seconds()), err
}

// checkUpdates expects that the agent answered each question. A host without any history is new, and proves nothing about it.
func checkUpdates(r windowsupdate.Report) (string, error) {
	seen := fmt.Sprintf("%d updates are pending, %d operations in the history, last search %s, source %s",
		r.Total, len(r.History), r.Searched.Format(time.DateOnly), r.Source())
	if r.Disabled {
		return "", untriedErrorf("the service of Windows Update is disabled")
	}
	var failures []string
	for _, f := range r.Failures {
		failures = append(failures, f.String())
	}
	if len(failures) > 0 {
		return "", errors.New(seen + ": " + strings.Join(failures, "; "))
	}
	if len(r.History) == 0 {
		return "", untriedErrorf("%s: install an update, and try again", seen)
	}
	return seen, nil
}

// tryUpdatesInstall installs definitions of Microsoft Defender: Windows replaces them several times a day, and they need no restart.
func tryUpdatesInstall(ctx context.Context, s *session) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, installTimeout)
	defer cancel()
	began := time.Now()
	r, err := s.Host.UpdateAgent.Search(ctx)
	if err != nil {
		return "", err
	}
	u, err := definitionsOf(r)
	if err != nil {
		return "", err
	}
	if err := expectDone(ctx, "download", s.Host.UpdateAgent.Download, u.ID); err != nil {
		return "", err
	}
	if err := expectDone(ctx, "installation", s.Host.UpdateAgent.Install, u.ID); err != nil {
		return "", err
	}
	r, err = s.Host.UpdateAgent.Updates(ctx)
	if err != nil {
		return "", err
	}
	if slices.ContainsFunc(r.Pending, func(p windowsupdate.Update) bool { return p.ID == u.ID }) {
		return "", fmt.Errorf("%s is still pending after its installation", u.Title)
	}
	return fmt.Sprintf("%s is installed; it took %.1f s", u.Title, time.Since(began).Seconds()), nil
}

// definitionsOf returns pending definitions of a report after a search at the server.
func definitionsOf(r windowsupdate.Report) (windowsupdate.Update, error) {
	if r.Disabled {
		return windowsupdate.Update{}, untriedErrorf("the service of Windows Update is disabled")
	}
	for _, f := range r.Failures {
		if f.Call == windowsupdate.CallOnline {
			return windowsupdate.Update{}, untriedErrorf("the search failed: %s", f)
		}
	}
	for _, u := range r.Pending {
		if u.Class == windowsupdate.Definition && u.ID != "" && !u.Interactive {
			return u, nil
		}
	}
	return windowsupdate.Update{}, untriedErrorf("no definitions of Microsoft Defender are pending after a search at %s: try again in some hours", r.Source())
}

// expectDone downloads or installs one update, and expects that it succeeds.
func expectDone(ctx context.Context, what string, operate func(context.Context, []string) (windowsupdate.Outcome, error), id string) error {
	o, err := operate(ctx, []string{id})
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", what, err)
	case o.Failure != nil && o.Failure.IsBusy():
		return untriedErrorf("the agent is busy: %s", o.Failure)
	case o.Failure != nil:
		return fmt.Errorf("%s: %s", what, o.Failure)
	case o.RestartFirst:
		return untriedErrorf("the agent needs a restart of Windows first")
	}
	r, found := o.Of(id)
	if !found || !r.Succeeded() {
		return fmt.Errorf("%s: the result is %+v", what, o.Results)
	}
	return nil
}
