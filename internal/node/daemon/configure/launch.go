package configure

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/daemon/credentials"
	"github.com/windows-machine-config/wmco/internal/node/daemon/state"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

// launchesFile records what each service read when a join last started it. If a join is interrupted between writing a file and restarting its
// reader, the next join finds the file unchanged but still restarts the service.
const launchesFile = desired.State + `\launches.json`

// launch is what a service reads when it starts.
type launch struct {
	// Files is a hash of the files that the service's command line names.
	Files string `json:"files"`
	// Bootstrap is a hash of the bootstrap kubeconfig; empty when the service does not need it, or no longer.
	Bootstrap string `json:"bootstrap,omitempty"`
}

// launches determines which services must restart, and records the files that they read.
type launches struct {
	disk     hostapi.Disk
	restarts restarts
	// node is the name of the node, and mayRead the files that services may read.
	node    string
	mayRead []desired.File
}

// read returns what services would read if they started now, and marks for restart the services that read something else when they last started.
// outdated lists the key files of certificate requests that were made with a former bootstrap token.
func (l launches) read(all []desired.Service) (now map[string]launch, outdated []string, err error) {
	before := map[string]launch{}
	if _, err := state.ReadJSON(l.disk, launchesFile, &before); err != nil { // if its content is invalid, all services restart
		return nil, nil, err
	}
	now = map[string]launch{}
	maps.Copy(now, before) // all lacks WICD's own service when WICD calls this
	for _, s := range all {
		current, pending, err := l.launchOf(s)
		if err != nil {
			return nil, nil, err
		}
		previous := before[s.Name]
		if current.Files != previous.Files {
			l.restarts.mark(s.Name, "a file it reads changed")
		}
		if current.Bootstrap != "" && current.Bootstrap != previous.Bootstrap {
			l.restarts.mark(s.Name, "it needs the new bootstrap token")
			outdated = append(outdated, pending)
		}
		now[s.Name] = current
	}
	return now, outdated, nil
}

// launchOf returns what a service reads. pending is the key file of the certificate request that it makes with the token.
func (l launches) launchOf(s desired.Service) (current launch, pending string, err error) {
	hash := sha256.New()
	for _, f := range l.mayRead {
		if strings.Contains(s.Command, f.Path) {
			fmt.Fprintf(hash, "%s %d %s", f.Path, len(f.Content), f.Content)
		}
	}
	current.Files = hex.EncodeToString(hash.Sum(nil))
	pending, needed := l.bootstraps(s)
	if !needed {
		return current, "", nil
	}
	b, err := l.disk.Read(desired.BootstrapKubeconfig)
	if state.IgnoreAbsent(err) != nil {
		return launch{}, "", err
	}
	sum := sha256.Sum256(b)
	current.Bootstrap = hex.EncodeToString(sum[:])
	return current, pending, nil
}

// bootstraps reports whether a service still needs the bootstrap token to get its first certificate.
func (l launches) bootstraps(s desired.Service) (pending string, needed bool) {
	switch {
	case s.Name == api.WICDService:
		_, err := credentials.ReadIdentity(l.disk, l.node, time.Now())
		return credentials.PendingFile, err != nil
	case strings.Contains(s.Command, desired.BootstrapKubeconfig):
		return credentials.KubeletPendingFile, !credentials.KubeletHasCertificate(l.disk, l.node, time.Now())
	}
	return "", false
}

// drop removes the keys of requests that were made with an earlier token. Such a request is never approved, and a service that finds its key would
// wait for it forever. The services that use the files are stopped.
func (l launches) drop(outdated []string) error {
	for _, name := range outdated {
		if err := l.disk.Remove(name); err != nil {
			return fmt.Errorf("removing %s: %w", name, err)
		}
	}
	return nil
}

// prepare does the part of writing launchesFile that needs disk space, so that a full disk causes a failure before services are stopped.
func (l launches) prepare(all map[string]launch) (commit func() error, err error) {
	b, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return nil, err
	}
	if commit, err = l.disk.Prepare(launchesFile, string(b)+"\n"); err != nil {
		return nil, fmt.Errorf("writing %s: %w", launchesFile, err)
	}
	return commit, nil
}
