package configure

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/windows-machine-config/wmco/internal/agent"
	"github.com/windows-machine-config/wmco/internal/backoff"
	"github.com/windows-machine-config/wmco/internal/daemon/state"
	"github.com/windows-machine-config/wmco/internal/desired"
	"github.com/windows-machine-config/wmco/internal/host"
)

// What is in use may be so for a moment only: by a virus scanner, or a process that is about to end.
const (
	removalAttempts = 5
	removalPause    = time.Second
)

// leavingFiles are the folders and files that a host which leaves has of ours.
type leavingFiles struct{ *leaving }

// remove removes folders and files that are ours. What cannot be removed keeps nothing else from it.
func (f leavingFiles) remove(ctx context.Context) error {
	targets, err := f.targets()
	if err != nil {
		return err
	}
	there := slices.DeleteFunc(targets, func(name string) bool { return !f.Disk.Exists(name) })
	var failures []error
	for attempt := 1; ; attempt++ {
		failures = nil
		for _, name := range there {
			failures = append(failures, f.Disk.RemoveTree(ctx, name)...)
		}
		if len(failures) == 0 || attempt == removalAttempts {
			break
		}
		if err := backoff.Sleep(ctx, removalPause); err != nil {
			return err
		}
	}
	for _, name := range there {
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

// maxRemains is how many files are named that stay.
const maxRemains = 20

// targets are the folders and files that go whole. The records go last, at the end of the leave, and the locks that we hold
// after it.
func (f leavingFiles) targets() ([]string, error) {
	var targets []string
	if f.isOurs {
		targets = append(targets, desired.ContainerdRoot, desired.ContainerdState, desired.KubeletData, desired.CNIData, desired.Collections)
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

// emptied are folders outside C:\k that are made with what is in them: those that a kubelet makes for plugins where nothing else is
// declared, and those above what is ours. They go when nothing is in them.
func emptied() []string {
	return []string{
		desired.ContainerdData,
		`C:\usr\libexec\kubernetes\kubelet-plugins\volume\exec`, `C:\usr\libexec\kubernetes\kubelet-plugins\volume`,
		`C:\usr\libexec\kubernetes\kubelet-plugins`, `C:\usr\libexec\kubernetes`, `C:\usr\libexec`, `C:\usr`,
	}
}

// removeEmpty removes folders that were made for the node, where nothing is in them. Those of logs stay.
func (f leavingFiles) removeEmpty() {
	all := emptied()
	for _, folder := range append(slices.Clone(f.former.wanted.Directories), desired.KubeletData, desired.CNIData) {
		for ; strings.Count(folder, `\`) > 1; folder = host.Parent(folder) { // C:\var stays
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

// removePrograms removes the programs that the operator brought into the folder of the user whom it logs in as, but for the one
// that runs. To have Windows remove that one at its next start would be no help: the host may be joined again until then, and
// Windows would count as waiting for a restart.
//
// Before the first login of a user has made a profile, OpenSSH takes the folder of Windows for the user's home: there, too, programs may lie.
func (f leavingFiles) removePrograms() error {
	own := f.program[strings.LastIndexByte(f.program, '\\')+1:]
	if f.program == "" || !broughtName().MatchString(own) {
		return nil
	}
	beside := host.Parent(f.program)
	if err := f.removeProgramsIn(beside); err != nil {
		return err
	}
	if strings.EqualFold(beside, windowsFolder) {
		return nil
	}
	return f.removeProgramsIn(windowsFolder)
}

// windowsFolder is where Windows is. Hosts that have it elsewhere do not join.
const windowsFolder = `C:\Windows`

// broughtName is the form of names of programs that the operator brings, and of what is left of such.
func broughtName() *regexp.Regexp {
	return regexp.MustCompile(`^wicd-[0-9a-f]{16}(-setup)?\.exe(\..*part)?$`)
}

func (f leavingFiles) removeProgramsIn(folder string) error {
	names, err := f.Disk.List(folder)
	if err != nil {
		return fmt.Errorf("listing %s: %w", folder, err)
	}
	for _, name := range names {
		path := folder + `\` + name
		switch {
		case agent.IsInput(name):
			if err := f.Disk.RemoveAll(path); err != nil {
				f.remains.note("%s: %v", path, err)
			}
		case !broughtName().MatchString(name):
		case strings.EqualFold(path, f.program):
			f.remains.note("%s: it is the program that runs; delete it, or leave it for the next time", path)
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
