package desired

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
)

// RuntimePipe is the named pipe on which containerd listens.
const RuntimePipe = `\\.\pipe\containerd-containerd`

// runtimeEndpoint is containerd's address in the syntax of the kubelet.
const runtimeEndpoint = "npipe://./pipe/containerd-containerd"

// containerdTemplate is the configuration of containerd 2.x (config version 3; docs/cri/config.md there). It sets the same as the original's
// containerd_conf.toml (version 2). Literal strings need no escaped backslashes.
//
// No pod annotation reaches the shim, as with the original. containerd's default on Windows passes io.microsoft.container.*, with which a pod
// could give itself processors, memory and bandwidth beyond its limits and the quota of its namespace, and objects of the host through a file
// of its choice (io.microsoft.container.wcow.deviceextensions; pkg/annotations of hcsshim).
const containerdTemplate = `version = 3
root = '@root@'
state = '@state@'
disabled_plugins = ['io.containerd.nri.v1.nri']

[grpc]
  address = '\\.\pipe\containerd-containerd'

[ttrpc]
  address = '\\.\pipe\containerd-containerd.ttrpc'

[plugins.'io.containerd.cri.v1.images']
  snapshotter = 'windows'
  image_pull_progress_timeout = '30m0s'
  discard_unpacked_layers = @discard@

[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = '` + markSandboxImage + `'

[plugins.'io.containerd.cri.v1.images'.registry]
  config_path = '@registries@'

[plugins.'io.containerd.cri.v1.runtime'.containerd]
  default_runtime_name = '` + api.HandlerProcessIsolation + `'

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.` + api.HandlerProcessIsolation + `]
  runtime_type = 'io.containerd.runhcs.v1'
  runtime_path = '@folder@\containerd\containerd-shim-runhcs-v1.exe'
  container_annotations = []
  pod_annotations = []
@hyperv@
[plugins.'io.containerd.cri.v1.runtime'.cni]
  bin_dirs = ['@folder@\cni'@binDir@]
  conf_dir = '@cni@'
  max_conf_num = 1
`

// hyperVTemplate is the runtime for Hyper-V isolation. Pod annotations could give the virtual machine more memory and processors than the pod
// requests (io.microsoft.virtualmachine.*), so none reaches the shim here, either: WindowsConfig sets the size of all virtual machines.
const hyperVTemplate = `
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.` + api.HandlerHyperVIsolation + `]
  runtime_type = 'io.containerd.runhcs.v1'
  runtime_path = '@folder@\containerd\containerd-shim-runhcs-v1.exe'
  container_annotations = []
  pod_annotations = []

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.` + api.HandlerHyperVIsolation + `.options]
  SandboxIsolation = 1
  ScaleCpuLimitsToSandbox = true
  VmMemorySizeInMb = @memory@
  VmProcessorCount = @processors@
`

// renderContainerdConfig returns containerd's configuration. The payload's network plugins come first, because containerd uses the first
// plugin of a name.
func renderContainerdConfig(folder string, vm *virtualMachine, users *UserNetwork, layers v1alpha1.CompressedLayers) string {
	config := strings.Replace(containerdTemplate, "@hyperv@", vm.runtime(), 1)
	binDir := ""
	if users != nil && users.BinDir != "" {
		binDir = ", '" + users.BinDir + "'"
	}
	return strings.NewReplacer(
		"@root@", ContainerdRoot,
		"@state@", ContainerdState,
		"@registries@", Registries,
		"@folder@", folder,
		"@binDir@", binDir,
		"@cni@", users.CNIFolder(),
		"@discard@", strconv.FormatBool(layers == v1alpha1.CompressedLayersDiscard),
	).Replace(config)
}

// virtualMachine is the size of the virtual machine of each pod with Hyper-V isolation; nil if that is disabled.
type virtualMachine struct {
	megabytes  int64
	processors int32
}

func (m *virtualMachine) runtime() string {
	if m == nil {
		return ""
	}
	return strings.NewReplacer("@memory@", strconv.FormatInt(m.megabytes, 10), "@processors@", strconv.Itoa(int(m.processors))).Replace(hyperVTemplate)
}

// Limits and defaults of virtual machines.
const (
	minMachineMemory, maxMachineMemory = 512, 1 << 20 // megabytes
	maxMachineProcessors               = 64
	defaultMachineMemory               = "1Gi"
	defaultMachineProcessors           = 2
)

// virtualMachineOf reads the virtual machine settings of WindowsConfig.
func virtualMachineOf(spec *v1alpha1.HyperVSpec) (*virtualMachine, error) {
	if spec == nil {
		return nil, nil
	}
	invalid := func(field string, value any, want string) (*virtualMachine, error) {
		return nil, fmt.Errorf(`%w: WindowsConfig "cluster": spec.runtimeClasses.hyperV.%s is %.64q; set %s`, ErrSettings, field, fmt.Sprint(value), want)
	}
	memory, err := resource.ParseQuantity(cmp.Or(spec.Memory, defaultMachineMemory))
	m := virtualMachine{megabytes: memory.Value() >> 20, processors: cmp.Or(spec.Processors, defaultMachineProcessors)}
	if err != nil || m.megabytes < minMachineMemory || m.megabytes > maxMachineMemory {
		return invalid("memory", spec.Memory, "bytes from 512Mi to 1Ti, such as 2Gi")
	}
	if m.processors < 1 || m.processors > maxMachineProcessors {
		return invalid("processors", spec.Processors, "a number from 1 to 64")
	}
	return &m, nil
}
