package configure

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/daemon/credentials"
	"github.com/windows-machine-config/wmco/internal/daemon/state"
	"github.com/windows-machine-config/wmco/internal/desired"
	"github.com/windows-machine-config/wmco/internal/host"
)

// launchesFile remembers what each service read when a join last started it. So a join that was cut between writing
// a file and restarting who reads it is made good by the next one, which finds the file as it should be.
const launchesFile = desired.State + `\launches.json`

// launch is what a service reads when it starts.
type launch struct {
	// Files is a hash of the files that its command line names.
	Files string `json:"files"`
	// Bootstrap is a hash of the bootstrap kubeconfig; empty when the service does not need it, or not any more.
	Bootstrap string `json:"bootstrap,omitempty"`
}

// launches says what the services would read if they started now, and marks those that read something else when
// they did.
func (c *configurator) launches(services []desired.Service) (map[string]launch, error) {
	before := map[string]launch{}
	if b, err := c.Disk.Read(launchesFile); err == nil {
		_ = json.Unmarshal(b, &before) // unreadable: everything starts anew
	} else if state.IgnoreAbsent(err) != nil {
		return nil, err
	}
	now := map[string]launch{}
	maps.Copy(now, before) // WICD's own is not among the services when it is WICD that asks
	for _, s := range services {
		l, pending, err := c.launchOf(s)
		if err != nil {
			return nil, err
		}
		was := before[s.Name]
		if l.Files != was.Files {
			c.restart[s.Name] = cmp.Or(c.restart[s.Name], "a file it reads changed")
		}
		if l.Bootstrap != "" && l.Bootstrap != was.Bootstrap {
			c.restart[s.Name] = cmp.Or(c.restart[s.Name], "it needs the new bootstrap token")
			c.outdated = append(c.outdated, pending)
		}
		now[s.Name] = l
	}
	return now, nil
}

// launchOf says what a service reads. pending is where it keeps the key of the request it makes with the token.
func (c *configurator) launchOf(s desired.Service) (l launch, pending string, err error) {
	hash := sha256.New()
	for _, f := range c.wanted.Files {
		if strings.Contains(s.Command, f.Path) {
			fmt.Fprintf(hash, "%s %d %s", f.Path, len(f.Content), f.Content)
		}
	}
	l.Files = hex.EncodeToString(hash.Sum(nil))
	pending, needed := c.bootstraps(s)
	if !needed {
		return l, "", nil
	}
	b, err := c.Disk.Read(desired.BootstrapKubeconfig)
	if state.IgnoreAbsent(err) != nil {
		return launch{}, "", err
	}
	sum := sha256.Sum256(b)
	l.Bootstrap = hex.EncodeToString(sum[:])
	return l, pending, nil
}

// bootstraps tells whether a service still needs the bootstrap token to get its first certificate.
func (c *configurator) bootstraps(s desired.Service) (pending string, needed bool) {
	switch {
	case s.Name == api.WICDService:
		_, err := credentials.ReadIdentity(c.Disk, c.request.Node, time.Now())
		return credentials.PendingFile, err != nil
	case strings.Contains(s.Command, desired.BootstrapKubeconfig):
		return credentials.KubeletPendingFile, !credentials.KubeletHasCertificate(c.Disk, c.request.Node, time.Now())
	}
	return "", false
}

// dropOutdated removes the keys of requests that were made with a token before this one. Such a request is never
// approved any more, and who finds its key would go on waiting for it. Those who use the files are stopped.
func (c *configurator) dropOutdated() error {
	for _, name := range c.outdated {
		if err := c.Disk.Remove(name); err != nil {
			return fmt.Errorf("removing %s: %w", name, err)
		}
	}
	return nil
}

// prepareLaunches writes the file as far as possible before services are stopped: on a full disk it fails, and they go on.
func prepareLaunches(d host.Disk, launches map[string]launch) (commit func() error, err error) {
	b, err := json.MarshalIndent(launches, "", "  ")
	if err != nil {
		return nil, err
	}
	if commit, err = d.Prepare(launchesFile, string(b)+"\n"); err != nil {
		return nil, fmt.Errorf("writing %s: %w", launchesFile, err)
	}
	return commit, nil
}
