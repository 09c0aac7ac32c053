//go:build linux

package lab

import (
	"context"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/windows-machine-config/wmco/internal/testing/controlplane"
)

const kubeProxyProgram = "kube-proxy"

// podPrograms returns the plugins of a node's pod network, from the module that pins those of Windows.
func podPrograms() []program {
	const plugins = "github.com/containernetworking/plugins/plugins/"
	var all []program
	for _, plugin := range []string{"main/loopback", "main/ptp", "ipam/host-local"} {
		all = append(all, program{pkg: plugins + plugin, module: "../payload/cni", about: "building a plugin of the pod network for Linux"})
	}
	return all
}

// ConnectPods prepares the node for pods: it sets up a pod network, starts kube-proxy, and removes the taint of control plane nodes.
func (n *LinuxNode) ConnectPods(ctx context.Context) error {
	for _, step := range []func(context.Context) error{n.addPlugins, n.writeProxyFiles, n.connectPods, n.removeTaint} {
		if err := step(ctx); err != nil {
			return fmt.Errorf("connecting the pods of node %s: %w", n.name, err)
		}
	}
	return nil
}

// addPlugins writes the plugins and their configuration, which replaces nodeCNIConfig. containerd notices it.
func (n *LinuxNode) addPlugins(ctx context.Context) error {
	if err := os.MkdirAll(n.path("cni"), 0o755); err != nil {
		return err
	}
	for _, p := range podPrograms() {
		content, err := n.lab.cache.content(ctx, p)
		if err == nil {
			err = os.WriteFile(filepath.Join(n.path("cni"), filepath.Base(p.pkg)), []byte(content), 0o755)
		}
		if err != nil {
			return err
		}
	}
	pods, err := n.podCIDR(ctx)
	if err != nil {
		return err
	}
	return os.WriteFile(n.path(nodeCNIFile), fmt.Appendf(nil, podCNIConfig, pods), 0o600)
}

// podCNIConfig gives each pod its own link to the node, so that every packet passes the node's rules, including those of Services.
const podCNIConfig = `{"cniVersion": "1.0.0", "name": "lab", "plugins": [
  {"type": "ptp", "ipam": {"type": "host-local", "ranges": [[{"subnet": %q}]], "routes": [{"dst": "0.0.0.0/0"}]}}
]}
`

// podCIDR waits for the range of the node's pods.
func (n *LinuxNode) podCIDR(ctx context.Context) (pods string, err error) {
	ctx, cancel := context.WithTimeout(ctx, Timeout(nodeTimeout))
	defer cancel()
	err = n.wait(ctx, "the range of pod addresses", func(ctx context.Context) error {
		node, err := n.lab.ControlPlane.clients.CoreV1().Nodes().Get(ctx, n.name, metav1.GetOptions{})
		if err == nil && node.Spec.PodCIDR == "" {
			err = errors.New("spec.podCIDR of the Node is empty")
		}
		if err == nil {
			pods = node.Spec.PodCIDR
		}
		return err
	})
	return pods, err
}

// writeProxyFiles writes configuration and credentials of kube-proxy.
func (n *LinuxNode) writeProxyFiles(context.Context) error {
	cp := n.lab.ControlPlane
	client, err := cp.credentials.CA.Issue(pkix.Name{CommonName: "system:kube-proxy"}, nil, nil)
	if err != nil {
		return err
	}
	kubeconfig, err := controlplane.Kubeconfig(cp.RESTConfig().Host, cp.CA(), controlplane.User{Certificate: client.Cert, Key: client.Key})
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(n.path("kube-proxy.conf"), kubeconfig, 0o600),
		os.WriteFile(n.path("kube-proxy.yaml"), fmt.Appendf(nil, kubeProxyConfig, n.path("kube-proxy.conf"), n.name, n.lab.PodNetwork()), 0o600))
}

// kubeProxyConfig leaves the machine's kernel settings unchanged.
const kubeProxyConfig = `apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
clientConnection: {kubeconfig: %s}
hostnameOverride: %s
mode: nftables
clusterCIDR: %s
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
`

// connectPods configures the node as a router between its pods and the hosts' network, and starts kube-proxy.
func (n *LinuxNode) connectPods(context.Context) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.pods = true
	return n.startProxy()
}

func (n *LinuxNode) startProxy() error {
	err := inNamespace(n.pid, func() error {
		for file, value := range map[string]string{
			"ip_forward": "1", "conf/" + hostLink + "/proxy_arp": "1", "neigh/" + hostLink + "/proxy_delay": "0", "conf/" + hostLink + "/send_redirects": "0",
		} {
			if err := os.WriteFile(filepath.Join(fmt.Sprintf("/proc/%d/root/proc/sys/net/ipv4", n.pid), file), []byte(value), 0o644); err != nil {
				return fmt.Errorf("enabling packet forwarding on the node: %w", err)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return n.reaper.send("start " + kubeProxyProgram)
}

func (n *LinuxNode) removeTaint(ctx context.Context) error {
	_, err := n.lab.ControlPlane.clients.CoreV1().Nodes().Patch(ctx, n.name, types.MergePatchType, []byte(`{"spec": {"taints": null}}`), metav1.PatchOptions{})
	return err
}
