package update

import (
	"errors"
	"maps"
	"slices"

	"github.com/windows-machine-config/wmco/internal/daemon/state"
	"github.com/windows-machine-config/wmco/internal/desired"
	"github.com/windows-machine-config/wmco/internal/host"
)

// The operator's order says to which version the host goes, and not with which settings: of each version that the host has had, it takes none that
// are older than those that it had then.

// serialsFile has the serials of the settings that the host had, by version.
const serialsFile = desired.State + `\settings-serials.json`

// maxSerials is of how many versions the host remembers them: those with the highest.
const maxSerials = 16

var errOlderSettings = errors.New("it is older than what the host had when it had this version")

// isReplayed says whether settings of a version are older than what the host knows of it.
func isReplayed(d host.Disk, version string, serial int64) (bool, error) {
	had := map[string]int64{}
	_, err := state.ReadJSON(d, serialsFile, &had)
	return serial < had[version], err
}

// noteSerial remembers the settings that the host has of its version, before it leaves it.
func noteSerial(d host.Disk, version string, serial int64) error {
	had := map[string]int64{}
	if _, err := state.ReadJSON(d, serialsFile, &had); err != nil {
		return err
	}
	if serial <= had[version] {
		return nil
	}
	had[version] = serial
	if len(had) > maxSerials {
		lowest := slices.Min(slices.Collect(maps.Values(had)))
		maps.DeleteFunc(had, func(_ string, serial int64) bool { return serial == lowest })
	}
	return state.WriteJSON(d, serialsFile, had)
}
