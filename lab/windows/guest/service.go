//go:build windows

package main

import (
	"fmt"
	"os"

	"github.com/windows-machine-config/wmco/lab/windows/guestapi"
	"github.com/windows-machine-config/wmco/lab/windows/hns"
	"golang.org/x/sys/windows/svc"
	"golang.org/x/sys/windows/svc/mgr"
)

// The lab's services, by Windows' names, and their programs: the SSH server is at Windows' own path.
const (
	sshService      = "sshd"
	sshProgram      = `C:\windows\system32\OpenSSH\sshd.exe`
	networksService = "hns"
	networksProgram = `C:\lab\hns.exe`
)

func createServices() error {
	m, err := mgr.Connect()
	if err != nil {
		return fmt.Errorf("connecting to the service manager: %w", err)
	}
	defer m.Disconnect()
	for _, c := range []struct{ name, program, displayed string }{
		{sshService, sshProgram, "OpenSSH SSH Server"},
		{networksService, networksProgram, "Host Network Service"},
	} {
		s, err := m.CreateService(c.name, c.program, mgr.Config{StartType: mgr.StartAutomatic, DisplayName: c.displayed})
		if err != nil {
			return fmt.Errorf("creating the service %s: %w", c.name, err)
		}
		if err := s.Close(); err != nil {
			return fmt.Errorf("closing the service %s: %w", c.name, err)
		}
	}
	return nil
}

// handler starts a service, and returns how to stop it.
type handler func() (stop func(), err error)

func (start handler) run(name string) error {
	if err := svc.Run(name, start); err != nil {
		return fmt.Errorf("running as a service: %w", err)
	}
	return nil
}

// Execute implements svc.Handler.
func (start handler) Execute(_ []string, requests <-chan svc.ChangeRequest, status chan<- svc.Status) (bool, uint32) {
	status <- svc.Status{State: svc.StartPending}
	stop, err := start()
	if err != nil {
		fmt.Fprintln(os.Stderr, "starting:", err)
		return true, 1
	}
	defer stop()
	running := svc.Status{State: svc.Running, Accepts: svc.AcceptStop | svc.AcceptShutdown}
	status <- running
	for r := range requests {
		switch r.Cmd {
		case svc.Interrogate:
			status <- running
		case svc.Stop, svc.Shutdown:
			return false, 0
		}
	}
	return false, 0
}

// startNetworks starts the service of networks. It only runs: calls are handled in the processes that make them, while it does.
func startNetworks() (stop func(), err error) {
	end, err := (&hns.Store{Dir: guestapi.NetworksDir}).Serve()
	return func() { _ = end() }, err
}
