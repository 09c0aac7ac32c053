//go:build linux

package lab

import (
	"context"
	"fmt"

	v1 "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/windows-machine-config/wmco/lab/image"
)

// AzureFileModule is the module of Azure File's CSI driver, which lab/cluster/csidriver pins.
const AzureFileModule = "sigs.k8s.io/azurefile-csi-driver"

// Images in the manifest of the driver's node plugin for Windows.
const (
	azureFileImage = "mcr.microsoft.com/oss/v2/kubernetes-csi/azurefile-csi:v1.34.0-windows-hp"
	registrarImage = "mcr.microsoft.com/oss/v2/kubernetes-csi/csi-node-driver-registrar:v2.15.0"
)

// smbMappings is a folder on a host with a file for each share that cluster/csidriver/node has mapped.
const smbMappings = `C:\lab\smb`

func azureFileProgram() program {
	return program{
		pkg: AzureFileModule + "/pkg/azurefileplugin", module: "cluster/csidriver", about: "building Azure File's CSI driver (some minutes the first time)",
		env: []string{"GOOS=windows", "GOARCH=amd64"}, hostProcess: true,
	}
}

func csiNodeProgram() program {
	return program{
		pkg: "node", module: "cluster/csidriver", about: "building helpers of a CSI driver", env: []string{"GOOS=windows", "GOARCH=amd64"},
		hostProcess: true,
	}
}

// AddAzureFile adds the images of Azure File's node plugin for Windows to a registry of StartPodImages: the driver itself, with
// cluster/csidriver/node in place of its PowerShell and of node-driver-registrar.
func (l *Lab) AddAzureFile(ctx context.Context, r *Registry) error {
	driver, err := l.cache.content(ctx, azureFileProgram())
	if err != nil {
		return err
	}
	node, err := l.cache.content(ctx, csiNodeProgram())
	if err != nil {
		return err
	}
	run := v1.ImageConfig{WorkingDir: `C:\hpc`, Env: []string{`PATH=C:\hpc;C:\Windows\System32;C:\Windows`, "SMB_MAPPINGS=" + smbMappings}}
	for name, files := range map[string]map[string]string{
		azureFileImage: {"azurefileplugin.exe": driver, "powershell.exe": node},
		registrarImage: {"csi-node-driver-registrar.exe": node},
	} {
		i, err := image.NewWindows("", run, files)
		if err != nil {
			return fmt.Errorf("building image %s: %w", name, err)
		}
		if err := r.pushAs(ctx, name, i); err != nil {
			return err
		}
	}
	return nil
}

// MappedShare returns the user as whom a host has mapped the share of a file server, as recorded by cluster/csidriver/node.
func (h *Host) MappedShare(s *FileServer) (user string, err error) {
	content, err := h.ReadFile(smbMappings + `\` + s.address + "_" + SharedFolder)
	return string(content), err
}
