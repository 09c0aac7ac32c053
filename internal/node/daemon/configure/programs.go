package configure

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/daemon/state"
	"github.com/windows-machine-config/wmco/internal/node/daemon/store"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

// versionList is the file in a version's folder that lists the contents of the version.
const versionList = "files.json"

// keptVersions is how many version folders stay: the current one and the previous one, for a rollback.
const keptVersions = 2

// programs manages the node's programs. Each version has its own folder.
type programs struct {
	work
	restarts restarts
	wanted   desired.Node
}

// link links the contents of the store: into the version's folder, from which services run them, and below C:\k, where users expect them. A hard
// link takes no space and is atomic.
func (p programs) link(context.Context) error {
	if err := p.checkContents(); err != nil {
		return err
	}
	folder := desired.VersionFolder(p.wanted.Digest)
	for _, f := range p.wanted.Payload {
		for _, name := range []string{folder + `\` + f.Path, desired.Root + `\` + f.Path} {
			if err := p.linkOne(f, name); err != nil {
				return err
			}
		}
	}
	list, err := json.Marshal(p.wanted.Payload)
	if err != nil {
		return err
	}
	_, err = p.Disk.WriteFile(folder+`\`+versionList, string(list))
	return err
}

// checkContents verifies that all contents are present before the first link.
func (p programs) checkContents() error {
	for _, f := range p.wanted.Payload {
		info, err := p.Disk.Stat(store.New(p.Disk).Path(f.SHA256))
		if state.IgnoreAbsent(err) != nil {
			return err
		}
		if err != nil || info.Size() != f.Size {
			return &wicdapi.Error{Code: wicdapi.CodeContentMissing, Message: fmt.Sprintf(
				"%s (content %.12s, %d bytes) is not in the store; send it with %q first", f.Path, f.SHA256, f.Size, wicdapi.CommandReceive)}
		}
	}
	return nil
}

func (p programs) linkOne(f desired.PayloadFile, name string) error {
	if _, err := p.Disk.MakeFolder(hostapi.Parent(name)); err != nil {
		return fmt.Errorf("creating %s: %w", hostapi.Parent(name), err)
	}
	existed := p.Disk.Exists(name)
	changed, err := p.Disk.Link(store.New(p.Disk).Path(f.SHA256), name)
	if err != nil {
		return fmt.Errorf("linking %s: %w", name, err)
	}
	if changed {
		p.recordChange("%s linked to content %.12s", name, f.SHA256)
	}
	if changed && existed {
		p.restarts.usersOf(p.wanted.Services, name)
	}
	return nil
}

// removeOldVersions removes the version folders that no service runs from, beyond those kept, and the contents that no remaining folder uses. Files
// still in use are left to the next join.
func (p programs) removeOldVersions(ctx context.Context) error {
	kept, surplus, err := p.sortVersions(ctx)
	if err != nil || len(surplus) == 0 {
		return err
	}
	for _, folder := range surplus {
		if p.Disk.RemoveAll(desired.Versions+`\`+folder) == nil { // fails while a program in it runs
			p.recordChange(`%s\%s removed`, desired.Versions, folder)
		}
	}
	return p.removeUnused(kept)
}

// sortVersions divides the version folders. It keeps the current one, those that services run from, and the newest of the rest up to keptVersions.
func (p programs) sortVersions(ctx context.Context) (kept, surplus []string, err error) {
	names, err := p.Disk.List(desired.Versions)
	if err != nil {
		return nil, nil, err
	}
	running, err := p.Services.List(ctx, desired.Services())
	if err != nil {
		return nil, nil, fmt.Errorf("listing services: %w", err)
	}
	created := map[string]time.Time{}
	for _, folder := range names {
		path := strings.ToLower(desired.Versions + `\` + folder + `\`)
		inUse := slices.ContainsFunc(running, func(s hostapi.Service) bool { return strings.Contains(strings.ToLower(s.Command), path) })
		if inUse || folder == desired.ShortDigest(p.wanted.Digest) {
			kept = append(kept, folder)
			continue
		}
		surplus = append(surplus, folder)
		if info, err := p.Disk.Stat(desired.Versions + `\` + folder + `\` + versionList); err == nil {
			created[folder] = info.ModTime()
		}
	}
	slices.SortFunc(surplus, func(a, b string) int { return created[b].Compare(created[a]) })
	for len(kept) < keptVersions && len(surplus) > 0 {
		kept, surplus = append(kept, surplus[0]), surplus[1:]
	}
	return kept, surplus, nil
}

// removeUnused removes contents of the store that belong to none of the versions.
func (p programs) removeUnused(folders []string) error {
	used := map[string]bool{}
	for _, folder := range folders {
		var list []desired.PayloadFile
		b, err := p.Disk.Read(desired.Versions + `\` + folder + `\` + versionList)
		if err != nil {
			return state.IgnoreAbsent(err)
		}
		if json.Unmarshal(b, &list) != nil {
			return nil // the version's contents are unknown: remove nothing
		}
		for _, f := range list {
			used[f.SHA256] = true
		}
	}
	names, err := p.Disk.List(desired.Store)
	if err != nil {
		return err
	}
	for _, name := range names {
		if !used[name] {
			_ = p.Disk.RemoveUnused(store.New(p.Disk).Path(name)) // in use: the next join tries again
		}
	}
	return nil
}
