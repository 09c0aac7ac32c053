package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

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
func (a *applying) claimFolders() error {
	folders := []string{desired.Logs, podData, desired.ContainerdRoot, desired.ContainerdState}
	if a.Disk.Exists(desired.CNIData) { // network plugins make it
		folders = append(folders, desired.CNIData)
	}
	for _, folder := range folders {
		if err := a.claimPath(folder); err != nil {
			return err
		}
	}
	names := []string{podLogs, containerLogs}
	for _, folder := range []string{desired.KubeletData, desired.CNIData, desired.ContainerdRoot, desired.ContainerdState} {
		there, err := a.Disk.List(folder)
		if err != nil {
			return fmt.Errorf("listing %s: %w", folder, err)
		}
		for _, name := range there {
			names = append(names, folder+`\`+name)
		}
	}
	for _, name := range names { // made by users before the folder was ours
		aside, err := displace(a.Host, name)
		if err != nil {
			return err
		}
		if aside != "" {
			a.did("%s", aside)
		}
	}
	return nil
}

// claimPath claims a folder, and before it those above it, from the drive down: where one is ours, nobody else changes those in it.
func (a *applying) claimPath(folder string) error {
	if strings.Count(folder, `\`) == 0 {
		return nil // the drive
	}
	if err := a.claimPath(host.Parent(folder)); err != nil {
		return err
	}
	who, claimed := accessTo(folder)
	if !claimed {
		if err := checkNoLink(a.Host, folder); err != nil {
			return err
		}
		_, err := a.Disk.MakeFolder(folder)
		return err
	}
	_, aside, err := claimFolder(a.Host, folder, who)
	if aside != "" {
		a.did("%s", aside)
	}
	return err
}

// claim makes a folder, and everything that is in it, belong to Administrators alone; changes is what it did with what was somebody
// else's. The folder may be somebody's trap: a link instead of it is refused, links to folders below it go.
func claim(h host.Host, folder string) (changes []string, err error) {
	wasOurs, aside, err := claimFolder(h, folder, host.Private)
	if err != nil {
		return nil, err
	}
	if aside != "" {
		changes = append(changes, aside)
	}
	err = h.Disk.Walk(folder, func(name string, info fs.FileInfo) error {
		if isLink(info) {
			if to, err := os.Stat(h.Disk.Local(name)); err == nil && to.IsDir() {
				return h.Disk.Remove(name)
			}
			return nil
		}
		if host.IsAside(name) && h.Disk.Remove(name) == nil {
			return nil // what was in use when it was replaced is so no more
		}
		if !wasOurs { // others could make something in it, and have it open
			aside, err := displace(h, name)
			if err != nil {
				return err
			}
			if aside != "" {
				changes = append(changes, aside)
				return nil
			}
		}
		if err := h.MakePrivate(name); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	})
	if err != nil {
		return changes, fmt.Errorf("claiming %s: %w", folder, err)
	}
	return changes, nil
}

// claimFolder makes one folder belong to Administrators, with what is in it as it is. A folder of somebody else is put aside, and not
// taken over: who had it open before may change its rights again, whosever it is then. wasOurs tells that nobody else could make
// something in it until now.
func claimFolder(h host.Host, folder string, who host.Access) (wasOurs bool, aside string, err error) {
	if err := checkNoLink(h, folder); err != nil {
		return false, "", err
	}
	if aside, err = displace(h, folder); err != nil {
		return false, "", err
	}
	made, err := h.Rights.MakeFolder(folder, who)
	if err != nil {
		return false, "", fmt.Errorf("making %s: %w", folder, err)
	}
	if made {
		return true, aside, nil
	}
	if err := checkNoLink(h, folder); err != nil {
		return false, "", err
	}
	ours, stranger, err := h.Rights.Look(folder, who)
	if err == nil && stranger != "" {
		err = fmt.Errorf("it belongs to %s, who makes it again and again", stranger)
	}
	if err == nil && !ours {
		err = h.Rights.Protect(folder, who)
	}
	if err != nil {
		return false, "", fmt.Errorf("claiming %s: %w", folder, err)
	}
	return ours, aside, nil
}

// checkNoLink refuses what is there and no folder.
func checkNoLink(h host.Host, folder string) error {
	if info, err := h.Disk.Stat(folder); err == nil && !info.IsDir() {
		return fmt.Errorf("claiming %s: it is a link or a file, and must be a folder; remove it", folder)
	}
	return nil
}

// displace renames what belongs to neither administrators nor Windows, so that something of ours can take its place, and says so. Windows
// renames no folder in which somebody has a file open.
func displace(h host.Host, name string) (change string, err error) {
	if host.IsAside(name) {
		return "", nil // nobody looks there
	}
	_, stranger, err := h.Rights.Look(name, host.Private)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("looking whose %s is: %w", name, err)
	}
	if stranger == "" {
		return "", nil
	}
	aside, err := h.Disk.StepAside(name)
	if err != nil {
		return "", fmt.Errorf("putting %s aside, which belongs to %s and not to Administrators: %w; remove it, or, if you trust what is in it, run: "+
			"icacls %s /setowner *S-1-5-32-544 /t /c", name, stranger, err, name)
	}
	return fmt.Sprintf("%s belonged to %s, and is %s now", name, stranger, aside), nil
}

// isLink knows symbolic links, and the junctions of Windows, which Go calls irregular.
func isLink(info fs.FileInfo) bool { return info.Mode()&(fs.ModeSymlink|fs.ModeIrregular) != 0 }
