//go:build linux

package lab

import (
	"crypto/x509/pkix"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"github.com/windows-machine-config/wmco/internal/testing/controlplane"
)

// writeFiles writes the configuration and credentials of the node's programs.
func (n *LinuxNode) writeFiles(images *Registry) error {
	cp := n.lab.ControlPlane
	serving, err := cp.credentials.CA.Issue(pkix.Name{CommonName: "system:node:" + n.name}, []string{n.name}, []net.IP{net.ParseIP(n.Address())})
	if err != nil {
		return err
	}
	client, err := cp.credentials.CA.Issue(pkix.Name{CommonName: "system:node:" + n.name, Organization: []string{"system:nodes"}}, nil, nil)
	if err != nil {
		return err
	}
	// Like all pods of the node, the kubelet reaches the API server at the address of its Service.
	kubeconfig, err := controlplane.Kubeconfig("https://"+net.JoinHostPort(controlplane.ServiceOfTheAPI, "443"), cp.CA(),
		controlplane.User{Certificate: client.Cert, Key: client.Key})
	if err != nil {
		return err
	}
	const anyRegistry = "certs.d/_default/hosts.toml" // containerd's docs/hosts.md
	for name, content := range map[string][]byte{
		"ca.crt": cp.CA(), "kubelet.crt": serving.Cert, "kubelet.key": serving.Key, "kubelet.conf": kubeconfig,
		"kubelet.yaml":    fmt.Appendf(nil, kubeletConfig, n.folder.Path),
		"containerd.toml": fmt.Appendf(nil, containerdConfig, n.folder.Path, images.Address, runc),
		nodeCNIFile:       []byte(nodeCNIConfig),
		anyRegistry:       fmt.Appendf(nil, "[host.\"http://%s\"]\n  capabilities = [\"pull\", \"resolve\"]\n", images.Address),
	} {
		path := n.path(name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return fmt.Errorf("writing the files of node %s: %w", n.name, err)
		}
	}
	return nil
}

// kubeletConfig is for cgroups of version 1. protectKernelDefaults keeps the kubelet from changing the machine's kernel settings.
const kubeletConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication:
  anonymous: {enabled: false}
  webhook: {enabled: true}
  x509: {clientCAFile: %[1]s/ca.crt}
authorization: {mode: Webhook}
tlsCertFile: %[1]s/kubelet.crt
tlsPrivateKeyFile: %[1]s/kubelet.key
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
failCgroupV1: false
cgroupDriver: cgroupfs
cgroupRoot: /
makeIPTablesUtilChains: false
protectKernelDefaults: true
volumePluginDir: /var/lib/kubelet/volumeplugins
clusterDNS: [10.96.0.10]
clusterDomain: cluster.local
resolvConf: /etc/resolv.conf
evictionHard: {memory.available: 100Mi, nodefs.available: 1Gi, imagefs.available: 1Gi}
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
nodeStatusUpdateFrequency: 5s
`

// containerdConfig disables features that a test machine may lack: AppArmor, lowering OOM scores, other file systems.
const containerdConfig = `version = 3
root = "/var/lib/containerd"
state = "/run/containerd"
oom_score = 0
disabled_plugins = [
  "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.erofs",
  "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.blockfile", "io.containerd.nri.v1.nri",
  "io.containerd.tracing.processor.v1.otlp", "io.containerd.internal.v1.tracing", "io.containerd.internal.v1.opt",
]

[grpc]
  address = "/run/containerd/containerd.sock"

[plugins."io.containerd.cri.v1.images"]
  snapshotter = "overlayfs"
  [plugins."io.containerd.cri.v1.images".pinned_images]
    sandbox = "%[2]s/linuxpause:1"
  [plugins."io.containerd.cri.v1.images".registry]
    config_path = "%[1]s/certs.d"

[plugins."io.containerd.cri.v1.runtime"]
  disable_apparmor = true
  restrict_oom_score_adj = true
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = ["%[1]s/cni"]
    conf_dir = "%[1]s/net.d"
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
      BinaryName = "%[3]s"
      SystemdCgroup = false
`

const nodeCNIFile = "net.d/10-lab.conflist"

// nodeCNIConfig makes containerd report a pod network. Pods on the node use the host's, until ConnectPods.
const nodeCNIConfig = `{"cniVersion": "1.0.0", "name": "lab", "plugins": [{"type": "loopback"}]}
`
