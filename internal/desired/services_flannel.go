package desired

import (
	"cmp"
	"fmt"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/payload"
)

const (
	flannelProgram = "flanneld.exe"
	flannelNetConf = `C:\k\flannel\net-conf.json`
	// flannelSubnet is where flanneld writes what the plugin flannel reads; we have no such plugin, and Flannel's own place is
	// none of ours.
	flannelSubnet = `C:\k\flannel\subnet.env`
)

// flannelNetwork is the name of the network that flanneld makes (pkg/backend/vxlan/vxlan_windows.go of Flannel).
func flannelNetwork(f Flannel) string {
	return cmp.Or(f.Name, fmt.Sprintf("flannel.%d", f.VNI))
}

// flanneld makes the network, and keeps the ways to other nodes. It is no Windows service by itself: WICD runs it as one. It waits a
// while for its Node and ends when that has no range of pods yet; then it is started again.
//
// Flannel would tell with a condition that the network works, which only cloud providers ask for that make routes by themselves; the
// host's rights do not reach so far.
func flanneld(in Inputs, folder string) Service {
	log := Log{Path: logPath(FlannelService)}
	return Service{
		Name:        FlannelService,
		Description: ServiceDescription(FlannelService),
		DependsOn:   []string{KubeletService},
		Command: programHost(folder, log, "NODE_NAME="+markNode) + folder + `\` + flannelProgram + ` --kube-subnet-mgr --kubeconfig-file=` + wicdKubeconfig +
			` --net-config-path=` + flannelNetConf + ` --subnet-file=` + flannelSubnet + ` --iface=` + markNodeIP +
			` --set-node-network-unavailable=false` + level(in, FlannelService, "", " --v=4", " --v=6"),
		Needs: []string{WICDIdentity},
		Log:   log,
	}
}

// programHost is the beginning of a command line: WICD runs the program after it as a service, with a variable, and writes what it says to
// a file.
func programHost(folder string, log Log, variable string) string {
	return folder + `\` + payload.WICD + ` host --windows-service --log-file ` + log.Path + ` --env ` + variable + ` -- `
}

// Content is what hosts get of a payload: not what only another provider of the network needs. Its digest remains that of the whole:
// what differs is no other version.
func Content(m payload.Manifest, provider v1alpha1.NetworkProvider) payload.Manifest {
	if provider == v1alpha1.NetworkFlannel {
		return m
	}
	var files []payload.File
	for _, f := range m.Files {
		if f.Group != payload.Flannel {
			files = append(files, f)
		}
	}
	m.Files = files
	return m
}
