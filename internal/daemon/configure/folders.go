package configure

import (
	"context"
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

// folders are those in which services of ours work.
type folders struct {
	work
	declared []string
	// users are folders of the user's, in which containerd looks for the network of pods.
	users []string
}

// make makes the declared folders and those of versions, and claims what C:\k does not protect.
func (f folders) make(context.Context) error {
	if err := f.claim(); err != nil {
		return err
	}
	for _, folder := range append([]string{desired.Store, desired.Versions, desired.WICDCertificates}, f.declared...) {
		existed := f.Disk.Exists(folder)
		if err := f.makeOne(folder); err != nil {
			return err
		}
		if !existed {
			f.recordChange("folder %s made", folder)
		}
	}
	for _, folder := range f.users {
		if err := f.makeUsers(folder, host.Private); err != nil {
			return err
		}
	}
	return nil
}

// makeUsers makes a folder of the user's, and those above it, where they do not exist. What exists keeps its rights. It must not belong to a
// user of the host who is no administrator: containerd runs the programs in it as SYSTEM.
func (f folders) makeUsers(folder string, who host.Access) error {
	if strings.Count(folder, `\`) == 0 {
		return nil // the drive
	}
	if err := f.makeUsers(host.Parent(folder), host.Readable); err != nil {
		return err
	}
	if err := state.CheckNoLink(f.Host, folder); err != nil {
		return err
	}
	made, err := f.Rights.MakeFolder(folder, who)
	if err != nil {
		return fmt.Errorf("making %s: %w", folder, err)
	}
	if made {
		f.recordChange("folder %s made", folder)
		return nil
	}
	_, stranger, err := f.Rights.Look(folder, who)
	if err != nil {
		return fmt.Errorf("looking whose %s is: %w", folder, err)
	}
	if stranger != "" {
		return fmt.Errorf("using %s, a folder of spec.network.custom: it belongs to %s and not to Administrators, and containerd runs programs there as SYSTEM; "+
			"if you trust what is in it, run: icacls \"%s\" /setowner *S-1-5-32-544 /t /c", folder, stranger, folder)
	}
	return nil
}

// makeOne makes a folder that nobody else can use.
func (f folders) makeOne(folder string) error {
	if strings.HasPrefix(folder, desired.Root+`\`) {
		if _, err := f.Disk.MakeFolder(folder); err != nil {
			return fmt.Errorf("making %s: %w", folder, err)
		}
		return nil
	}
	if err := f.claimPath(host.Parent(folder)); err != nil {
		return err
	}
	changes, err := state.Claim(f.Host, folder)
	for _, change := range changes {
		f.recordChange("%s", change)
	}
	return err
}

// claim makes the folders outside C:\k, in which services of ours work as SYSTEM, belong to Administrators, and those above
// them, too: every user of a Windows host may make folders on drive C:, and do in those of somebody else what their owner lets them.
func (f folders) claim() error {
	paths := []string{desired.Logs, podData, desired.ContainerdRoot, desired.ContainerdState}
	if f.Disk.Exists(desired.CNIData) { // network plugins make it
		paths = append(paths, desired.CNIData)
	}
	for _, folder := range paths {
		if err := f.claimPath(folder); err != nil {
			return err
		}
	}
	names := []string{podLogs, containerLogs}
	for _, folder := range []string{desired.KubeletData, desired.CNIData, desired.ContainerdRoot, desired.ContainerdState} {
		there, err := f.Disk.List(folder)
		if err != nil {
			return fmt.Errorf("listing %s: %w", folder, err)
		}
		for _, name := range there {
			names = append(names, folder+`\`+name)
		}
	}
	for _, name := range names { // made by users before the folder was ours
		aside, err := state.Displace(f.Host, name)
		if err != nil {
			return err
		}
		if aside != "" {
			f.recordChange("%s", aside)
		}
	}
	return nil
}

// claimPath claims a folder, and before it those above it, from the drive down: where one is ours, nobody else changes those in it.
func (f folders) claimPath(folder string) error {
	if strings.Count(folder, `\`) == 0 {
		return nil // the drive
	}
	if err := f.claimPath(host.Parent(folder)); err != nil {
		return err
	}
	who, claimed := accessTo(folder)
	if !claimed {
		if err := state.CheckNoLink(f.Host, folder); err != nil {
			return err
		}
		_, err := f.Disk.MakeFolder(folder)
		return err
	}
	_, aside, err := state.ClaimFolder(f.Host, folder, who)
	if aside != "" {
		f.recordChange("%s", aside)
	}
	return err
}
