package hostspec

// LinuxNode describes a Linux node to start.
type LinuxNode struct {
	Name string
	// Cgroup is the name of the node's cgroup, which is the root of all cgroups on the node.
	Cgroup string
	// ServiceAddress is the address of Service kubernetes, which the node has on its loopback link.
	ServiceAddress string
	// Programs are the command lines of the programs that "start <name>" starts. Path is their search path.
	Programs map[string][]string
	Path     string
}

// Files and folders in the folder of a Linux node.
const (
	// LinuxNodeVar is /var of the node: what stays over a restart.
	LinuxNodeVar = "var"
	// LinuxNodePID has the process ID of the node's first process, once its namespaces exist.
	LinuxNodePID = "pid"
	// LinuxNodeReady exists once the node accepts commands to start programs.
	LinuxNodeReady = "ready"
)
