package desired

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/payload"
)

// Programs of services that a host has only if they are in its payload, and the one that runs others.
const (
	exporterProgram  = "windows_exporter.exe"
	csiProxyProgram  = "csi-proxy.exe"
	logRunnerProgram = "kube-log-runner.exe"
)

// services returns the services in the order in which they start, and the files that only they need. Flags are those of the original's
// pkg/services/services.go, with the executables in the version's folder, unless a comment says otherwise.
func services(in Inputs, logs LogLimits) ([]Service, []File) {
	folder := VersionFolder(in.Payload.Digest)
	list := []Service{containerd(in, folder), kubelet(in, folder, logs)}
	list = append(list, networkServices(in, folder, logs)...)
	files := append(networkFiles(in), cloudFiles(in)...)
	if wantsCSIProxy(in) && has(in.Payload, csiProxyProgram) {
		list = append(list, csiProxy(in, folder, logs))
	}
	if has(in.Payload, exporterProgram) {
		list = append(list, exporter(in, folder))
		files = append(files, File{Path: exporterConfig, Content: exporterWebConfig(in.Settings.TLS)})
	}
	if runsNodeManager(in) {
		list = append(list, nodeManager(in, folder, logs))
	}
	if slices.ContainsFunc(list, func(s Service) bool { return slices.Contains(s.Needs, WICDIdentity) }) {
		files = append(files, File{Path: wicdKubeconfig, Content: renderKubeconfig(in.Cluster, "wicd", WICDIdentity)})
	}
	return append(list, wicd(folder)), files
}

func has(m payload.Manifest, path string) bool {
	return slices.ContainsFunc(m.Files, func(f payload.File) bool { return f.Path == path })
}

// missing returns the services that nodes of the cluster should have but whose programs are not in the payload, because it was built with
// only some components.
func missing(in Inputs) (services []v1alpha1.MissingService) {
	const getIt = "Use an operator whose payload has all components (make payload)"
	if wantsCSIProxy(in) && !has(in.Payload, csiProxyProgram) {
		services = append(services, v1alpha1.MissingService{Name: CSIProxyService, Effect: "CSI drivers that need it cannot mount volumes on Windows nodes; " +
			"those that run in HostProcess containers can. " + getIt})
	}
	if !in.Cluster.CloudProvider.NodeManager || HasNodeManager(in.Payload) {
		return services
	}
	effect := "nodes on Azure are not initialized: they run pods, but have no provider ID, instance type and zone. " + getIt
	if in.Cluster.CloudProvider.External {
		effect = "nodes on Azure are not initialized, and get no pods, until the DaemonSet for Windows of cloud-provider-azure runs on them, unless the " +
			"cloud-controller-manager runs its controller cloud-node (docs/cloud.md). " + getIt
	}
	return append(services, v1alpha1.MissingService{Name: NodeManagerService, Effect: effect})
}

// containerd writes its log itself: it checks whether the service manager is its parent (IsWindowsService of golang.org/x/sys), so that as
// a child of kube-log-runner it would neither be a service nor write to standard error (cmd/containerd/command/service_windows.go of
// containerd 2.3). At level debug it logs the headers of its requests except Authorization (requestFields of
// core/remotes/docker/resolver.go), and the specs of containers with their environment (CreateContainer of internal/cri/server), so only
// SYSTEM and Administrators may read its log.
func containerd(in Inputs, folder string) Service {
	const name = ContainerdService
	log := Log{Path: logPath(name)}
	return Service{
		Name:        name,
		Description: ServiceDescription(name),
		Command: folder + `\containerd\containerd.exe --config ` + containerdConfig +
			` --log-file ` + log.Path + ` --run-service --log-level ` + level(in, name, "info", "debug", "trace"),
		Ready: runtimeEndpoint,
		Reads: proxyVariables(), // it pulls images
		Log:   log,
	}
}

func kubelet(in Inputs, folder string, logs LogLimits) Service {
	const name = KubeletService
	log := Log{Path: logPath(name), Rotates: true}
	return Service{
		Name:        name,
		Description: ServiceDescription(name),
		DependsOn:   []string{ContainerdService},
		Ready:       "http://127.0.0.1:10248/healthz", // the kubelet's default
		Command: logRunner(folder, log, logs) + folder + `\kubelet.exe --config=` + kubeletConfig +
			` --bootstrap-kubeconfig=` + BootstrapKubeconfig + ` --kubeconfig=` + KubeletKubeconfig +
			` --cert-dir=` + KubeletCertificates + ` --windows-service` +
			` --node-labels=` + api.LabelOSID + `=Windows` +
			` --windows-priorityclass=` + cmp.Or(in.Config.Kubelet.PriorityClass, defaultPriorityClass) + klogLevel(in, name) +
			` --hostname-override=` + markNode + ` --node-ip=` + markNodeIP + cloudFlags(in),
		Reads: proxyVariables(), // its credential providers request tokens from registries
		Log:   log,
	}
}

// wantsCSIProxy reports whether nodes run csi-proxy as a service. By default they do not where it is a DaemonSet: its pods could not start
// next to the service, because both listen on the same named pipes (createListeners of pkg/server in csi-proxy 1.3).
func wantsCSIProxy(in Inputs) bool {
	switch in.Config.CSIProxy {
	case v1alpha1.CSIProxyRun:
		return true
	case v1alpha1.CSIProxyOff:
		return false
	}
	return in.Cluster.Network.OpenShift
}

// csiProxy gives CSI drivers in containers access to the host's disks. With the original operator, it writes its log itself.
func csiProxy(in Inputs, folder string, logs LogLimits) Service {
	const name = CSIProxyService
	log := Log{Path: logPath(name), Rotates: true}
	return Service{
		Name:        name,
		Description: ServiceDescription(name),
		Command:     logRunner(folder, log, logs) + folder + `\` + csiProxyProgram + ` -windows-service` + klogLevel(in, name),
		Log:         log,
	}
}

func wicd(folder string) Service {
	log := Log{Path: WICDLog}
	return Service{
		Name:        api.WICDService,
		Description: ServiceDescription(api.WICDService),
		Command:     folder + `\` + payload.WICD + ` run --windows-service --log-file ` + log.Path,
		Log:         log,
	}
}

// logRunner returns the beginning of a command line: kube-log-runner writes the output of the program after it to a file. That program must
// report to the service manager whatever its parent is, as Kubernetes' programs do.
func logRunner(folder string, log Log, limits LogLimits) string {
	return fmt.Sprintf(`%s\%s -log-file=%s -log-file-size=%d -log-file-age=%s `, folder, logRunnerProgram, log.Path, limits.Size, limits.Age.Duration)
}

func logPath(service string) string { return Logs + `\` + service + `\` + service + `.log` }

func folderOf(path string) string { return path[:strings.LastIndexByte(path, '\\')] }
