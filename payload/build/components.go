package build

import (
	"fmt"
	"slices"
	"strings"

	"github.com/windows-machine-config/wmco/payload"
)

// Component declares one file of the payload: its path, and the program to build.
type Component struct {
	// Name is the common name, such as "kubelet".
	Name string
	// Minor is the minor version of Kubernetes of the component, such as "1.36"; empty if it serves all.
	Minor string
	// Path is the path of the file below the version's folder on a host.
	Path string
	// Group selects the hosts that get it.
	Group string
	// Dictionary is the path of the component that this one is compressed with, in the same group or in base; empty for none. It should
	// share much code with this one, and change no more often: this one is compressed again whenever its dictionary changes.
	Dictionary string
	// License is an SPDX identifier.
	License string

	// Module is the folder, relative to the repository, of the Go module that pins the program's version.
	Module string
	// Package is the import path of the program.
	Package string
	// Stamp sets string variables of the program, as in "main.version=${version}". Supported are ${version} (v1.36.3), ${number}
	// (1.36.3), ${major} and ${minor}, but no date and no commit: a build must give the same bytes whenever and wherever it runs.
	Stamp []string
}

// Components returns all declared components, in the order in which they are built.
func Components() []Component {
	return slices.Concat(ownComponents(), kubernetesComponents(), containerComponents(), nodeComponents(), cloudComponents())
}

// Named returns the declared components with these names, in the order of their declaration: "kubelet" selects the kubelets
// of all minor versions of Kubernetes, "kubelet-1.36" that of one.
func Named(names ...string) ([]Component, error) {
	var chosen []Component
	var known []string
	for _, c := range Components() {
		if slices.Contains(names, c.Name) || slices.Contains(names, c.FullName()) {
			chosen = append(chosen, c)
		}
		for _, name := range []string{c.Name, c.FullName()} {
			if !slices.Contains(known, name) {
				known = append(known, name)
			}
		}
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("component %q does not exist; the components are %s", name, strings.Join(known, ", "))
		}
	}
	return chosen, nil
}

// FullName returns the name of a single component: "kubelet-1.36" where Name is "kubelet".
func (c Component) FullName() string {
	if c.Minor == "" {
		return c.Name
	}
	return c.Name + "-" + c.Minor
}

// containerdPath is the path of the dictionary of most other programs: containerd shares as much code with them as larger programs
// do, every host needs it, and it serves each minor version of Kubernetes.
const containerdPath = "containerd/containerd.exe"

func ownComponents() []Component {
	return []Component{{
		Name: "wicd", Path: payload.WICD, Group: payload.Base, License: "Apache-2.0",
		Module: ".", Package: "github.com/windows-machine-config/wmco/cmd/wicd",
	}, {
		Name: "hybrid-overlay-node", Path: "hybrid-overlay-node.exe", Group: payload.Base, Dictionary: containerdPath, License: "Apache-2.0",
		Module: ".", Package: "github.com/windows-machine-config/wmco/cmd/hybrid-overlay-node",
	}, {
		Name: "wicd-cni", Path: "cni/wicd-cni.exe", Group: payload.Base, Dictionary: "cni/host-local.exe", License: "Apache-2.0",
		Module: ".", Package: "github.com/windows-machine-config/wmco/cmd/wicd-cni",
	}}
}

// Minors returns the minor versions of Kubernetes whose programs the payload has, oldest first: a folder below payload/kubernetes for
// each.
func Minors() []string { return []string{"1.33", "1.34", "1.35", "1.36", "1.37"} }

func kubernetesComponents() []Component {
	stamp := []string{
		"k8s.io/component-base/version.gitVersion=${version}",
		"k8s.io/component-base/version.gitMajor=${major}",
		"k8s.io/component-base/version.gitMinor=${minor}",
		"k8s.io/component-base/version.gitCommit=",
		"k8s.io/component-base/version.gitTreeState=clean",
	}
	var all []Component
	for _, minor := range Minors() {
		module := "payload/kubernetes/" + minor
		all = append(all, Component{
			Name: "kubelet", Minor: minor, Path: "kubelet.exe", Group: payload.Kubernetes(minor), Dictionary: containerdPath, License: "Apache-2.0",
			Module: module, Package: "k8s.io/kubernetes/cmd/kubelet", Stamp: stamp,
		}, Component{
			Name: "kube-proxy", Minor: minor, Path: "kube-proxy.exe", Group: payload.Kubernetes(minor), Dictionary: "kubelet.exe", License: "Apache-2.0",
			Module: module, Package: "k8s.io/kubernetes/cmd/kube-proxy", Stamp: stamp,
		})
	}
	newest := "payload/kubernetes/" + Minors()[len(Minors())-1]
	return append(all, Component{
		Name: "kube-log-runner", Path: "kube-log-runner.exe", Group: payload.Base, Dictionary: containerdPath, License: "Apache-2.0",
		Module: newest, Package: "k8s.io/component-base/logs/kube-log-runner",
	})
}

func containerComponents() []Component {
	plugin := []string{"github.com/containernetworking/plugins/pkg/utils/buildversion.BuildVersion=${version}"}
	return []Component{{
		Name: "containerd", Path: containerdPath, Group: payload.Base, License: "Apache-2.0",
		Module: "payload/containerd", Package: "github.com/containerd/containerd/v2/cmd/containerd",
		Stamp: []string{"github.com/containerd/containerd/v2/version.Version=${version}"},
	}, {
		Name: "containerd-shim-runhcs-v1", Path: "containerd/containerd-shim-runhcs-v1.exe", Group: payload.Base, Dictionary: containerdPath, License: "MIT",
		Module: "payload/hcsshim", Package: "github.com/Microsoft/hcsshim/cmd/containerd-shim-runhcs-v1",
		Stamp: []string{"main.version=${version}"},
	}, {
		Name: "win-overlay", Path: "cni/win-overlay.exe", Group: payload.Base, Dictionary: "cni/win-bridge.exe", License: "Apache-2.0",
		Module: "payload/cni", Package: "github.com/containernetworking/plugins/plugins/main/windows/win-overlay", Stamp: plugin,
	}, {
		Name: "win-bridge", Path: "cni/win-bridge.exe", Group: payload.Base, Dictionary: containerdPath, License: "Apache-2.0",
		Module: "payload/cni", Package: "github.com/containernetworking/plugins/plugins/main/windows/win-bridge", Stamp: plugin,
	}, {
		Name: "host-local", Path: "cni/host-local.exe", Group: payload.Base, Dictionary: containerdPath, License: "Apache-2.0",
		Module: "payload/cni", Package: "github.com/containernetworking/plugins/plugins/ipam/host-local", Stamp: plugin,
	}, {
		Name: "flanneld", Path: "flanneld.exe", Group: payload.Flannel, Dictionary: containerdPath, License: "Apache-2.0",
		Module: "payload/flannel", Package: "github.com/flannel-io/flannel",
		Stamp: []string{"github.com/flannel-io/flannel/pkg/version.Version=${version}"},
	}}
}

func nodeComponents() []Component {
	return []Component{{
		Name: "windows_exporter", Path: "windows_exporter.exe", Group: payload.Base, Dictionary: containerdPath, License: "MIT",
		Module: "payload/windows-exporter", Package: "github.com/prometheus-community/windows_exporter/cmd/windows_exporter",
		Stamp: []string{"github.com/prometheus/common/version.Version=${number}"},
	}, {
		Name: "csi-proxy", Path: "csi-proxy.exe", Group: payload.Base, Dictionary: containerdPath, License: "Apache-2.0",
		Module: "payload/csi-proxy", Package: "github.com/kubernetes-csi/csi-proxy/cmd/csi-proxy",
		Stamp: []string{"main.version=${version}"},
	}}
}

func cloudComponents() []Component {
	return []Component{{
		Name: "ecr-credential-provider", Path: "ecr-credential-provider.exe", Group: payload.AWS, Dictionary: containerdPath, License: "Apache-2.0",
		Module: "payload/aws", Package: "k8s.io/cloud-provider-aws/cmd/ecr-credential-provider",
		Stamp: []string{"main.gitVersion=${version}", "k8s.io/component-base/version.gitVersion=${version}"},
	}, {
		Name: "azure-cloud-node-manager", Path: "azure-cloud-node-manager.exe", Group: payload.Azure, Dictionary: containerdPath, License: "Apache-2.0",
		Module: "payload/azure", Package: "sigs.k8s.io/cloud-provider-azure/cmd/cloud-node-manager",
		Stamp: []string{"sigs.k8s.io/cloud-provider-azure/pkg/version.gitVersion=${version}"},
	}}
}
