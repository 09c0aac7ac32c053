package configure

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/windows-machine-config/wmco/internal/node/daemon/credentials"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

// membership manages what ties the host to its cluster.
type membership struct {
	work
	restarts restarts
	wanted   desired.Node
	request  wicdapi.JoinRequest
	former   former
}

// leaveFormer removes what ties the host to another cluster, or to another name in this one. If only the API server's address changed, it removes
// the kubelet's kubeconfig: the kubelet reads a new address only from the bootstrap kubeconfig.
func (m membership) leaveFormer(ctx context.Context) error {
	if m.former.Cluster == "" || m.former.Cluster == m.request.Cluster && m.former.Node == m.request.Node {
		return m.checkKubeconfig()
	}
	for _, s := range slices.Backward(m.former.Desired.Services) {
		if err := m.Services.Stop(ctx, s.Name); err != nil {
			return fmt.Errorf("stopping %s: %w", s.Name, err)
		}
	}
	traces := []string{desired.KubeletKubeconfig, desired.BootstrapKubeconfig}
	for _, folder := range []string{desired.KubeletCertificates, desired.WICDCertificates} {
		names, err := m.Disk.List(folder)
		if err != nil {
			return err
		}
		for _, name := range names {
			traces = append(traces, folder+`\`+name)
		}
	}
	traces = append(traces, desired.CNIConfigs()...)
	if network := m.former.Desired.Network; network != nil {
		for _, f := range network.Files {
			traces = append(traces, f.Path)
		}
	}
	for _, name := range traces {
		if err := m.Disk.RemoveAll(name); err != nil {
			return fmt.Errorf("removing %s: %w", name, err)
		}
	}
	m.recordChange("left cluster %s, where the host was node %s", m.former.Cluster, m.former.Node)
	return nil
}

func (m membership) checkKubeconfig() error {
	matches, err := credentials.KubeconfigNames(m.Disk, m.request.Bootstrap)
	if err != nil || matches {
		return err
	}
	if err := m.Disk.Remove(desired.KubeletKubeconfig); err != nil {
		return fmt.Errorf("removing %s: %w", desired.KubeletKubeconfig, err)
	}
	m.recordChange("%s removed: it points to another API server", desired.KubeletKubeconfig)
	m.restarts.usersOf(m.wanted.Services, desired.KubeletKubeconfig)
	return nil
}

// forgetNetworks removes the data of network plugins from a former cluster, even without a record of that cluster: pods would get no
// addresses, because the data mark them as in use (OCPBUGS-65625). While a container runs, the data are kept, because its address may be
// among them.
func (m membership) forgetNetworks(ctx context.Context) error {
	if m.former.Cluster == m.request.Cluster || !m.Disk.Exists(desired.CNIData) {
		return nil
	}
	running, err := m.Containers.List(ctx)
	if err != nil || len(running) > 0 {
		return err
	}
	if failures := m.Disk.RemoveTree(ctx, desired.CNIData); len(failures) > 0 {
		return fmt.Errorf("removing network data of another cluster: %w", errors.Join(failures...))
	}
	m.recordChange("%s removed: it belonged to another cluster", desired.CNIData)
	return nil
}

// writeBootstrap writes the bootstrap kubeconfig with the token if the host still needs it. A service that waits with an older token is restarted
// later.
func (m membership) writeBootstrap(context.Context) error {
	kubelet := credentials.KubeletHasCertificate(m.Disk, m.request.Node, time.Now())
	_, err := credentials.ReadIdentity(m.Disk, m.request.Node, time.Now())
	if kubelet && err == nil {
		return m.Disk.Remove(desired.BootstrapKubeconfig + hostapi.TemporarySuffix) // an interrupted join may have left it
	}
	if m.request.Bootstrap.Token == "" {
		return &wicdapi.Error{Code: wicdapi.CodeRequestInvalid, Message: "bootstrap.token is empty, and the host has no certificates yet"}
	}
	content, err := credentials.BootstrapKubeconfig(m.request.Bootstrap)
	if err != nil {
		return err
	}
	changed, err := m.Disk.WriteFile(desired.BootstrapKubeconfig, content)
	if err != nil {
		return fmt.Errorf("writing %s: %w", desired.BootstrapKubeconfig, err)
	}
	if changed {
		m.recordChange("%s written", desired.BootstrapKubeconfig)
	}
	return nil
}
