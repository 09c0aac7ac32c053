package acceptance

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/backoff"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/hns"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

const (
	// keysFile contains the administrators' SSH keys if the OpenSSH server is installed.
	sshFolder = `C:\ProgramData\ssh`
	keysFile  = sshFolder + `\administrators_authorized_keys`
	// keysFolder has one of two files: a copy of the former keysFile, or a mark that there was none.
	keysFolder = Root + `\keys`
	formerKeys = keysFolder + `\former`
	noKeys     = keysFolder + `\absent`
)

// remnants lists the parts of a node on a machine.
type remnants []remnant

// remnant is one part. Product is set if only this product creates objects with this name or path. Other programs may change all others at any time.
type remnant struct {
	What    string `json:"what"`
	Product bool   `json:"ours,omitempty"`
}

// findRemnants lists the remnants. WICD's journal and logs stay by design and are not listed.
func (j *joining) findRemnants(ctx context.Context) (remnants, error) {
	var all remnants
	add := func(isProduct bool, kind, name string) { all = append(all, remnant{kind + " " + name, isProduct}) }
	services, err := j.Host.Services.List(ctx, desired.Services())
	for _, s := range services {
		add(true, "service", s.Name)
	}
	networks, networkErr := j.Host.Networks.List(ctx)
	var productNetworks []string
	for _, n := range networks.Networks {
		if isProductNetwork(n.Name) {
			productNetworks = append(productNetworks, n.ID)
		}
		add(isProductNetwork(n.Name), "network", n.Name)
	}
	for _, e := range networks.Endpoints {
		add(slices.Contains(productNetworks, e.Network), "endpoint", e.Name)
	}
	for _, b := range networks.LoadBalancers {
		add(slices.ContainsFunc(networks.Endpoints, func(e hns.Endpoint) bool {
			return slices.Contains(b.Endpoints, e.ID) && slices.Contains(productNetworks, e.Network)
		}), "load balancer", b.ID)
	}
	roots, rootsErr := j.Host.Certificates.List(ctx)
	for _, r := range roots {
		add(false, "root certificate", r) // a join without its own certificates adds none
	}
	for _, folder := range []string{desired.ContainerdData, desired.KubeletData, desired.CNIData} {
		if j.Host.Disk.Exists(folder) {
			add(true, "folder", folder)
		}
	}
	names, listErr := j.Host.Disk.List(desired.Root)
	for _, name := range names {
		if path := desired.Root + `\` + name; path != desired.State {
			add(true, "file", path)
		}
	}
	exclusions, exclusionsErr := j.Host.Defender.Exclusions(ctx)
	if exclusionsErr == nil { // otherwise there are no exclusions, or they cannot be read
		for _, path := range exclusions.Paths {
			add(isProductPath(path), "Defender exclusion", path)
		}
	}
	return all, errors.Join(err, networkErr, rootsErr, listErr)
}

// isProductNetwork reports whether a network is one that the overlay or Flannel creates.
func isProductNetwork(name string) bool {
	return strings.HasPrefix(name, "flannel.") || strings.HasSuffix(name, "OVNKubernetesHybridOverlayNetwork")
}

// isProductPath reports whether a path is in a folder of the product.
func isProductPath(path string) bool {
	return slices.ContainsFunc([]string{desired.Root, desired.ContainerdData, desired.KubeletData, desired.CNIData}, func(folder string) bool {
		return len(path) >= len(folder) && strings.EqualFold(path[:len(folder)], folder) && (len(path) == len(folder) || path[len(folder)] == '\\')
	})
}

// since returns what was added since before: parts of the product, and those that others created in the meantime.
func (now remnants) since(before remnants) (products, others []string) {
	for _, r := range now {
		switch {
		case slices.Contains(before, r):
		case r.Product:
			products = append(products, r.What)
		default:
			others = append(others, r.What)
		}
	}
	return products, others
}

// leave is a step of the join: it removes the host from the operator's list and checks that nothing remains.
func (j *joining) leave(ctx context.Context, _ *session) (string, error) {
	ended := errors.Join(j.removePod(ctx), j.removeWebPods(ctx))
	began := time.Now()
	if err := j.api.remove(ctx, ofOperator+"/configmaps/"+api.InstancesConfigMap); err != nil {
		return "", untriedErrorf("%w", err)
	}
	node, err := j.node(ctx)
	if err != nil {
		return "", err
	}
	if err := errors.Join(j.awaitDeletion(ctx, "the instance is not deleted", ofInstances+j.address),
		j.awaitDeletion(ctx, "the node is not deleted", "/api/v1/nodes/"+node.Name)); err != nil {
		return "", err
	}
	duration := time.Since(began)
	now, err := j.findRemnants(ctx)
	if err != nil {
		return "", untriedErrorf("%w", err)
	}
	left, others := now.since(j.before)
	rules, err := j.Host.Firewall.Set(ctx, nil)
	firewall := ""
	if err != nil {
		firewall = fmt.Sprintf(" (listing firewall rules: %v)", err)
	}
	for _, name := range rules {
		left = append(left, "firewall rule "+name)
	}
	if len(others) > 0 {
		firewall += "; changed by others in the meantime: " + strings.Join(others, ", ")
	}
	if len(left) > 0 {
		return "", errors.Join(ended, fmt.Errorf("the host left, but these remain: %s%s", strings.Join(left, ", "), firewall))
	}
	return fmt.Sprintf("the host left within %.0f s; only journal and logs remain%s", duration.Seconds(), firewall), ended
}

// authorize adds the operator's key to the administrators' keys. The former file is kept next to the journal.
func (s *session) authorize(ctx context.Context, key string) error {
	if _, err := s.folder(ctx, "keys"); err != nil {
		return err
	}
	disk := s.Host.Disk
	former := ""
	if disk.Exists(keysFile) {
		content, err := disk.Read(keysFile)
		if err != nil {
			return err
		}
		former = string(content)
		if _, err := disk.WriteFile(formerKeys, former); err != nil {
			return err
		}
	} else if _, err := disk.WriteFile(noKeys, ""); err != nil {
		return err
	}
	if former != "" && !strings.HasSuffix(former, "\n") {
		former += "\n"
	}
	return s.change(change{Kind: kindKeys}, func() error { return s.writeKeys(former + key + "\n") })
}

// writeKeys replaces the file of the administrators' keys. OpenSSH reads it only if no other user may write it.
func (s *session) writeKeys(content string) error {
	disk := s.Host.Disk
	return disk.Replace(keysFile, func(temporary string) error {
		f, err := disk.Create(temporary)
		if err != nil {
			return err
		}
		return disk.Fill(f, temporary, content, s.Host.MakePrivate)
	})
}

// restoreKeys restores the administrators' keys.
func (s *session) restoreKeys() error {
	disk := s.Host.Disk
	if !disk.Exists(formerKeys) {
		if !disk.Exists(noKeys) {
			return fmt.Errorf("neither %s nor %s exists: check %s yourself", formerKeys, noKeys, keysFile)
		}
		return disk.Remove(keysFile)
	}
	content, err := disk.Read(formerKeys)
	if err != nil {
		return err
	}
	return s.writeKeys(string(content))
}

const (
	// removeNodeAttempts limits the attempts to remove a node, with removeNodePause in between: a deleted service disappears when the last program with an
	// open handle to it has ended.
	removeNodeAttempts = 5
	removeNodePause    = 2 * time.Second
)

// removeNode removes a node of that cluster from this machine. The operator and the control plane end first, so that they do not join it again.
func (s *session) removeNode(ctx context.Context, cluster string) error {
	if _, err := s.Host.Containers.EndPrograms(ctx, joinFolder); err != nil {
		return err
	}
	var left error
	for range removeNodeAttempts {
		if left = s.removeNodeOnce(ctx, cluster); left == nil {
			break
		}
		if err := backoff.Sleep(ctx, removeNodePause); err != nil {
			return errors.Join(left, err)
		}
	}
	if left != nil {
		return fmt.Errorf("%w: restart Windows, and start this program with --restore", left)
	}
	above := hostapi.Parent(desired.Logs)
	if names, err := s.Host.Disk.List(above); err == nil && len(names) == 0 {
		_ = s.Host.Disk.Remove(above) // an empty folder does no harm
	}
	return s.removeCopiedPrograms()
}

// removeNodeOnce runs the node's own program to remove the node, and then deletes what that program leaves.
func (s *session) removeNodeOnce(ctx context.Context, cluster string) error {
	if s.Host.Disk.Exists(desired.State) || s.isNode(ctx) {
		var result wicdapi.LeaveResult
		command := s.Host.Disk.Local(joinFolder+`\`+strings.ReplaceAll(setupProgram, "/", `\`)) + " " + wicdapi.CommandLeave
		if err := wicdapi.Call(ctx, s.Host.Programs, command, wicdapi.LeaveRequest{Cluster: cluster}, &result, func(wicdapi.Step) {}); err != nil {
			return err
		}
		remains := slices.DeleteFunc(result.Remains, func(r string) bool { return strings.Contains(r, joinFolder+`\`) }) // removed with the folder
		if len(remains) > 0 {
			return fmt.Errorf("not removed: %s", strings.Join(remains, ", "))
		}
	}
	if _, err := s.Host.Containers.EndPrograms(ctx, desired.Root); err != nil {
		return err
	}
	for _, folder := range []string{desired.Root, desired.Logs} {
		if err := errors.Join(s.Host.Disk.RemoveTree(ctx, folder)...); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) isNode(ctx context.Context) bool {
	services, err := s.Host.Services.List(ctx, desired.Services())
	return err != nil || len(services) > 0
}

// removeCopiedPrograms removes the programs that the operator copied into the user's home folder.
func (s *session) removeCopiedPrograms() error {
	home, err := s.home()
	if err != nil {
		return err
	}
	names, err := s.Host.Disk.List(home)
	if err != nil {
		return err
	}
	copied := regexp.MustCompile(`^wicd-[0-9a-f]{16}(-setup)?\.exe(\..*part)?$`)
	var failures []error
	for _, name := range names {
		if copied.MatchString(name) {
			failures = append(failures, s.Host.Disk.Remove(home+`\`+name))
		}
	}
	return errors.Join(failures...)
}
