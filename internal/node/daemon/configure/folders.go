package configure

import (
	"context"
	"fmt"
	"strings"

	"github.com/windows-machine-config/wmco/internal/node/daemon/state"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

// Folders in which the kubelet creates its own.
const (
	podData       = desired.KubeletData + `\pods`
	podLogs       = desired.Logs + `\pods`
	containerLogs = desired.Logs + `\containers`
)

// accessTo returns the access rights of a folder that the operator's services use, or of one of its parents. claimed is false for folders of
// Windows or of others. containerd itself creates its folders with the rights of Private.
func accessTo(folder string) (access hostapi.Access, claimed bool) {
	switch {
	case strings.HasPrefix(folder+`\`, desired.ContainerdData+`\`):
		return hostapi.Private, true
	case folder == podData:
		return hostapi.Volumes, true
	}
	return hostapi.Readable, strings.HasPrefix(folder+`\`, `C:\var\`)
}

// folders are the folders that the operator's services use.
type folders struct {
	work
	declared []string
	// users are the user's folders in which containerd finds the pod network.
	users []string
}

// create creates the declared folders and those of versions, and claims folders that C:\k does not protect.
func (f folders) create(context.Context) error {
	if err := f.claim(); err != nil {
		return err
	}
	for _, folder := range append([]string{desired.Store, desired.Versions, desired.WICDCertificates}, f.declared...) {
		existed := f.Disk.Exists(folder)
		if err := f.createOne(folder); err != nil {
			return err
		}
		if !existed {
			f.recordChange("folder %s created", folder)
		}
	}
	for _, folder := range f.users {
		if err := f.createUserFolder(folder, hostapi.Private); err != nil {
			return err
		}
	}
	return nil
}

// createUserFolder creates a folder of the user and its parents where they do not exist. Existing folders keep their rights. They must not
// belong to a user who is no administrator, because containerd runs the programs in them as SYSTEM.
func (f folders) createUserFolder(folder string, access hostapi.Access) error {
	if strings.Count(folder, `\`) == 0 {
		return nil // the drive
	}
	if err := f.createUserFolder(hostapi.Parent(folder), hostapi.Readable); err != nil {
		return err
	}
	if err := state.CheckNoLink(f.Host, folder); err != nil {
		return err
	}
	made, err := f.Rights.MakeFolder(folder, access)
	if err != nil {
		return fmt.Errorf("creating %s: %w", folder, err)
	}
	if made {
		f.recordChange("folder %s created", folder)
		return nil
	}
	_, foreignOwner, err := f.Rights.Check(folder, access)
	if err != nil {
		return fmt.Errorf("reading the owner of %s: %w", folder, err)
	}
	if foreignOwner != "" {
		return fmt.Errorf("using %s, a folder of spec.network.custom: it belongs to %s instead of Administrators, and containerd runs programs there as SYSTEM; "+
			"if you trust its content, run: icacls \"%s\" /setowner *S-1-5-32-544 /t /c", folder, foreignOwner, folder)
	}
	return nil
}

// createOne creates a folder that only administrators can use.
func (f folders) createOne(folder string) error {
	if strings.HasPrefix(folder, desired.Root+`\`) {
		if _, err := f.Disk.MakeFolder(folder); err != nil {
			return fmt.Errorf("creating %s: %w", folder, err)
		}
		return nil
	}
	if err := f.claimPath(hostapi.Parent(folder)); err != nil {
		return err
	}
	changes, err := state.Claim(f.Host, folder)
	for _, change := range changes {
		f.recordChange("%s", change)
	}
	return err
}

// claim makes the folders outside C:\k in which the operator's services work as SYSTEM, and their parents, belong to Administrators: every user of
// a Windows host may create folders on drive C:, and may change other users' folders as far as their owners allow.
func (f folders) claim() error {
	paths := []string{desired.Logs, podData, desired.ContainerdRoot, desired.ContainerdState}
	if f.Disk.Exists(desired.CNIData) { // created by network plugins
		paths = append(paths, desired.CNIData)
	}
	for _, folder := range paths {
		if err := f.claimPath(folder); err != nil {
			return err
		}
	}
	return f.displace([]string{podLogs, containerLogs}, desired.KubeletData, desired.CNIData, desired.ContainerdRoot, desired.ContainerdState)
}

// displace renames what users created before the folders were claimed: these names, and the content of these folders.
func (f folders) displace(names []string, folders ...string) error {
	for _, folder := range folders {
		existing, err := f.Disk.List(folder)
		if err != nil {
			return fmt.Errorf("listing %s: %w", folder, err)
		}
		for _, name := range existing {
			names = append(names, folder+`\`+name)
		}
	}
	for _, name := range names {
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

// claimPath claims the parents of a folder from the drive down, then the folder: once a parent is claimed, no one else can change the folders in
// it.
func (f folders) claimPath(folder string) error {
	if strings.Count(folder, `\`) == 0 {
		return nil // the drive
	}
	if err := f.claimPath(hostapi.Parent(folder)); err != nil {
		return err
	}
	access, claimed := accessTo(folder)
	if !claimed {
		if err := state.CheckNoLink(f.Host, folder); err != nil {
			return err
		}
		_, err := f.Disk.MakeFolder(folder)
		return err
	}
	_, aside, err := state.ClaimFolder(f.Host, folder, access)
	if aside != "" {
		f.recordChange("%s", aside)
	}
	return err
}
