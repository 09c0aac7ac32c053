package configure

import (
	"fmt"
	"strings"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

const (
	// servicingWithin is how long after a start Windows may take to complete features and updates, and setupWithin to complete its setup. Anything
	// longer is stuck, or irrelevant for this host.
	servicingWithin = 15 * time.Minute
	setupWithin     = 30 * time.Minute
)

// joinContinues describes what follows when Windows has finished.
const joinContinues = "the join continues"

// AwaitWindows returns an error while Windows completes its setup, features or updates, because a restart then would damage it. then
// describes what follows.
func AwaitWindows(u hostapi.Unfinished, then string) error {
	if len(u.Setup) > 0 && u.Up < setupWithin {
		return unready(wicdapi.CodeWaitingForSetup, u.Up, then, "Windows is completing its setup (%s)", strings.Join(u.Setup, ", "))
	}
	if len(u.Servicing) > 0 && u.Up < servicingWithin {
		return unready(wicdapi.CodeServicing, u.Up, then, "Windows is installing features or updates (%s)", strings.Join(u.Servicing, ", "))
	}
	return nil
}

// unready returns an error that describes what Windows is busy with, and since when.
func unready(code wicdapi.Code, up time.Duration, then, format string, args ...any) error {
	within := servicingWithin
	if code == wicdapi.CodeWaitingForSetup {
		within = setupWithin
	}
	since := time.Now().Add(-up).UTC().Truncate(time.Minute)
	return &wicdapi.Error{Code: code, Message: fmt.Sprintf(format, args...) + fmt.Sprintf(
		"; Windows started at %s; %s when this is complete, and no later than %.0f minutes after the start", since.Format(time.RFC3339), then, within.Minutes())}
}
