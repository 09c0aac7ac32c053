package desired

import (
	"fmt"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/shared/proxy"
	"github.com/windows-machine-config/wmco/payload"
)

// Rendered is what nodes must have.
type Rendered struct {
	Node Node
	// Secrets belong to the Node. The caller that stores them sets their version and the Node's SecretsVersion.
	Secrets Secrets
	// Problems are settings that nodes cannot have or that do not work as configured.
	Problems []Problem
	// Missing are services that nodes lack because the payload does.
	Missing []v1alpha1.MissingService `json:",omitempty"`
	bundles bundleSizes
}

// Render returns what nodes with these inputs must have. It fails if no working node can result from the inputs; the
// error names the object, the field and the allowed values.
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
	for i, p := range in.Config.Images.Prepull {
		if err := CheckImage(p.Image); err != nil {
			return Rendered{}, fmt.Errorf(`%w: WindowsConfig "cluster", spec.images.prepull[%d].image: %w`, ErrSettings, i, err)
		}
	}
	settings, err := applySettings(in)
	if err != nil {
		return Rendered{}, err
	}
	logs, err := renderLogs(in.Config.Logs)
	if err != nil {
		return Rendered{}, err
	}
	vm, err := virtualMachineOf(in.Config.RuntimeClasses.HyperV)
	if err != nil {
		return Rendered{}, err
	}
	cni, err := customCNI(in)
	if err != nil {
		return Rendered{}, err
	}
	node := renderNode(in, kubeletConf, logs, vm)
	node.CNI = cni
	node.Environment, node.Certificates = settings.environment, settings.certificates
	node.Registries = settings.registries
	bundles := sizesOf(in.Settings.Bundles)
	if err := node.CheckBounds(); err != nil {
		return Rendered{}, fmt.Errorf("%w: nodes would reject them: %w", ErrSettings, bundles.explain(err))
	}
	return Rendered{
		Node: node, Secrets: settings.secrets, Problems: append(networkProblems(in), settings.problems...), Missing: missing(in), bundles: bundles,
	}, nil
}

// Windows features, as DISM names them.
const (
	// ContainersFeature is required by containers.
	ContainersFeature = "Containers"
	// HyperVFeature is required by pods with Hyper-V isolation. A host that does not support it becomes a node without
	// it.
	HyperVFeature = "Microsoft-Hyper-V"
)

// features returns the Windows features of a node, with Hyper-V only for Hyper-V isolation.
func features(vm *virtualMachine) []string {
	if vm == nil {
		return []string{ContainersFeature}
	}
	return []string{ContainersFeature, HyperVFeature}
}

func renderNode(in Inputs, kubeletConf string, logs LogLimits, vm *virtualMachine) Node {
	services, files := services(in, logs)
	return Node{
		Version:     in.Version,
		Digest:      in.Payload.Digest,
		Features:    features(vm),
		Directories: directories(services),
		Payload:     PayloadFiles(OnPlatform(Content(in.Payload, in.Config.Network.Provider), in.Cluster.Network.Platform)),
		Files: append([]File{
			{Path: kubeletConfig, Content: kubeletConf},
			{Path: kubeletClientCA, Content: in.Cluster.KubeletClientCA},
			{Path: containerdConfig, Content: renderContainerdConfig(VersionFolder(in.Payload.Digest), vm, userNetwork(in), in.Config.Runtime.CompressedLayers)},
		}, files...),
		Services:           services,
		SandboxImage:       in.sandboxImage(),
		Images:             images(in.Config.Images),
		TaintValue:         taintValue(in.Config.Taint),
		Network:            network(in),
		UserNetwork:        userNetwork(in),
		Policies:           PoliciesOf(in.Config.Network),
		WindowsUpdates:     updatePolicy(in.Config.WindowsUpdates),
		UpdatesToInstall:   UpdatesToInstall(in.Config.WindowsUpdates),
		UpdateGoal:         UpdateGoal(in.Config.WindowsUpdates),
		WatchedEnvironment: proxyVariables(),
		Firewall:           firewall(in),
		Exclusions:         exclusions(in),
		Routes:             routes(in),
		Logs:               logs,
	}
}

// proxyVariables returns the variables that the operator owns. Go programs read them (package net/http).
func proxyVariables() []string { return []string{proxy.HTTPProxy, proxy.HTTPSProxy, proxy.NoProxy} }

// directories returns the directories that services expect; others are created with the files in them.
func directories(services []Service) []string {
	var folders []string
	for _, s := range services {
		folders = append(folders, folderOf(s.Log.Path))
	}
	return append(folders, Metrics, Registries, CNIFolder, staticPods, KubeletCertificates, WICDCertificates)
}

// PayloadFiles returns the files of a payload in the form of a Node.
func PayloadFiles(m payload.Manifest) []PayloadFile {
	var files []PayloadFile
	for _, f := range m.Files {
		files = append(files, PayloadFile{Path: WindowsPath(f.Path), SHA256: f.SHA256, Size: f.Size})
	}
	return files
}
