//go:build windows

package main

import (
	"fmt"

	"golang.org/x/sys/windows/svc/mgr"
)

// Paths of the lab's service programs: the SSH server is at Windows' own path.
const (
	sshProgram      = `C:\windows\system32\OpenSSH\sshd.exe`
	networksProgram = `C:\lab\hns.exe`
)

func createServices() error {
	m, err := mgr.Connect()
	if err != nil {
		return fmt.Errorf("connecting to the service manager: %w", err)
	}
	defer m.Disconnect()
	for _, c := range []struct{ name, program, displayed string }{
		{"sshd", sshProgram, "OpenSSH SSH Server"},
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
