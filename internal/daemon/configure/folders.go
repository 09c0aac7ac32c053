package configure

import (
	"fmt"
	"strings"

	"github.com/windows-machine-config/wmco/internal/daemon/state"
	"github.com/windows-machine-config/wmco/internal/desired"
	"github.com/windows-machine-config/wmco/internal/host"
)

// Folders in which the kubelet makes those of its own.
const (
	podData       = desired.KubeletData + `\pods`
	podLogs       = desired.Logs + `\pods`
	containerLogs = desired.Logs + `\containers`
)

// accessTo says who may use a folder in which services of ours work, or one above it; claimed is false for folders that are Windows', or
// others'. containerd gives its own folders the rights of Private where it makes them.
func accessTo(folder string) (who host.Access, claimed bool) {
	switch {
	case strings.HasPrefix(folder+`\`, desired.ContainerdData+`\`):
		return host.Private, true
	case folder == podData:
		return host.Volumes, true
	}
	return host.Readable, strings.HasPrefix(folder+`\`, `C:\var\`)
}

// claimFolders makes the folders outside C:\k, in which services of ours work as SYSTEM, belong to Administrators, and those above
// them, too: every user of a Windows host may make folders on drive C:, and do in those of somebody else what their owner lets them.
func (c *configurator) claimFolders() error {
	folders := []string{desired.Logs, podData, desired.ContainerdRoot, desired.ContainerdState}
	if c.Disk.Exists(desired.CNIData) { // network plugins make it
		folders = append(folders, desired.CNIData)
	}
	for _, folder := range folders {
		if err := c.claimPath(folder); err != nil {
			return err
		}
	}
	names := []string{podLogs, containerLogs}
	for _, folder := range []string{desired.KubeletData, desired.CNIData, desired.ContainerdRoot, desired.ContainerdState} {
		there, err := c.Disk.List(folder)
		if err != nil {
			return fmt.Errorf("listing %s: %w", folder, err)
		}
		for _, name := range there {
			names = append(names, folder+`\`+name)
		}
	}
	for _, name := range names { // made by users before the folder was ours
		aside, err := state.Displace(c.Host, name)
		if err != nil {
			return err
		}
		if aside != "" {
			c.recordChange("%s", aside)
		}
	}
	return nil
}

// claimPath claims a folder, and before it those above it, from the drive down: where one is ours, nobody else changes those in it.
func (c *configurator) claimPath(folder string) error {
	if strings.Count(folder, `\`) == 0 {
		return nil // the drive
	}
	if err := c.claimPath(host.Parent(folder)); err != nil {
		return err
	}
	who, claimed := accessTo(folder)
	if !claimed {
		if err := state.CheckNoLink(c.Host, folder); err != nil {
			return err
		}
		_, err := c.Disk.MakeFolder(folder)
		return err
	}
	_, aside, err := state.ClaimFolder(c.Host, folder, who)
	if aside != "" {
		c.recordChange("%s", aside)
	}
	return err
}
