package acceptance

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/windows-machine-config/wmco/internal/shared/windowsupdate"
)

// updatesTimeout is how long the Windows Update Agent may take, as in WICD.
const updatesTimeout = 10 * time.Minute

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
