package podnetwork

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/backoff"
	"github.com/windows-machine-config/wmco/internal/daemon/nodestatus"
	"github.com/windows-machine-config/wmco/internal/daemon/state"
	"github.com/windows-machine-config/wmco/internal/desired"
	"github.com/windows-machine-config/wmco/internal/hns"
	"github.com/windows-machine-config/wmco/internal/nodestate"
)

// UsersNetwork tells what a network of the user's lacks, and configures kube-proxy for it where WICD runs one. It changes nothing of the
// network itself.
type UsersNetwork struct {
	state.Session
	wake     state.Signal
	services Restarter

	mu sync.Mutex
	// known says that the network was looked at.
	known bool
	// lacks is what the Node is told of; without a Reason, nothing.
	lacks nodestatus.Problem
}

// NewUsersNetwork makes one, which sends wake when there is something to tell.
func NewUsersNetwork(s state.Session, wake state.Signal, services Restarter) *UsersNetwork {
	return &UsersNetwork{Session: s, wake: wake, services: services}
}

// Run looks at the network until ctx is done.
func (u *UsersNetwork) Run(ctx context.Context) {
	if u.Wanted.UserNetwork == nil {
		return
	}
	pauses := backoff.Between(loadedSoon, loadedEvery)
	for ctx.Err() == nil {
		reason, message := u.look(ctx)
		u.set(reason, message)
		wait := pauses.Next()
		if reason != "" && wait > networkEvery {
			wait = networkEvery
		}
		_ = backoff.Sleep(ctx, wait)
	}
}

// look is one look at the folder and the network; it configures kube-proxy where all is there.
func (u *UsersNetwork) look(ctx context.Context) (reason, message string) {
	n := *u.Wanted.UserNetwork
	if n.ConfigDir != "" {
		if name, err := firstCNIFile(u.Session, n.ConfigDir); name == "" || err != nil {
			return api.ReasonNetworkConfigurationMissing, missingConfiguration(n.ConfigDir, err)
		}
	}
	if n.Proxy == nil {
		return "", ""
	}
	ctx, cancel := context.WithTimeout(ctx, networkAnswers)
	defer cancel()
	all, err := u.Host.Networks.Look(ctx)
	if err != nil {
		return api.ReasonHNSUnavailable, fmt.Sprintf("asking the Host Network Service for network %s: %v", n.Name, err)
	}
	i := slices.IndexFunc(all.Networks, func(is hns.Network) bool { return strings.EqualFold(is.Name, n.Name) })
	if i < 0 {
		return api.ReasonHNSNetworkMissing, fmt.Sprintf(
			"the Host Network Service has no network %s, for which kube-proxy waits: the installer of your network must create it; or correct spec.network.custom.networkName", n.Name)
	}
	if is := all.Networks[i]; is.Type != hns.L2Bridge {
		return api.ReasonKubeProxyUnsupported, fmt.Sprintf(
			"network %s is of type %s, and WICD runs kube-proxy only for networks of type %s: set spec.network.custom.kubeProxy to None, and deploy kube-proxy with your network",
			is.Name, is.Type, hns.L2Bridge)
	}
	if err := u.configureProxy(n); err != nil {
		u.Log.Error("Configuring kube-proxy failed", "error", err.Error())
	}
	return "", ""
}

func missingConfiguration(folder string, err error) string {
	if err != nil {
		return fmt.Sprintf("containerd cannot use the first CNI configuration in %s: %v; the installer of your network must correct it", folder, err)
	}
	return fmt.Sprintf("%s has no CNI configuration: the installer of your network must put one there (*.conflist, *.conf or *.json), and has not yet", folder)
}

// configureProxy writes kube-proxy's configuration, which it reads when it starts.
func (u *UsersNetwork) configureProxy(n desired.UserNetwork) error {
	content, err := desired.Joint{Node: u.Record.Node, Network: n.Name}.Fill(*n.Proxy)
	if err != nil {
		return err
	}
	had := u.Host.Disk.Exists(n.Proxy.Path)
	changed, err := u.Host.Disk.WriteFile(n.Proxy.Path, content)
	if err != nil {
		return fmt.Errorf("writing %s: %w", n.Proxy.Path, err)
	}
	if !changed {
		return nil
	}
	u.RecordChange("%s written for network %s", n.Proxy.Path, n.Name)
	if had {
		u.services.Restart(desired.KubeProxyService, n.Proxy.Path+" changed")
	}
	u.wake.Send()
	return nil
}

// maxCNIFile is how large a CNI configuration may be.
const maxCNIFile = 1 << 20

// firstCNIFile is the configuration in a folder that containerd takes, which is the first by name; empty where there is none. err says why it
// could not be loaded.
func firstCNIFile(s state.Session, folder string) (name string, err error) {
	names, err := s.Host.Disk.List(folder)
	if err != nil {
		return "", fmt.Errorf("listing %s: %w", folder, err)
	}
	slices.Sort(names)
	i := slices.IndexFunc(names, desired.IsCNIFile)
	if i < 0 {
		return "", nil
	}
	name = folder + `\` + names[i]
	info, err := s.Host.Disk.Stat(name)
	if err == nil && (!info.Mode().IsRegular() || info.Size() > maxCNIFile) {
		err = fmt.Errorf("%s is no file, or larger than %d bytes", name, maxCNIFile)
	}
	if err != nil {
		return name, err
	}
	content, err := s.Host.Disk.Read(name)
	if err == nil && !json.Valid(content) {
		err = fmt.Errorf("%s is not JSON", name)
	}
	return name, err
}

// set remembers what the Node is to be told.
func (u *UsersNetwork) set(reason, message string) {
	u.mu.Lock()
	changed := u.lacks.Reason != reason || u.lacks.Message != message
	u.known = true
	if changed {
		u.lacks = nodestatus.Problem{Service: "network", Reason: reason, Message: message, Since: time.Now()}
	}
	u.mu.Unlock()
	if !changed {
		return
	}
	if reason != "" {
		u.Log.Warn("The user's network lacks something", "reason", reason, "message", message)
	}
	u.wake.Send()
}

// ReportTo reports to the node what the network lacks. What was said of a network that is wanted no more ends.
func (u *UsersNetwork) ReportTo(ctx context.Context, w *nodestatus.Writer, node *corev1.Node) error {
	u.mu.Lock()
	known, lacks := u.known, u.lacks
	u.mu.Unlock()
	said := nodestate.Condition(node, api.ConditionWindowsNetworkUnavailable)
	isStale := u.Wanted.UserNetwork == nil && u.Wanted.Network == nil && said != nil && said.Status == corev1.ConditionTrue
	if !known && !isStale {
		return nil
	}
	return w.ReportProblem(ctx, node, nodestatus.Condition{
		Type: api.ConditionWindowsNetworkUnavailable, Works: api.ReasonNetworkWorks, Message: "the user's network has what WICD waits for",
	}, lacks)
}
