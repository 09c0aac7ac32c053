package acceptance

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/windows-machine-config/wmco/internal/desired"
	"github.com/windows-machine-config/wmco/internal/host"
)

// ErrRefused is the error of Run for a machine that is not for trying things. Nothing was changed there.
var ErrRefused = errors.New("refused, nothing was changed")

// Machine is the machine to try things on.
type Machine struct {
	Host host.Host
	// Wine, Desktop and Elevated are those of win.Edition.
	Wine, Desktop, Elevated bool
	// Program is the path of this program, which probes start as another one.
	Program string
	// Programs are programs that probes need, compressed with gzip, by their names: kube-log-runner, and programs of tests, such as win.test.
	Programs map[string][]byte
	// Home is the home folder of the user whom the operator logs in as, or who runs the program; empty for that of this process.
	Home string
	// Addresses are those of the interfaces; nil for those of this machine.
	Addresses func() ([]net.Addr, error)
	// Kill kills a process of this machine; nil where that is not possible.
	Kill func(pid uint32) error
}

// refuseEdition says why this kind of Windows, or this process, is not for trying things; nil if it is.
func (m Machine) refuseEdition(o Options) error {
	switch {
	case m.Wine && !o.OnWine:
		return fmt.Errorf("%w: this is Wine, which cannot tell what Windows does: run it on Windows Server (--on-wine tries the program itself)", ErrRefused)
	case !m.Wine && o.OnWine:
		return fmt.Errorf("%w: --on-wine is given, and this is not Wine: leave it out", ErrRefused)
	case m.Desktop && !m.Wine: // Wine tells what its prefix was made for
		return fmt.Errorf("%w: this is a desktop edition of Windows, which cannot be a node: run it on Windows Server 2019, 2022 or 2025", ErrRefused)
	case !m.Elevated:
		return fmt.Errorf("%w: this process lacks the rights of an administrator: start it from a terminal that was opened with Run as administrator", ErrRefused)
	}
	return nil
}

// refuseNode says why this machine is a node; nil if it is none.
func (m Machine) refuseNode(ctx context.Context) error {
	services, err := m.Host.Services.List(ctx, desired.Services())
	if err != nil {
		return fmt.Errorf("%w: listing services: %w", ErrRefused, err)
	}
	var found []string
	for _, s := range services {
		if s.Name != desired.ContainerdService { // it also runs where there is no node
			found = append(found, "service "+s.Name)
		}
	}
	if m.Host.Disk.Exists(desired.State) {
		found = append(found, "folder "+desired.State)
	}
	if len(found) > 0 {
		return fmt.Errorf("%w: this machine is, or was, a node: it has %s: take one that never was", ErrRefused, strings.Join(found, ", "))
	}
	return nil
}

// home is the home folder of the user.
func (m Machine) home() (string, error) {
	if m.Home != "" {
		return m.Home, nil
	}
	return os.UserHomeDir()
}
