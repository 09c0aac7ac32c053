package state

import (
	"fmt"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/windowsupdate"
)

// updateOrderFile has the last installation of updates that the operator requested, with its progress. It outlives restarts of WICD and Windows.
const updateOrderFile = desired.State + `\updates-order.json`

// UpdateOrder is an installation of updates, or its undoing, that the operator requested.
type UpdateOrder struct {
	windowsupdate.Installation
	// KBs are the articles to install.
	KBs []string `json:"kbs"`
	// From is the revision of Windows when the request arrived.
	From int `json:"from,omitempty"`
	// Removes is the revision whose cumulative update is uninstalled; 0 for an installation.
	Removes int `json:"removes,omitempty"`
	// Received is when the request arrived, by the host's clock.
	Received time.Time `json:"received"`
	// RestartFirst means that Windows was or is restarted once before the installation, because an earlier one waited for it. Installed means that the
	// installation has ended, and waits for its own restart.
	RestartFirst bool `json:"restartFirst,omitempty"`
	Installed    bool `json:"installed,omitempty"`
	// Restarted is when WICD found that the host was restarted for the installation.
	Restarted time.Time `json:"restarted,omitzero"`
}

// ReadUpdateOrder returns the stored order. A damaged one is not found; the operator repeats it.
func ReadUpdateOrder(d hostapi.Disk) (o UpdateOrder, found bool, err error) {
	found, err = ReadJSON(d, updateOrderFile, &o)
	if err != nil {
		return UpdateOrder{}, false, fmt.Errorf("reading %s: %w", updateOrderFile, err)
	}
	return o, found && o.Order != "", nil
}

// Write stores the order.
func (o UpdateOrder) Write(d hostapi.Disk) error { return WriteJSON(d, updateOrderFile, o) }
