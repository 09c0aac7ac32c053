package configure

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/windows-machine-config/wmco/internal/agent"
	"github.com/windows-machine-config/wmco/internal/daemon/state"
	"github.com/windows-machine-config/wmco/internal/daemon/store"
	"github.com/windows-machine-config/wmco/internal/desired"
	"github.com/windows-machine-config/wmco/internal/host"
)

// versionList is the file in a version's folder that lists the contents it consists of.
const versionList = "files.json"

// keptVersions is how many folders of versions stay: that of now and the one before it, to go back to.
const keptVersions = 2

// programs are those of the node, of which each version has a folder.
type programs struct {
	work
	restarts restarts
	wanted   desired.Node
}

// link gives the contents of the store their names: in the version's folder, where services run them, and
// below C:\k, where people look for them. A hard link costs no space and cannot be half done.
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

// checkContents makes sure that everything is there before the first link.
func (p programs) checkContents() error {
	for _, f := range p.wanted.Payload {
		info, err := p.Disk.Stat(store.New(p.Disk).Path(f.SHA256))
		if state.IgnoreAbsent(err) != nil {
			return err
		}
		if err != nil || info.Size() != f.Size {
			return &agent.Error{Code: agent.CodeContentMissing, Message: fmt.Sprintf(
				"%s (content %.12s, %d bytes) is not in the store; send it with %q first", f.Path, f.SHA256, f.Size, agent.CommandReceive)}
		}
	}
	return nil
}

func (p programs) linkOne(f desired.PayloadFile, name string) error {
	if _, err := p.Disk.MakeFolder(host.Parent(name)); err != nil {
		return fmt.Errorf("making %s: %w", host.Parent(name), err)
	}
	existed := p.Disk.Exists(name)
	changed, err := p.Disk.Link(store.New(p.Disk).Path(f.SHA256), name)
	if err != nil {
		return fmt.Errorf("linking %s: %w", name, err)
	}
	if changed {
		p.recordChange("%s is content %.12s", name, f.SHA256)
	}
	if changed && existed {
		p.restarts.usersOf(p.wanted.Services, name)
	}
	return nil
}

// removeOldVersions removes the folders of versions that no service runs from, beyond those kept, and the contents
// that no folder consists of. What is still in use is left for the next join.
func (p programs) removeOldVersions(ctx context.Context) error {
	kept, surplus, err := p.sortVersions(ctx)
	if err != nil || len(surplus) == 0 {
		return err
	}
	for _, folder := range surplus {
		if p.Disk.RemoveAll(desired.Versions+`\`+folder) == nil { // otherwise a program in it still runs
			p.recordChange(`%s\%s removed`, desired.Versions, folder)
		}
	}
	return p.removeUnused(kept)
}

// sortVersions tells the folders of versions that stay from the others: the current one stays, those that services
// run from, and the newest of the rest until there are keptVersions.
func (p programs) sortVersions(ctx context.Context) (kept, surplus []string, err error) {
	names, err := p.Disk.List(desired.Versions)
	if err != nil {
		return nil, nil, err
	}
	running, err := p.Services.List(ctx, desired.Services())
	if err != nil {
		return nil, nil, fmt.Errorf("listing services: %w", err)
	}
	made := map[string]time.Time{}
	for _, folder := range names {
		path := strings.ToLower(desired.Versions + `\` + folder + `\`)
		inUse := slices.ContainsFunc(running, func(s host.Service) bool { return strings.Contains(strings.ToLower(s.Command), path) })
		if inUse || folder == desired.ShortDigest(p.wanted.Digest) {
			kept = append(kept, folder)
			continue
		}
		surplus = append(surplus, folder)
		if info, err := p.Disk.Stat(desired.Versions + `\` + folder + `\` + versionList); err == nil {
			made[folder] = info.ModTime()
		}
	}
	slices.SortFunc(surplus, func(a, b string) int { return made[b].Compare(made[a]) })
	for len(kept) < keptVersions && len(surplus) > 0 {
		kept, surplus = append(kept, surplus[0]), surplus[1:]
	}
	return kept, surplus, nil
}

// removeUnused removes what is in the store and belongs to none of the versions.
func (p programs) removeUnused(folders []string) error {
	used := map[string]bool{}
	for _, folder := range folders {
		var list []desired.PayloadFile
		b, err := p.Disk.Read(desired.Versions + `\` + folder + `\` + versionList)
		if err != nil {
			return state.IgnoreAbsent(err)
		}
		if json.Unmarshal(b, &list) != nil {
			return nil // what the version consists of is not known: nothing goes
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
