//go:build windows

// Command node replaces the programs that a CSI driver's node plugin needs and that the lab cannot build or run: as csi-node-driver-registrar.exe it
// registers the driver with the kubelet, and as powershell.exe it handles the commands that plugins run in PowerShell.
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
	do := register
	if strings.HasPrefix(strings.ToLower(name), "powershell") {
		do = runScript
	}
	if err := do(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, name+":", err)
		os.Exit(1)
	}
}

// runScript runs one of the scripts of azurefile-csi-driver; others are refused.
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
	return errors.New("the lab's powershell.exe knows only what the node plugin of azurefile-csi-driver runs, not " + script)
}
