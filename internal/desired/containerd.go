package desired

import "strings"

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

[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = '` + markSandboxImage + `'

[plugins.'io.containerd.cri.v1.images'.registry]
  config_path = '@registries@'

[plugins.'io.containerd.cri.v1.runtime'.containerd]
  default_runtime_name = 'runhcs-wcow-process'

[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runhcs-wcow-process]
  runtime_type = 'io.containerd.runhcs.v1'
  runtime_path = '@folder@\containerd\containerd-shim-runhcs-v1.exe'
  container_annotations = []
  pod_annotations = []

[plugins.'io.containerd.cri.v1.runtime'.cni]
  bin_dirs = ['@folder@\cni']
  conf_dir = '@cni@'
  max_conf_num = 1
`

func renderContainerdConfig(folder string) string {
	return strings.NewReplacer(
		"@root@", ContainerdRoot,
		"@state@", ContainerdState,
		"@registries@", Registries,
		"@folder@", folder,
		"@cni@", CNIFolder,
	).Replace(containerdTemplate)
}
