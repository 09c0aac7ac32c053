package runtimeclass

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/windowsbuild"
)

// processIsolation is containerd's runtime for Windows containers with process isolation; the kubelet's default runtime on nodes is the same.
const processIsolation = "runhcs-wcow-process"

// declared is a class that the administrator wants.
type declared struct {
	class      nodev1.RuntimeClass
	build      windowsbuild.Build
	newerHosts bool
}

// declare lists the classes that WindowsConfig says, those of versions first.
func declare(config v1alpha1.WindowsConfigSpec) (all []declared) {
	spec := config.RuntimeClasses
	for _, r := range windowsbuild.Releases() {
		if spec.Versions == nil || slices.Contains(spec.Versions, v1alpha1.WindowsVersion(r.Version)) {
			d := newClass(r.Class, r, spec.NewerHosts)
			d.class.Labels[api.LabelImages] = r.Tag
			all = append(all, d)
		}
	}
	for _, additional := range spec.Additional {
		for _, r := range windowsbuild.Releases() {
			if string(additional.Version) == r.Version {
				all = append(all, newClass(additional.Name, r, additional.NewerHosts))
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

// newClass is the class of a release. Pods with it tolerate the taint of Windows nodes with either value of it.
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
			Handler:    processIsolation,
			Scheduling: &nodev1.Scheduling{
				NodeSelector: selector,
				Tolerations:  []corev1.Toleration{tolerates(api.TaintValue), tolerates(api.TaintValueLowerCase)},
			},
		},
		build: r.Build, newerHosts: newerHosts,
	}
}

// hasNode says whether pods of the class have a node, among nodes of some builds.
func (d declared) hasNode(builds map[windowsbuild.Build]bool) bool {
	for build := range builds {
		if build == d.build || d.newerHosts && windowsbuild.Runs(build, d.build) {
			return true
		}
	}
	return false
}
