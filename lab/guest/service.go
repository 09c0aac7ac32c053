//go:build windows

package main

import (
	"fmt"

	"golang.org/x/sys/windows/svc/mgr"
)

// sshProgram is where Windows has its SSH server.
const sshProgram = `C:\windows\system32\OpenSSH\sshd.exe`

func createSSHService() error {
	m, err := mgr.Connect()
	if err != nil {
		return fmt.Errorf("connecting to the service manager: %w", err)
	}
	defer m.Disconnect()
	s, err := m.CreateService("sshd", sshProgram, mgr.Config{StartType: mgr.StartAutomatic, DisplayName: "OpenSSH SSH Server"})
	if err != nil {
		return fmt.Errorf("creating the service sshd: %w", err)
	}
	return s.Close()
}
