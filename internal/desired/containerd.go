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

// runtimeEndpoint is where containerd answers, as the kubelet writes it.
const runtimeEndpoint = "npipe://./pipe/containerd-containerd"

// containerdTemplate is the configuration of containerd 2.x (config version 3; docs/cri/config.md there). What
// it sets is what the original's containerd_conf.toml (version 2) sets. Literal strings need no escaping of
// backslashes.
//
// No annotation of a pod reaches the shim, as with the original. containerd's own default for Windows lets io.microsoft.container.*
// through: with those a pod gives itself processors, memory and bandwidth past its limits and the quota of its namespace, and objects of
// the host by a file of its own choice (io.microsoft.container.wcow.deviceextensions; pkg/annotations of hcsshim).
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

// hyperVTemplate is the runtime for Hyper-V isolation. Annotations of a pod could give its virtual machine more memory and processors than
// the pod asks for (io.microsoft.virtualmachine.*), and so none reaches the shim here, either: all virtual machines are as WindowsConfig says.
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

// renderContainerdConfig has containerd look for network plugins among ours first: it takes the first of a name that it finds.
func renderContainerdConfig(folder string, machine *virtualMachine, users *UserNetwork, layers v1alpha1.CompressedLayers) string {
	config := strings.Replace(containerdTemplate, "@hyperv@", machine.runtime(), 1)
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

// virtualMachine is what each pod with Hyper-V isolation has; nil where there is no such isolation.
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

// Limits of virtual machines, and what they have by default.
const (
	minMachineMemory, maxMachineMemory = 512, 1 << 20 // megabytes
	maxMachineProcessors               = 64
	defaultMachineMemory               = "1Gi"
	defaultMachineProcessors           = 2
)

// machineOf reads what WindowsConfig says of virtual machines.
func machineOf(spec *v1alpha1.HyperVSpec) (*virtualMachine, error) {
	if spec == nil {
		return nil, nil
	}
	wrong := func(field string, value any, want string) (*virtualMachine, error) {
		return nil, fmt.Errorf(`%w: WindowsConfig "cluster": spec.runtimeClasses.hyperV.%s is %.64q; set %s`, ErrSettings, field, fmt.Sprint(value), want)
	}
	memory, err := resource.ParseQuantity(cmp.Or(spec.Memory, defaultMachineMemory))
	m := virtualMachine{megabytes: memory.Value() >> 20, processors: cmp.Or(spec.Processors, defaultMachineProcessors)}
	if err != nil || m.megabytes < minMachineMemory || m.megabytes > maxMachineMemory {
		return wrong("memory", spec.Memory, "bytes from 512Mi to 1Ti, such as 2Gi")
	}
	if m.processors < 1 || m.processors > maxMachineProcessors {
		return wrong("processors", spec.Processors, "a number from 1 to 64")
	}
	return &m, nil
}
