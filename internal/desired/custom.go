package desired

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"regexp"
	"strings"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
)

// UserNetwork is a network that the user supplies, with programs or an installer of its own. Its folders are the user's: they are made
// where they do not exist, and never removed.
type UserNetwork struct {
	// BinDir is a folder with network plugins; empty where ours do.
	BinDir string `json:"binDir,omitempty"`
	// ConfigDir is the folder from which containerd reads the CNI configuration; empty where WICD writes it.
	ConfigDir string `json:"configDir,omitempty"`
	// Name is that of the network in the Host Network Service, for kube-proxy; empty where WICD does not run one.
	Name string `json:"name,omitempty"`
	// Proxy is kube-proxy's configuration, a template over Joint, written when the network is there and of a type that it can serve.
	Proxy *File `json:"proxy,omitempty"`
}

// Folders are those of the user's.
func (n *UserNetwork) Folders() (folders []string) {
	if n == nil {
		return nil
	}
	for _, folder := range []string{n.BinDir, n.ConfigDir} {
		if folder != "" {
			folders = append(folders, folder)
		}
	}
	return folders
}

// CNIFolder is the folder from which containerd reads the configuration of the pod network.
func (n *UserNetwork) CNIFolder() string {
	if n == nil || n.ConfigDir == "" {
		return CNIFolder
	}
	return n.ConfigDir
}

// IsCNIFile tells whether containerd takes a file in its folder for a configuration (libcni's ConfFiles).
func IsCNIFile(name string) bool {
	switch path.Ext(name) {
	case ".conf", ".conflist", ".json":
		return true
	}
	return false
}

// userNetwork is what WindowsConfig says beyond a CNI configuration; nil where it says nothing more.
func userNetwork(in Inputs) *UserNetwork {
	custom := in.Config.Network.Custom
	if custom == nil {
		return nil
	}
	n := UserNetwork{BinDir: string(custom.BinDir), ConfigDir: string(custom.ConfigDir)}
	if custom.KubeProxy == v1alpha1.KubeProxyManaged {
		n.Name, n.Proxy = custom.NetworkName, &File{Path: proxyConfig, Content: renderUserProxyConfig(in)}
	}
	if n == (UserNetwork{}) {
		return nil
	}
	return &n
}

// customCNI is the configuration that the user wrote; nil with providers that make their own, and where an installer writes one.
func customCNI(in Inputs) *CNI {
	custom := in.Config.Network.Custom
	if custom == nil || custom.CNIConfig == "" {
		return nil
	}
	c := cniOf(in)
	return &c
}

// cniOf is that configuration, as a template.
func cniOf(in Inputs) CNI {
	c := CNI{Path: cniConfig, Template: in.Config.Network.Custom.CNIConfig}
	c.ServiceCIDR, c.MoreServiceCIDRs = firstAndMore(in.Cluster.ServiceCIDRs)
	c.ClusterDNS, _ = firstAndMore(in.Cluster.DNSServers)
	return c
}

// customServices are those of a network of the user's.
func customServices(in Inputs, folder string, logs LogLimits) []Service {
	if custom := in.Config.Network.Custom; custom == nil || custom.KubeProxy != v1alpha1.KubeProxyManaged {
		return nil
	}
	return []Service{kubeProxy(in, folder, logs, KubeletService)}
}

// renderUserProxyConfig is kube-proxy's configuration for a bridge of the user's. It needs no source address, which only overlays have. Direct
// server return stays off, as is kube-proxy's default: it works only where the network sends pods' addresses unchanged, and nobody tells.
func renderUserProxyConfig(in Inputs) string {
	return pretty(object{
		"apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration",
		"clientConnection": object{"kubeconfig": wicdKubeconfig},
		"hostnameOverride": "{{.Node}}",
		"mode":             "kernelspace",
		"winkernel":        winkernel(in, object{"networkName": "{{.Network}}"}),
	})
}

func checkCustom(in Inputs) error {
	custom := in.Config.Network.Custom
	wrong := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s.custom"+format, append([]any{ErrNetwork, networkField}, args...)...)
	}
	if custom == nil {
		return wrong(" is empty; provider %s needs spec.network.custom.cniConfig or spec.network.custom.configDir", in.provider())
	}
	if (custom.CNIConfig == "") == (custom.ConfigDir == "") {
		return wrong(" must have exactly one of cniConfig and configDir")
	}
	for _, folder := range userNetwork(in).Folders() {
		if err := checkUserFolder(folder); err != nil {
			return wrong(": %w", err)
		}
	}
	if isManaged := custom.KubeProxy == v1alpha1.KubeProxyManaged; isManaged != (custom.NetworkName != "") {
		return wrong(".networkName is %.128q and kubeProxy is %q; kube-proxy needs the name, and nothing else does", custom.NetworkName, custom.KubeProxy)
	}
	if custom.CNIConfig == "" {
		return nil
	}
	text, err := cniOf(in).Fill("10.0.0.0/24", "192.0.2.1")
	if err == nil {
		err = checkProxied(custom, text)
	}
	if err != nil {
		return wrong(".cniConfig: %w", err)
	}
	return nil
}

// checkProxied refuses kube-proxy for overlays: it needs an address of the host in the overlay there, and what keeps that address from
// pods is the network's own matter.
func checkProxied(custom *v1alpha1.CustomNetwork, text string) error {
	if custom.KubeProxy != v1alpha1.KubeProxyManaged {
		return nil
	}
	var conf struct {
		Type     string `json:"type"`
		Delegate struct {
			Type string `json:"type"`
		} `json:"delegate"`
	}
	if err := json.Unmarshal([]byte(text), &conf); err != nil {
		return err
	}
	for _, plugin := range []string{conf.Type, conf.Delegate.Type} {
		if plugin == "win-overlay" || plugin == "sdnoverlay" {
			return fmt.Errorf("plugin %s makes overlays, for which WICD cannot run kube-proxy; set kubeProxy to %s and deploy kube-proxy with the network",
				plugin, v1alpha1.KubeProxyNone)
		}
	}
	return nil
}

// checkUserFolder wants a folder on drive C: that is neither ours nor Windows'. It is what the CRD wants.
func checkUserFolder(folder string) error {
	const name = `[A-Za-z0-9_-]([A-Za-z0-9 ._-]*[A-Za-z0-9_-])?`
	if len(folder) > maxUserFolder || !regexp.MustCompile(`^[Cc]:(\\`+name+`)+$`).MatchString(folder) {
		return fmt.Errorf(`folder %.220q must be one on drive C: such as C:\opt\cni\bin, of letters, digits, spaces and . _ -, with at most %d characters`, folder, maxUserFolder)
	}
	const users = `C:\Users`
	for _, taken := range []string{Root, `C:\Windows`, users, Logs, CNIData, KubeletData, ContainerdData} {
		if strings.HasPrefix(strings.ToLower(folder)+`\`, strings.ToLower(taken)+`\`) {
			return fmt.Errorf("folder %q is %s, or below it, and must be elsewhere", folder, taken)
		}
	}
	if strings.EqualFold(folder, `C:\ProgramData`) {
		return errors.New(`folder C:\ProgramData is one in which every user may write; choose one below it`)
	}
	return nil
}

const maxUserFolder = 200
