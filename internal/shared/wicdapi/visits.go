package wicdapi

import (
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/windowsupdate"
)

// PrepareRequest requests what an image of the host should have, in addition to content.
type PrepareRequest struct {
	// Features are the Windows features to enable.
	Features []string `json:"features" max:"8"`
	// Containerd declares the containerd that pulls the sandbox image, as desired.ForImage does; nil to pull none.
	Containerd *desired.Node `json:"containerd,omitempty"`
}

// PrepareResult reports whether the host is prepared.
type PrepareResult struct {
	// Rebooting is why the host restarts now. After that, the command must be repeated. It is empty if the host is prepared.
	Rebooting string `json:"rebooting,omitempty"`
	// BootID is the host's boot ID before the restart.
	BootID string `json:"bootID"`
	// Changed lists what was changed.
	Changed []string `json:"changed,omitempty" max:"1024"`
}

// RestartRequest requests a restart of a host.
type RestartRequest struct {
	// BootID is that of the host when the restart was decided. A host with another one has restarted since, and is left alone.
	BootID string `json:"bootID"`
	// Comment is what Windows displays and writes to its event log.
	Comment string `json:"comment"`
}

// RestartResult reports whether the host restarts.
type RestartResult struct {
	// BootID of the host when it responded.
	BootID string `json:"bootID"`
	// Restarting is false if the host has restarted since.
	Restarting bool `json:"restarting,omitempty"`
}

// InstallUpdatesRequest requests the installation of Windows updates that the node offers, or its undoing.
type InstallUpdatesRequest struct {
	// Order names the request. A repeated one changes nothing.
	Order string `json:"order"`
	// KBs are the articles of the updates.
	KBs []string `json:"kbs,omitempty" max:"8"`
	// Undoes is the last order, of which the cumulative update is uninstalled; empty to install KBs.
	Undoes string `json:"undoes,omitempty"`
}

// InstallUpdatesResult reports how far the order is.
type InstallUpdatesResult struct {
	Installation windowsupdate.Installation `json:"installation"`
}
