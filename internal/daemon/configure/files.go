package configure

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/windows-machine-config/wmco/internal/agent"
	"github.com/windows-machine-config/wmco/internal/daemon/credentials"
	"github.com/windows-machine-config/wmco/internal/daemon/state"
	"github.com/windows-machine-config/wmco/internal/daemon/store"
	"github.com/windows-machine-config/wmco/internal/desired"
	"github.com/windows-machine-config/wmco/internal/host"
)

// versionList is the file in a version's folder that lists the contents it consists of.
const versionList = "files.json"

// keptVersions is how many folders of versions stay: that of now and the one before it, to go back to.
const keptVersions = 2

// linkPrograms gives the contents of the store their names: in the version's folder, where services run them, and
// below C:\k, where people look for them. A hard link costs no space and cannot be half done.
func (c *configurator) linkPrograms(context.Context) error {
	if err := c.checkContents(); err != nil {
		return err
	}
	folder := desired.VersionFolder(c.request.Desired.Digest)
	for _, f := range c.request.Desired.Payload {
		for _, name := range []string{folder + `\` + f.Path, desired.Root + `\` + f.Path} {
			if err := c.link(f, name); err != nil {
				return err
			}
		}
	}
	list, err := json.Marshal(c.request.Desired.Payload)
	if err != nil {
		return err
	}
	_, err = c.Disk.WriteFile(folder+`\`+versionList, string(list))
	return err
}

// checkContents makes sure that everything is there before the first link.
func (c *configurator) checkContents() error {
	for _, f := range c.request.Desired.Payload {
		info, err := c.Disk.Stat(store.New(c.Disk).Path(f.SHA256))
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

func (c *configurator) link(f desired.PayloadFile, name string) error {
	if _, err := c.Disk.MakeFolder(host.Parent(name)); err != nil {
		return fmt.Errorf("making %s: %w", host.Parent(name), err)
	}
	existed := c.Disk.Exists(name)
	changed, err := c.Disk.Link(store.New(c.Disk).Path(f.SHA256), name)
	if err != nil {
		return fmt.Errorf("linking %s: %w", name, err)
	}
	if changed {
		c.recordChange("%s is content %.12s", name, f.SHA256)
	}
	if changed && existed {
		c.restartUsersOf(name)
	}
	return nil
}

// restartUsersOf marks the services whose command line names a file that changed.
func (c *configurator) restartUsersOf(name string) {
	for _, s := range c.wanted.Services {
		if strings.Contains(strings.ToLower(s.Command), strings.ToLower(name)) {
			c.restart[s.Name] = name + " changed"
		}
	}
}

// leaveFormerCluster removes what ties the host to another cluster, or to another name in this one. An address of
// the API server that changed is learned by the kubelet only from the bootstrap kubeconfig.
func (c *configurator) leaveFormerCluster(ctx context.Context) error {
	if c.former.Cluster == "" || c.former.Cluster == c.request.Cluster && c.former.Node == c.request.Node {
		return c.checkKubeconfig()
	}
	for _, s := range slices.Backward(c.former.Desired.Services) {
		if err := c.Services.Stop(ctx, s.Name); err != nil {
			return fmt.Errorf("stopping %s: %w", s.Name, err)
		}
	}
	traces := []string{desired.KubeletKubeconfig, desired.BootstrapKubeconfig}
	for _, folder := range []string{desired.KubeletCertificates, desired.WICDCertificates} {
		names, err := c.Disk.List(folder)
		if err != nil {
			return err
		}
		for _, name := range names {
			traces = append(traces, folder+`\`+name)
		}
	}
	if cni := c.former.Desired.CNI; cni != nil {
		traces = append(traces, cni.Path)
	}
	if network := c.former.Desired.Network; network != nil {
		for _, f := range network.Files {
			traces = append(traces, f.Path)
		}
	}
	for _, name := range traces {
		if err := c.Disk.RemoveAll(name); err != nil {
			return fmt.Errorf("removing %s: %w", name, err)
		}
	}
	c.recordChange("left cluster %s, where the host was node %s", c.former.Cluster, c.former.Node)
	return nil
}

func (c *configurator) checkKubeconfig() error {
	right, err := credentials.SpeaksTo(c.Disk, c.request.Bootstrap)
	if err != nil || right {
		return err
	}
	if err := c.Disk.Remove(desired.KubeletKubeconfig); err != nil {
		return fmt.Errorf("removing %s: %w", desired.KubeletKubeconfig, err)
	}
	c.recordChange("%s removed: it leads to another API server", desired.KubeletKubeconfig)
	c.restartUsersOf(desired.KubeletKubeconfig)
	return nil
}

// writeFiles writes the declared files, and removes those that the join before this one declared.
func (c *configurator) writeFiles(context.Context) error {
	declared := map[string]bool{}
	for _, f := range c.wanted.Files {
		declared[f.Path] = true
		changed, err := c.write(f)
		if err != nil {
			return fmt.Errorf("writing %s: %w", f.Path, err)
		}
		if changed {
			c.recordChange("%s written", f.Path)
			c.restartUsersOf(f.Path)
		}
	}
	for _, f := range c.formerWanted.Files {
		if declared[f.Path] || !c.Disk.Exists(f.Path) {
			continue
		}
		if err := c.Disk.Remove(f.Path); err != nil {
			return fmt.Errorf("removing %s: %w", f.Path, err)
		}
		c.recordChange("%s removed", f.Path)
	}
	return nil
}

func (c *configurator) write(f desired.File) (changed bool, err error) {
	if f.Secret {
		return c.Disk.WriteSecret(f.Path, f.Content, c.MakePrivate)
	}
	return c.Disk.WriteFile(f.Path, f.Content)
}

// writeBootstrap hands the token over, if the host still needs it. Who waits with an older token is started anew later.
func (c *configurator) writeBootstrap(context.Context) error {
	kubelet := credentials.KubeletHasCertificate(c.Disk, c.request.Node, time.Now())
	_, err := credentials.ReadIdentity(c.Disk, c.request.Node, time.Now())
	if kubelet && err == nil {
		return c.Disk.Remove(desired.BootstrapKubeconfig + host.TemporarySuffix) // a join that was cut may have left it
	}
	if c.request.Bootstrap.Token == "" {
		return &agent.Error{Code: agent.CodeRequestInvalid, Message: "bootstrap.token is empty, and the host has no certificates yet"}
	}
	content, err := credentials.BootstrapKubeconfig(c.request.Bootstrap)
	if err != nil {
		return err
	}
	changed, err := c.Disk.WriteFile(desired.BootstrapKubeconfig, content)
	if err != nil {
		return fmt.Errorf("writing %s: %w", desired.BootstrapKubeconfig, err)
	}
	if changed {
		c.recordChange("%s written", desired.BootstrapKubeconfig)
	}
	return nil
}

// remember writes what was asked for, so that the service on the host, and the next join, know it.
func (c *configurator) remember(context.Context) error {
	request := c.request
	request.Bootstrap.Token = ""
	asked := state.Record{JoinRequest: request, Complete: true}
	if state.Equal(asked, c.former) {
		return nil
	}
	asked.Complete, asked.Pulled = false, c.pulls
	_, err := asked.Write(c.Disk)
	return err
}

// complete marks the request as fulfilled.
func (c *configurator) complete(context.Context) error {
	changed, err := state.Record{JoinRequest: c.request, Complete: true}.Write(c.Disk)
	if changed {
		c.recordChange("joined as node %s, version %s", c.request.Node, c.request.Desired.Version)
	}
	return err
}

// removeOldVersions removes the folders of versions that no service runs from, beyond those kept, and the contents
// that no folder consists of. What is still in use is left for the next join.
func (c *configurator) removeOldVersions(ctx context.Context) error {
	kept, surplus, err := c.sortVersions(ctx)
	if err != nil || len(surplus) == 0 {
		return err
	}
	for _, folder := range surplus {
		if c.Disk.RemoveAll(desired.Versions+`\`+folder) == nil { // otherwise a program in it still runs
			c.recordChange(`%s\%s removed`, desired.Versions, folder)
		}
	}
	return c.removeUnused(kept)
}

// sortVersions tells the folders of versions that stay from the others: the current one stays, those that services
// run from, and the newest of the rest until there are keptVersions.
func (c *configurator) sortVersions(ctx context.Context) (kept, surplus []string, err error) {
	folders, err := c.Disk.List(desired.Versions)
	if err != nil {
		return nil, nil, err
	}
	services, err := c.Services.List(ctx, desired.Services())
	if err != nil {
		return nil, nil, fmt.Errorf("listing services: %w", err)
	}
	made := map[string]time.Time{}
	for _, folder := range folders {
		path := strings.ToLower(desired.Versions + `\` + folder + `\`)
		inUse := slices.ContainsFunc(services, func(s host.Service) bool { return strings.Contains(strings.ToLower(s.Command), path) })
		if inUse || folder == desired.ShortDigest(c.request.Desired.Digest) {
			kept = append(kept, folder)
			continue
		}
		surplus = append(surplus, folder)
		if info, err := c.Disk.Stat(desired.Versions + `\` + folder + `\` + versionList); err == nil {
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
func (c *configurator) removeUnused(folders []string) error {
	used := map[string]bool{}
	for _, folder := range folders {
		var list []desired.PayloadFile
		b, err := c.Disk.Read(desired.Versions + `\` + folder + `\` + versionList)
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
	names, err := c.Disk.List(desired.Store)
	if err != nil {
		return err
	}
	for _, name := range names {
		if !used[name] {
			_ = c.Disk.Remove(store.New(c.Disk).Path(name)) // in use: the next join tries again
		}
	}
	return nil
}
