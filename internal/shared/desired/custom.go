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

// UserNetwork is a network that the user supplies, with its own programs or installer. Its folders belong to the user: they are created if
// missing, and never removed.
type UserNetwork struct {
	// BinDir is a folder with network plugins; empty if the payload's plugins are used.
	BinDir string `json:"binDir,omitempty"`
	// ConfigDir is the folder from which containerd reads the CNI configuration; empty if WICD writes it.
	ConfigDir string `json:"configDir,omitempty"`
	// Name is the network's name in the Host Network Service, for kube-proxy; empty if WICD does not run kube-proxy.
	Name string `json:"name,omitempty"`
	// Proxy is kube-proxy's configuration, with fields of NetworkValues. It is written when the network exists and has a type that kube-proxy can serve.
	Proxy *File `json:"proxy,omitempty"`
}

// Folders returns the user's folders.
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

// CNIFolder returns the folder from which containerd reads the configuration of the pod network.
func (n *UserNetwork) CNIFolder() string {
	if n == nil || n.ConfigDir == "" {
		return CNIFolder
	}
	return n.ConfigDir
}

// IsCNIFile reports whether containerd reads a file in its folder as a configuration (libcni's ConfFiles).
func IsCNIFile(name string) bool {
	switch path.Ext(name) {
	case ".conf", ".conflist", ".json":
		return true
	}
	return false
}

// userNetwork returns the settings of WindowsConfig other than a CNI configuration; nil if there are none.
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

// customCNI returns the user's CNI configuration; nil for providers that create their own, and if an installer writes it.
func customCNI(in Inputs) (*CNI, error) {
	custom := in.Config.Network.Custom
	if custom == nil || custom.CNIConfig == "" {
		return nil, nil
	}
	p := Pod{ServiceCIDRs: in.Cluster.ServiceCIDRs}
	p.ServiceCIDR, _ = firstAndMore(in.Cluster.ServiceCIDRs)
	p.ClusterDNS, _ = firstAndMore(in.Cluster.DNSServers)
	content, err := execute(custom.CNIConfig, p)
	if err != nil {
		return nil, err
	}
	return &CNI{Path: cniConfig, Content: content}, nil
}

// customServices returns the services for a network that the user supplies.
func customServices(in Inputs, folder string, logs LogLimits) []Service {
	if custom := in.Config.Network.Custom; custom == nil || custom.KubeProxy != v1alpha1.KubeProxyManaged {
		return nil
	}
	return []Service{kubeProxy(in, folder, logs, KubeletService)}
}

// renderUserProxyConfig returns kube-proxy's configuration for the user's bridge network. It needs no source address, which only overlays
// have. Direct server return stays off, which is kube-proxy's default: it works only if the network does not translate pods' addresses, which
// cannot be detected.
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
	invalid := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s.custom"+format, append([]any{ErrNetwork, networkField}, args...)...)
	}
	if custom == nil {
		return invalid(" is empty; provider %s needs spec.network.custom.cniConfig or spec.network.custom.configDir", in.provider())
	}
	if (custom.CNIConfig == "") == (custom.ConfigDir == "") {
		return invalid(" must have exactly one of cniConfig and configDir")
	}
	for _, folder := range userNetwork(in).Folders() {
		if err := checkUserFolder(folder); err != nil {
			return invalid(": %w", err)
		}
	}
	if isManaged := custom.KubeProxy == v1alpha1.KubeProxyManaged; isManaged != (custom.NetworkName != "") {
		return invalid(".networkName is %.128q and kubeProxy is %q; set networkName if and only if kubeProxy is Managed", custom.NetworkName, custom.KubeProxy)
	}
	if err := checkCNI(in); err != nil {
		return invalid(".cniConfig: %w", err)
	}
	return nil
}

func checkCNI(in Inputs) error {
	cni, err := customCNI(in)
	if cni == nil {
		return err
	}
	text, err := cni.Fill("10.0.0.0/24", "192.0.2.1")
	if err != nil {
		return err
	}
	return checkProxied(in.Config.Network.Custom, text)
}

// checkProxied rejects kube-proxy for overlays: it would need an address of the host in the overlay, and only the network itself can reserve
// that address.
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
			return fmt.Errorf("plugin %s creates overlay networks, for which WICD cannot run kube-proxy; set kubeProxy to %s and deploy kube-proxy with the network",
				plugin, v1alpha1.KubeProxyNone)
		}
	}
	return nil
}

var folderOnC = regexp.MustCompile(`^[Cc]:(\\[A-Za-z0-9_-]([A-Za-z0-9 ._-]*[A-Za-z0-9_-])?)+$`)

// checkUserFolder requires a folder on drive C: that belongs to neither the operator nor Windows. The CRD requires the same.
func checkUserFolder(folder string) error {
	if len(folder) > maxUserFolder || !folderOnC.MatchString(folder) {
		return fmt.Errorf(`folder %.220q must be on drive C:, such as C:\opt\cni\bin, with only letters, digits, spaces and . _ -, and at most %d characters`, folder, maxUserFolder)
	}
	const users = `C:\Users`
	for _, taken := range []string{Root, `C:\Windows`, users, Logs, CNIData, KubeletData, ContainerdData} {
		if strings.HasPrefix(strings.ToLower(folder)+`\`, strings.ToLower(taken)+`\`) {
			return fmt.Errorf("folder %q is %s or below it, which is reserved; choose another folder", folder, taken)
		}
	}
	if strings.EqualFold(folder, `C:\ProgramData`) {
		return errors.New(`folder C:\ProgramData is writable by all users; choose a folder below it`)
	}
	return nil
}

const maxUserFolder = 200
