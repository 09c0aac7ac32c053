package update

import (
	"errors"
	"maps"
	"slices"

	"github.com/windows-machine-config/wmco/internal/node/daemon/state"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

// The operator's order determines the version, but not its settings. For each version that it had before, the host refuses settings that are older
// than those it had then.

// serialsFile has the serials of the host's settings, by version.
const serialsFile = desired.State + `\settings-serials.json`

// maxSerials is the number of versions that are remembered: those with the highest serials.
const maxSerials = 16

var errOlderSettings = errors.New("it is older than the settings that the host last had with this version")

// isReplayed reports whether settings of a version are older than those that the host had.
func isReplayed(d hostapi.Disk, version string, serial int64) (bool, error) {
	previous := map[string]int64{}
	_, err := state.ReadJSON(d, serialsFile, &previous)
	return serial < previous[version], err
}

// recordSerial stores the serial of the host's current settings, before the host leaves its version.
func recordSerial(d hostapi.Disk, version string, serial int64) error {
	previous := map[string]int64{}
	if _, err := state.ReadJSON(d, serialsFile, &previous); err != nil {
		return err
	}
	if serial <= previous[version] {
		return nil
	}
	previous[version] = serial
	if len(previous) > maxSerials {
		lowest := slices.Min(slices.Collect(maps.Values(previous)))
		maps.DeleteFunc(previous, func(_ string, serial int64) bool { return serial == lowest })
	}
	return state.WriteJSON(d, serialsFile, previous)
}
