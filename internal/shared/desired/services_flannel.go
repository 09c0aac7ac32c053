package desired

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/payload"
)

const (
	flannelProgram = "flanneld.exe"
	flannelNetConf = `C:\k\flannel\net-conf.json`
	// flannelSubnet is where flanneld writes the file for the plugin flannel. The payload has no such plugin, and the operator does not own
	// Flannel's default folder.
	flannelSubnet = `C:\k\flannel\subnet.env`
)

// flannelNetwork returns the name of the network that flanneld creates (pkg/backend/vxlan/vxlan_windows.go of Flannel).
func flannelNetwork(f Flannel) string {
	return cmp.Or(f.Name, fmt.Sprintf("flannel.%d", f.VNI))
}

// flanneld creates the network and maintains the routes to other nodes. It is not a Windows service itself: WICD runs it as one. It waits
// some time for its Node and exits if that has no range of pods yet; then it is restarted.
//
// Flannel could report in a condition that the network works. Only cloud providers that create routes themselves need that, and the host's
// permissions do not allow it.
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

// programHost returns the beginning of a command line: WICD runs the program after it as a service, with a variable, and writes its output
// to a file.
func programHost(folder string, log Log, variable string) string {
	return folder + `\` + payload.WICD + ` host --windows-service --log-file ` + log.Path + ` --env ` + variable + ` -- `
}

// Content returns the files of a payload for hosts: without those that only another network provider needs. The digest remains that of the
// whole payload, because this difference does not make another version.
func Content(m payload.Manifest, provider v1alpha1.NetworkProvider) payload.Manifest {
	if provider == v1alpha1.NetworkFlannel {
		return m
	}
	m.Files = slices.DeleteFunc(slices.Clone(m.Files), func(f payload.File) bool { return f.Group == payload.Flannel })
	return m
}
