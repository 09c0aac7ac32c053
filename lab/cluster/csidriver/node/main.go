//go:build windows

// Command node replaces programs that a CSI driver's node plugin needs and that the lab cannot build or run:
// csi-node-driver-registrar.exe, which registers the driver with the kubelet, and powershell.exe, of which it implements the
// commands that plugins run.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	name := filepath.Base(os.Args[0])
	run := register
	if strings.HasPrefix(strings.ToLower(name), "powershell") {
		run = runScript
	}
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, name+":", err)
		os.Exit(1)
	}
}

// runScript runs one of the scripts of azurefile-csi-driver, and rejects any other.
func runScript(args []string) error {
	script := strings.TrimPrefix(strings.Join(args, " "), "-Mta -NoProfile -Command ")
	remote := strings.TrimSuffix(os.Getenv("smbremotepath"), `\`)
	switch {
	case strings.Contains(script, "New-Item -ItemType Directory -Path "):
		_, path, _ := strings.Cut(script, " -Path ")
		return os.MkdirAll(strings.TrimSuffix(path, " -Force"), 0o755)
	case strings.Contains(script, "(Get-SmbGlobalMapping -RemotePath $Env:smbremotepath"):
		return getMapping(remote)
	case strings.Contains(script, ";New-SmbGlobalMapping -RemotePath $Env:smbremotepath -Credential $Credential -RequirePrivacy $true"):
		return newMapping(remote, os.Getenv("smbuser"), os.Getenv("smbpassword"))
	case strings.Contains(script, "Remove-SmbGlobalMapping -RemotePath $Env:smbremotepath"):
		return os.Remove(mappingFile(remote))
	}
	return errors.New("the lab's powershell.exe supports only scripts of azurefile-csi-driver's node plugin, got " + script)
}
