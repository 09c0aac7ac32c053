package instance

import (
	"time"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
)

// batchDelay returns how long each of this many joining hosts waits, so that several share one read or one write. It is zero below ten hosts.
func batchDelay(hosts int) time.Duration { return time.Duration(hosts/10) * time.Second }

// defaultJoins is the limit of concurrent joins if WindowsConfig sets none.
const defaultJoins = 32

// joins returns how many hosts may join at the same time.
func joins(config v1alpha1.WindowsConfigSpec) int {
	if config.Rollout.MaxConcurrentJoins > 0 {
		return int(config.Rollout.MaxConcurrentJoins)
	}
	return defaultJoins
}
