//go:build windows

// Command guest is the lab's program on a Windows host, under several names: guest.exe keeps Wine running and serves the lab's
// requests, sshd.exe is the service of the SSH server, hns.exe is the network service, shutdown.exe restarts the host, unlike Wine's
// own, and powershell.exe, which Wine lacks, records its starts and answers the kubelet.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	var err error
	switch name := strings.TrimSuffix(strings.ToLower(filepath.Base(os.Args[0])), ".exe"); {
	case name == sshService:
		err = handler(startSSH).run(sshService)
	case name == networksService:
		err = handler(startNetworks).run(networksService)
	case name == "shutdown":
		err = shutdown(os.Args[1:])
	case name == "powershell":
		err = powerShell(os.Args[1:])
	case len(os.Args) == 2 && os.Args[1] == "setup":
		err = setup(os.Stdin)
	case len(os.Args) == 2 && os.Args[1] == "serve":
		err = serveLab()
	default:
		err = fmt.Errorf("want setup or serve, got %q", os.Args[1:])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, filepath.Base(os.Args[0])+":", err)
		os.Exit(1)
	}
}
