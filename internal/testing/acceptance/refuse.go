package acceptance

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

// ErrRefused means that the machine is not suitable for a run, and that nothing was changed on it.
var ErrRefused = errors.New("refused, nothing was changed")

// Machine is the machine of a run.
type Machine struct {
	Host hostapi.Host
	// Wine, Desktop and Elevated are those of win.Edition.
	Wine, Desktop, Elevated bool
	// Program is the path of this program, which probes start as a second process.
	Program string
	// Programs are the programs that probes need, compressed with gzip, by name: kube-log-runner, and test programs such as win.test.
	Programs map[string][]byte
	// Home is the home folder of the user that the operator logs in as or that runs the program. Default: the home folder of this process.
	Home string
	// Addresses returns the addresses of the interfaces. Default: net.InterfaceAddrs.
	Addresses func() ([]net.Addr, error)
	// Kill kills a process of this machine; nil if that is not possible.
	Kill func(pid uint32) error
}

// refuseEdition returns why this edition of Windows or this process is not suitable; nil if it is.
func (m Machine) refuseEdition(o Options) error {
	switch {
	case m.Wine && !o.OnWine:
		return fmt.Errorf("%w: this is Wine, which proves nothing about Windows: run it on Windows Server (--on-wine tests the program itself)", ErrRefused)
	case !m.Wine && o.OnWine:
		return fmt.Errorf("%w: --on-wine is set, but this is not Wine: omit it", ErrRefused)
	case m.Desktop && !m.Wine: // Wine reports the edition that its prefix was created for
		return fmt.Errorf("%w: this is a desktop edition of Windows, which cannot be a node: run it on Windows Server 2019, 2022 or 2025", ErrRefused)
	case !m.Elevated:
		return fmt.Errorf("%w: this process lacks the rights of an administrator: start it from a terminal that was opened with Run as administrator", ErrRefused)
	}
	return nil
}

// refuseNode returns an error if this machine is, or was, a node.
func (m Machine) refuseNode(ctx context.Context) error {
	services, err := m.Host.Services.List(ctx, desired.Services())
	if err != nil {
		return fmt.Errorf("%w: listing services: %w", ErrRefused, err)
	}
	var found []string
	for _, s := range services {
		if s.Name != desired.ContainerdService { // it also runs on machines that are no nodes
			found = append(found, "service "+s.Name)
		}
	}
	if m.Host.Disk.Exists(desired.State) {
		found = append(found, "folder "+desired.State)
	}
	if len(found) > 0 {
		return fmt.Errorf("%w: this machine is, or was, a node: it has %s: use one that never was", ErrRefused, strings.Join(found, ", "))
	}
	return nil
}

// home returns the user's home folder.
func (m Machine) home() (string, error) {
	if m.Home != "" {
		return m.Home, nil
	}
	return os.UserHomeDir()
}
