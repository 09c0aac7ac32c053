package desired

import (
	"fmt"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/proxy"
	"github.com/windows-machine-config/wmco/payload"
)

// Rendered is what nodes must have.
type Rendered struct {
	Node Node
	// Secrets are what goes with it. Their version, and the Node's SecretsVersion, is for whoever keeps them to set.
	Secrets Secrets
	// Problems are what nodes cannot have of the settings, and what does not work as it is.
	Problems []Problem
	// Missing are services that nodes do not have because the payload does not.
	Missing []v1alpha1.MissingService `json:",omitempty"`
	bundles bundleSizes
}

// Render says what nodes with these inputs must have. It fails where the inputs cannot make a working node; the error
// names the object, the field and what is allowed.
func Render(in Inputs) (Rendered, error) {
	in.Config.Network.Provider = in.provider()
	if err := CheckNetwork(in); err != nil {
		return Rendered{}, err
	}
	kubeletConf, err := renderKubeletConfig(in)
	if err != nil {
		return Rendered{}, fmt.Errorf("rendering kubelet.conf: %w", err)
	}
	if err := checkServiceSettings(in.Config); err != nil {
		return Rendered{}, err
	}
	if err := CheckImage(in.sandboxImage()); err != nil {
		return Rendered{}, fmt.Errorf(`%w: WindowsConfig "cluster", spec.runtime.sandboxImage: %w`, ErrSettings, err)
	}
	settings, err := applySettings(in)
	if err != nil {
		return Rendered{}, err
	}
	logs, err := renderLogs(in.Config.Logs)
	if err != nil {
		return Rendered{}, err
	}
	machine, err := machineOf(in.Config.RuntimeClasses.HyperV)
	if err != nil {
		return Rendered{}, err
	}
	node := renderNode(in, kubeletConf, logs, machine)
	node.Environment, node.Certificates = settings.environment, settings.certificates
	node.Registries = settings.registries
	bundles := sizesOf(in.Settings.Bundles)
	if err := node.CheckBounds(); err != nil {
		return Rendered{}, fmt.Errorf("%w: nodes cannot have this: %w", ErrSettings, bundles.explain(err))
	}
	return Rendered{
		Node: node, Secrets: settings.secrets, Problems: append(networkProblems(in), settings.problems...), Missing: missing(in), bundles: bundles,
	}, nil
}

// Features of Windows, as DISM names them.
const (
	// ContainersFeature is what containers need.
	ContainersFeature = "Containers"
	// HyperVFeature is what pods with Hyper-V isolation need besides. A host that cannot have it is a node without it.
	HyperVFeature = "Microsoft-Hyper-V"
)

// features are those that a node has, and with Hyper-V isolation that of virtual machines.
func features(machine *virtualMachine) []string {
	if machine == nil {
		return []string{ContainersFeature}
	}
	return []string{ContainersFeature, HyperVFeature}
}

func renderNode(in Inputs, kubeletConf string, logs LogLimits, machine *virtualMachine) Node {
	services, files := services(in, logs)
	return Node{
		Version:     in.Version,
		Digest:      in.Payload.Digest,
		Features:    features(machine),
		Directories: directories(services),
		Payload:     PayloadFiles(OnPlatform(Content(in.Payload, in.Config.Network.Provider), in.Cluster.Network.Platform)),
		Files: append([]File{
			{Path: kubeletConfig, Content: kubeletConf},
			{Path: kubeletClientCA, Content: in.Cluster.KubeletClientCA},
			{Path: containerdConfig, Content: renderContainerdConfig(VersionFolder(in.Payload.Digest), machine, userNetwork(in), in.Config.Runtime.CompressedLayers)},
		}, files...),
		Services:           services,
		SandboxImage:       in.sandboxImage(),
		TaintValue:         taintValue(in.Config.Taint),
		CNI:                customCNI(in),
		Network:            network(in),
		UserNetwork:        userNetwork(in),
		WatchedEnvironment: proxyVariables(),
		Firewall:           firewall(in),
		Exclusions:         exclusions(in),
		Routes:             routes(in),
		Logs:               logs,
	}
}

// proxyVariables are the variables that are ours: programs written in Go read these (package net/http).
func proxyVariables() []string { return []string{proxy.HTTPProxy, proxy.HTTPSProxy, proxy.NoProxy} }

// directories that services expect; others are made with the files in them.
func directories(services []Service) []string {
	var folders []string
	for _, s := range services {
		folders = append(folders, folderOf(s.Log.Path))
	}
	return append(folders, Metrics, Registries, CNIFolder, staticPods, KubeletCertificates, WICDCertificates)
}

// PayloadFiles are the files of a payload, as a Node has them.
func PayloadFiles(m payload.Manifest) []PayloadFile {
	var files []PayloadFile
	for _, f := range m.Files {
		files = append(files, PayloadFile{Path: WindowsPath(f.Path), SHA256: f.SHA256, Size: f.Size})
	}
	return files
}
