package configure

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/backoff"
	"github.com/windows-machine-config/wmco/internal/node/daemon/state"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

// Files may be in use only briefly, by a virus scanner or a process that is about to exit.
const (
	removalAttempts = 5
	removalPause    = time.Second
)

// leavingFiles removes the operator's folders and files from a leaving host.
type leavingFiles struct{ *leaving }

// remove removes the operator's folders and files. A failure does not stop the others.
func (f leavingFiles) remove(ctx context.Context) error {
	targets, err := f.targets()
	if err != nil {
		return err
	}
	existing := slices.DeleteFunc(targets, func(name string) bool { return !f.Disk.Exists(name) })
	var failures []error
	for attempt := 1; ; attempt++ {
		failures = nil
		for _, name := range existing {
			failures = append(failures, f.Disk.RemoveTree(ctx, name)...)
		}
		if len(failures) == 0 || attempt == removalAttempts {
			break
		}
		if err := backoff.Sleep(ctx, removalPause); err != nil {
			return err
		}
	}
	for _, name := range existing {
		if !f.Disk.Exists(name) {
			f.recordChange("%s removed", name)
		}
	}
	for _, err := range failures[:min(len(failures), maxRemains)] {
		f.remains.note("%v", err)
	}
	if more := len(failures) - maxRemains; more > 0 {
		f.remains.note("%d more files", more)
	}
	f.removeEmpty()
	return f.removePrograms()
}

// maxRemains is the maximum number of remaining files that are named.
const maxRemains = 20

// targets returns the folders and files to remove as a whole. The records are removed at the end of the leave, and the held locks after it.
func (f leavingFiles) targets() ([]string, error) {
	var targets []string
	if f.ownsImages() {
		targets = append(targets, desired.ContainerdRoot, desired.ContainerdState)
	}
	if f.isManaged {
		targets = append(targets, desired.KubeletData, desired.CNIData, desired.Collections)
		for _, file := range f.former.wanted.Files {
			info, err := f.Disk.Stat(file.Path)
			if err == nil && !info.IsDir() && !strings.HasPrefix(file.Path, desired.Root+`\`) {
				targets = append(targets, file.Path)
			}
		}
	}
	stay := []string{desired.State, state.RecordFile, state.RecordCopy, state.CommandLock, state.ServicesLock}
	for _, folder := range []string{desired.Root, desired.State} {
		names, err := f.Disk.List(folder)
		if err != nil {
			return nil, fmt.Errorf("listing %s: %w", folder, err)
		}
		for _, name := range names {
			if name = folder + `\` + name; !slices.Contains(stay, name) && !state.IsJournal(name) {
				targets = append(targets, name)
			}
		}
	}
	return targets, nil
}

// removedWhenEmpty returns folders outside C:\k that are created along with their contents, and that are removed when empty: the kubelet's
// default plugin folders, and the parents of the operator's folders.
func removedWhenEmpty() []string {
	return []string{
		desired.ContainerdData,
		`C:\usr\libexec\kubernetes\kubelet-plugins\volume\exec`, `C:\usr\libexec\kubernetes\kubelet-plugins\volume`,
		`C:\usr\libexec\kubernetes\kubelet-plugins`, `C:\usr\libexec\kubernetes`, `C:\usr\libexec`, `C:\usr`,
	}
}

// removeEmpty removes empty folders that were created for the node. Those of logs stay.
func (f leavingFiles) removeEmpty() {
	all := removedWhenEmpty()
	for _, folder := range append(slices.Clone(f.former.wanted.Directories), desired.KubeletData, desired.CNIData) {
		for ; strings.Count(folder, `\`) > 1; folder = hostapi.Parent(folder) { // C:\var stays
			if !strings.HasPrefix(folder+`\`, desired.Root+`\`) && !strings.HasPrefix(folder+`\`, desired.Logs+`\`) {
				all = append(all, folder)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b string) int { return strings.Count(b, `\`) - strings.Count(a, `\`) })
	for _, folder := range all {
		if names, err := f.Disk.List(folder); err == nil && len(names) == 0 && f.Disk.Exists(folder) {
			if f.Disk.Remove(folder) == nil {
				f.recordChange("%s removed", folder)
			}
		}
	}
}

// removePrograms removes the programs that the operator transferred to the home folder of its user, except for the running one. Scheduling that one
// for removal at the next start would not help: the host may join again before then, and Windows would report a pending restart.
//
// Until a user's first login has created a profile, OpenSSH uses the Windows folder as the user's home, so programs may be there, too.
func (f leavingFiles) removePrograms() error {
	own := f.program[strings.LastIndexByte(f.program, '\\')+1:]
	if f.program == "" || !transferredName.MatchString(own) {
		return nil
	}
	folder := hostapi.Parent(f.program)
	if err := f.removeProgramsIn(folder); err != nil {
		return err
	}
	if strings.EqualFold(folder, windowsFolder) {
		return nil
	}
	return f.removeProgramsIn(windowsFolder)
}

// windowsFolder is the Windows folder. Hosts with another one cannot join.
const windowsFolder = `C:\Windows`

// transferredName matches the names of programs that the operator transfers, and of what remains of incomplete transfers.
var transferredName = regexp.MustCompile(`^wicd-[0-9a-f]{16}(-setup)?\.exe(\..*part)?$`)

func (f leavingFiles) removeProgramsIn(folder string) error {
	names, err := f.Disk.List(folder)
	if err != nil {
		return fmt.Errorf("listing %s: %w", folder, err)
	}
	for _, name := range names {
		path := folder + `\` + name
		switch {
		case wicdapi.IsInput(name):
			if err := f.Disk.RemoveAll(path); err != nil {
				f.remains.note("%s: %v", path, err)
			}
		case !transferredName.MatchString(name):
		case strings.EqualFold(path, f.program):
			f.remains.note("%s: the running program cannot delete itself; delete it, or leave it for the next join", path)
		default:
			if err := f.Disk.Remove(path); err != nil {
				f.remains.note("%s: %v", path, err)
				continue
			}
			f.recordChange("%s removed", path)
		}
	}
	return nil
}
