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
	"github.com/windows-machine-config/wmco/internal/node/backoff"
	"github.com/windows-machine-config/wmco/internal/node/daemon/nodestatus"
	"github.com/windows-machine-config/wmco/internal/node/daemon/state"
	"github.com/windows-machine-config/wmco/internal/node/daemon/supervisor"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/hns"
	"github.com/windows-machine-config/wmco/internal/shared/nodestate"
)

// UserNetwork reports what the user's own network is missing, and configures kube-proxy for it where WICD runs kube-proxy. It does not
// change the network.
type UserNetwork struct {
	state.Session
	wake     state.Signal
	services *supervisor.Supervisor

	mu sync.Mutex
	// known is true once the network was checked.
	known bool
	// problem is what the Node reports; there is none if its Reason is empty.
	problem nodestatus.Problem
}

// NewUserNetwork returns a UserNetwork, which sends wake when there is something to report.
func NewUserNetwork(s state.Session, wake state.Signal, services *supervisor.Supervisor) *UserNetwork {
	return &UserNetwork{Session: s, wake: wake, services: services}
}

// Run checks the network until ctx is done.
func (u *UserNetwork) Run(ctx context.Context) {
	if u.Wanted.UserNetwork == nil {
		return
	}
	pauses := backoff.Between(loadedSoon, loadedInterval)
	for ctx.Err() == nil {
		reason, message := u.reconcile(ctx)
		u.set(reason, message)
		wait := pauses.Next()
		if reason != "" && wait > networkInterval {
			wait = networkInterval
		}
		_ = backoff.Sleep(ctx, wait)
	}
}

// reconcile checks the folder and the network once, and configures kube-proxy if both are ready.
func (u *UserNetwork) reconcile(ctx context.Context) (reason, message string) {
	n := *u.Wanted.UserNetwork
	if n.ConfigDir != "" {
		if name, err := firstCNIFile(u.Session, n.ConfigDir); name == "" || err != nil {
			return api.ReasonNetworkConfigurationMissing, missingConfiguration(n.ConfigDir, err)
		}
	}
	if n.Proxy == nil {
		return "", ""
	}
	ctx, cancel := context.WithTimeout(ctx, networkTimeout)
	defer cancel()
	all, err := u.Host.Networks.List(ctx)
	if err != nil {
		return api.ReasonHNSUnavailable, fmt.Sprintf("querying the Host Network Service for network %s: %v", n.Name, err)
	}
	i := slices.IndexFunc(all.Networks, func(current hns.Network) bool { return strings.EqualFold(current.Name, n.Name) })
	if i < 0 {
		return api.ReasonHNSNetworkMissing, fmt.Sprintf(
			"the Host Network Service has no network %s, for which kube-proxy waits: the installer of your network must create it; or correct spec.network.custom.networkName", n.Name)
	}
	if current := all.Networks[i]; current.Type != hns.L2Bridge {
		return api.ReasonKubeProxyUnsupported, fmt.Sprintf(
			"network %s is of type %s, and WICD runs kube-proxy only for networks of type %s: set spec.network.custom.kubeProxy to None, and deploy kube-proxy with your network",
			current.Name, current.Type, hns.L2Bridge)
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
	return fmt.Sprintf("%s has no CNI configuration: the installer of your network must create one there (*.conflist, *.conf or *.json)", folder)
}

// configureProxy writes kube-proxy's configuration, which kube-proxy reads only at start.
func (u *UserNetwork) configureProxy(n desired.UserNetwork) error {
	content, err := desired.NetworkValues{Node: u.Record.Node, Network: n.Name}.Fill(*n.Proxy)
	if err != nil {
		return err
	}
	before := u.Host.Disk.Exists(n.Proxy.Path)
	changed, err := u.Host.Disk.WriteFile(n.Proxy.Path, content)
	if err != nil {
		return fmt.Errorf("writing %s: %w", n.Proxy.Path, err)
	}
	if !changed {
		return nil
	}
	u.RecordChange("%s written for network %s", n.Proxy.Path, n.Name)
	if before {
		u.services.Restart(desired.KubeProxyService, n.Proxy.Path+" changed")
	}
	u.wake.Send()
	return nil
}

// maxCNIFile is the maximum size of a CNI configuration.
const maxCNIFile = 1 << 20

// firstCNIFile returns the CNI configuration in a folder that containerd uses, the first by name; empty if there is none. err is why it could
// not be loaded.
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
	content, err := s.Host.Disk.ReadAtMost(name, maxCNIFile)
	if err == nil && !json.Valid(content) {
		err = fmt.Errorf("%s is not JSON", name)
	}
	return name, err
}

// set records what the Node has to report.
func (u *UserNetwork) set(reason, message string) {
	u.mu.Lock()
	changed := u.problem.Reason != reason || u.problem.Message != message
	u.known = true
	if changed {
		u.problem = nodestatus.Problem{Service: "network", Reason: reason, Message: message, Since: time.Now()}
	}
	u.mu.Unlock()
	if !changed {
		return
	}
	if reason != "" {
		u.Log.Warn("The user's network is not ready", "reason", reason, "message", message)
	}
	u.wake.Send()
}

// ReportTo reports to the Node what the network is missing. It clears the report of a network that is no longer wanted.
func (u *UserNetwork) ReportTo(ctx context.Context, w *nodestatus.Writer, node *corev1.Node) error {
	u.mu.Lock()
	known, problem := u.known, u.problem
	u.mu.Unlock()
	reported := nodestate.Condition(node, api.ConditionWindowsNetworkUnavailable)
	isStale := u.Wanted.UserNetwork == nil && u.Wanted.Network == nil && reported != nil && reported.Status == corev1.ConditionTrue
	if !known && !isStale {
		return nil
	}
	return w.ReportProblem(ctx, node, nodestatus.Condition{
		Type: api.ConditionWindowsNetworkUnavailable, OKReason: api.ReasonNetworkWorks, OKMessage: "the user's network is ready",
	}, problem)
}
