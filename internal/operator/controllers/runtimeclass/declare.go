package runtimeclass

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/shared/nodestate"
	"github.com/windows-machine-config/wmco/internal/shared/windowsbuild"
)

// virtualMachineMemory is the memory that Windows takes in a pod's virtual machine, in addition to the containers. It is an estimate: it has not been
// measured with these images.
const virtualMachineMemory = "512Mi"

type declared struct {
	class      nodev1.RuntimeClass
	build      windowsbuild.Build
	newerHosts bool
}

// isolates reports whether pods of the class have Hyper-V isolation.
func (d declared) isolates() bool { return d.class.Handler == api.HandlerHyperVIsolation }

// declare returns the classes that WindowsConfig declares, those of Windows versions first.
func declare(config v1alpha1.WindowsConfigSpec) (all []declared) {
	spec := config.RuntimeClasses
	for _, r := range windowsbuild.Releases() {
		if spec.Versions == nil || slices.Contains(spec.Versions, v1alpha1.WindowsVersion(r.Version)) {
			d := newClass(r.Class, r, spec.NewerHosts)
			d.class.Labels[api.LabelImages] = r.Tag
			all = append(all, d)
			if spec.HyperV != nil {
				all = append(all, newClass(r.HyperVClass(), r, spec.NewerHosts).isolated())
			}
		}
	}
	for _, additional := range spec.Additional {
		for _, r := range windowsbuild.Releases() {
			switch d := newClass(additional.Name, r, additional.NewerHosts); {
			case string(additional.Version) != r.Version:
			case !additional.HyperV:
				all = append(all, d)
			case spec.HyperV != nil: // the CRD requires it
				all = append(all, d.isolated())
			}
		}
	}
	for _, d := range all {
		if d.class.Name == config.Pods.DefaultRuntimeClass {
			d.class.Labels[api.LabelDefaultClass] = "true"
		}
	}
	return all
}

// newClass returns the class of a release. Its pods tolerate the taint of Windows nodes with either value.
func newClass(name string, r windowsbuild.Release, newerHosts bool) declared {
	selector := map[string]string{corev1.LabelOSStable: "windows", corev1.LabelWindowsBuild: r.Build.Label()}
	if newerHosts {
		selector = map[string]string{corev1.LabelOSStable: "windows", api.LabelRunsPrefix + r.Class: "true"}
	}
	tolerates := func(value string) corev1.Toleration {
		return corev1.Toleration{Key: api.TaintKey, Operator: corev1.TolerationOpEqual, Value: value, Effect: corev1.TaintEffectNoSchedule}
	}
	return declared{
		class: nodev1.RuntimeClass{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{api.LabelManagedBy: api.ManagedBy}},
			Handler:    api.HandlerProcessIsolation,
			Scheduling: &nodev1.Scheduling{
				NodeSelector: selector,
				Tolerations:  []corev1.Toleration{tolerates(api.TaintValue), tolerates(api.TaintValueLowerCase)},
			},
		},
		build: r.Build, newerHosts: newerHosts,
	}
}

// isolated returns the class with Hyper-V isolation. Nodes run the same images as without it: see windowsbuild.Runs.
func (d declared) isolated() declared {
	d.class.Handler = api.HandlerHyperVIsolation
	d.class.Scheduling.NodeSelector[api.LabelHyperV] = "true"
	d.class.Overhead = &nodev1.Overhead{PodFixed: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(virtualMachineMemory)}}
	return d
}

// hasNode reports whether pods of the class fit one of the nodes.
func (d declared) hasNode(nodes []corev1.Node) bool {
	return slices.ContainsFunc(nodes, func(n corev1.Node) bool {
		build := nodestate.WindowsBuild(&n)
		runs := build == d.build || d.newerHosts && windowsbuild.Runs(build, d.build)
		return runs && (!d.isolates() || n.Labels[api.LabelHyperV] == "true")
	})
}
