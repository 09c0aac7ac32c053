package configure

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/windows-machine-config/wmco/internal/backoff"
	"github.com/windows-machine-config/wmco/internal/daemon/state"
	"github.com/windows-machine-config/wmco/internal/desired"
	"github.com/windows-machine-config/wmco/internal/host"
)

// snapshots holds the layers of images and containers: the folder of containerd's snapshotter for Windows.
const snapshots = desired.ContainerdRoot + `\io.containerd.snapshotter.v1.windows\snapshots`

// removeNetworks removes the networks of pods that nobody took off when their containers ended. Those of others are not
// remembered there.
func (d *decommissioner) removeNetworks(ctx context.Context) error {
	names, err := d.Disk.List(desired.CNIResults)
	if err != nil {
		return fmt.Errorf("listing %s: %w", desired.CNIResults, err)
	}
	for _, name := range names {
		var result struct {
			Namespace string `json:"netns"`
		}
		b, err := d.Disk.Read(desired.CNIResults + `\` + name)
		if err != nil || json.Unmarshal(b, &result) != nil || result.Namespace == "" {
			continue // nothing that could be found by it
		}
		removed, err := d.Containers.RemoveNamespace(ctx, result.Namespace)
		if err != nil {
			d.noteRemaining("network %s of a pod: %v", result.Namespace, err)
		}
		if removed {
			d.recordChange("network %s of a pod removed", result.Namespace)
		}
	}
	return ctx.Err()
}

// removeLayers removes the layers of images and containers. Those that cannot be removed are met again among the files.
func (d *decommissioner) removeLayers(ctx context.Context) error {
	if !d.isOurs {
		return nil
	}
	names, err := d.Disk.List(snapshots)
	if err != nil {
		return fmt.Errorf("listing %s: %w", snapshots, err)
	}
	count := 0
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return err
		}
		if d.Containers.RemoveLayer(ctx, snapshots+`\`+name) == nil {
			count++
		}
	}
	if count > 0 {
		d.recordChange("%d layers of images and containers removed", count)
	}
	return nil
}

// What is in use may be so for a moment only: by a virus scanner, or a process that is about to end.
const (
	removalAttempts = 5
	removalPause    = time.Second
)

// removeFiles removes folders and files that are ours. What cannot be removed keeps nothing else from it.
func (d *decommissioner) removeFiles(ctx context.Context) error {
	targets, err := d.targets()
	if err != nil {
		return err
	}
	there := slices.DeleteFunc(targets, func(name string) bool { return !d.Disk.Exists(name) })
	var failures []error
	for attempt := 1; ; attempt++ {
		failures = nil
		for _, name := range there {
			failures = append(failures, d.Disk.RemoveTree(ctx, name)...)
		}
		if len(failures) == 0 || attempt == removalAttempts {
			break
		}
		if err := backoff.Sleep(ctx, removalPause); err != nil {
			return err
		}
	}
	for _, name := range there {
		if !d.Disk.Exists(name) {
			d.recordChange("%s removed", name)
		}
	}
	for _, err := range failures[:min(len(failures), maxRemains)] {
		d.noteRemaining("%v", err)
	}
	if more := len(failures) - maxRemains; more > 0 {
		d.noteRemaining("%d more files", more)
	}
	d.removeEmpty()
	return d.removePrograms()
}

// maxRemains is how many files are named that stay.
const maxRemains = 20

// targets are the folders and files that go whole. The records go last, at the end of the leave, and the locks that we hold
// after it.
func (d *decommissioner) targets() ([]string, error) {
	var targets []string
	if d.isOurs {
		targets = append(targets, desired.ContainerdRoot, desired.ContainerdState, desired.KubeletData, desired.CNIData)
		for _, f := range d.formerWanted.Files {
			info, err := d.Disk.Stat(f.Path)
			if err == nil && !info.IsDir() && !strings.HasPrefix(f.Path, desired.Root+`\`) {
				targets = append(targets, f.Path)
			}
		}
	}
	stay := []string{desired.State, state.RecordFile, state.RecordCopy, state.CommandLock, state.ServicesLock}
	for _, folder := range []string{desired.Root, desired.State} {
		names, err := d.Disk.List(folder)
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
func (d *decommissioner) removeEmpty() {
	folders := emptied()
	for _, folder := range append(slices.Clone(d.formerWanted.Directories), desired.KubeletData, desired.CNIData) {
		for ; strings.Count(folder, `\`) > 1; folder = host.Parent(folder) { // C:\var stays
			if !strings.HasPrefix(folder+`\`, desired.Root+`\`) && !strings.HasPrefix(folder+`\`, desired.Logs+`\`) {
				folders = append(folders, folder)
			}
		}
	}
	slices.SortStableFunc(folders, func(a, b string) int { return strings.Count(b, `\`) - strings.Count(a, `\`) })
	for _, folder := range folders {
		if names, err := d.Disk.List(folder); err == nil && len(names) == 0 && d.Disk.Exists(folder) {
			if d.Disk.Remove(folder) == nil {
				d.recordChange("%s removed", folder)
			}
		}
	}
}

// removePrograms removes the programs that the operator brought into the folder of the user whom it logs in as, but for the one
// that runs. To have Windows remove that one at its next start would be no help: the host may be joined again until then, and
// Windows would count as waiting for a restart.
func (d *decommissioner) removePrograms() error {
	brought := regexp.MustCompile(`^wicd-[0-9a-f]{16}(-setup)?\.exe(\..*part)?$`)
	own := d.program[strings.LastIndexByte(d.program, '\\')+1:]
	if d.program == "" || !brought.MatchString(own) {
		return nil
	}
	names, err := d.Disk.List(host.Parent(d.program))
	if err != nil {
		return fmt.Errorf("listing %s: %w", host.Parent(d.program), err)
	}
	for _, name := range names {
		path := host.Parent(d.program) + `\` + name
		switch {
		case !brought.MatchString(name):
		case strings.EqualFold(name, own):
			d.noteRemaining("%s: it is the program that runs; delete it, or leave it for the next time", path)
		default:
			if err := d.Disk.Remove(path); err != nil {
				d.noteRemaining("%s: %v", path, err)
				continue
			}
			d.recordChange("%s removed", path)
		}
	}
	return nil
}
