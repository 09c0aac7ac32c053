package podrules

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/windows-machine-config/wmco/internal/shared/windowsbuild"
)

// ImageField is a field of a pod's spec that names an image.
type ImageField struct{ Field, Image string }

// ImageBuilds is the result of looking up an image in its registry.
type ImageBuilds struct {
	Image windowsbuild.Image
	Err   error
}

// Images returns the images that a pod names.
func Images(spec map[string]any) []ImageField {
	var pod corev1.PodSpec
	if runtime.DefaultUnstructuredConverter.FromUnstructured(spec, &pod) != nil {
		return nil // Check reports the error
	}
	return imagesOf(&pod)
}

func imagesOf(pod *corev1.PodSpec) (all []ImageField) {
	add := func(list string, containers []corev1.Container) {
		for i, c := range containers {
			if c.Image != "" { // the API server rejects a template without one
				all = append(all, ImageField{fmt.Sprintf("%s[%d].image", list, i), c.Image})
			}
		}
	}
	add("initContainers", pod.InitContainers)
	add("containers", pod.Containers)
	return all
}

// CheckImages reports images that do not run on the nodes that a pod selects, and images that could not be read. It ignores images that are not
// in builds.
func CheckImages(spec map[string]any, builds map[string]ImageBuilds) []Finding {
	var pod corev1.PodSpec
	if runtime.DefaultUnstructuredConverter.FromUnstructured(spec, &pod) != nil {
		return nil // Check reports the error
	}
	var found, unread []Finding
	hosts, requested := hostsOf(&pod)
	hostProcess := hostProcessOf(&pod).all()
	for _, c := range imagesOf(&pod) {
		result, known := builds[c.Image]
		if !known {
			continue
		}
		runs := slices.DeleteFunc(slices.Clone(hosts), func(h windowsbuild.Build) bool { return !result.Image.RunsOn(h) })
		switch {
		case result.Err != nil:
			unread = append(unread, Finding{Warning, c.Field, fmt.Sprintf("Image %s could not be read: %v.", c.Image, result.Err),
				"Check the name of the image, and log in to its registry with docker login or podman login."})
		case len(hosts) == 0: // no node runs the images before this one, which is already reported
		case !result.Image.ForWindows():
			found = append(found, Finding{Error, c.Field, fmt.Sprintf("Image %s is not for Windows on amd64.", c.Image), "Use an image for Windows, or a tag that has one."})
		case hostProcess: // HostProcess containers run on every build
		case len(runs) == 0:
			found = append(found, Finding{Error, c.Field, fmt.Sprintf("Image %s is for %s, which does not run on %s.", c.Image, result.Image, requested), suggestClass(result.Image, pod.RuntimeClassName)})
			hosts = nil
		default:
			hosts, requested = runs, "nodes that run the preceding images"
		}
	}
	return slices.Concat(found, unread)
}

// hostsOf returns the builds of the nodes that can run a pod, and a description of these nodes.
func hostsOf(pod *corev1.PodSpec) (hosts []windowsbuild.Build, name string) {
	if label := pod.NodeSelector[corev1.LabelWindowsBuild]; label != "" {
		if b, err := windowsbuild.Parse(label); err == nil {
			return []windowsbuild.Build{b}, "nodes with " + b.String() + ", which the pod selects"
		}
	}
	for _, r := range windowsbuild.Releases() {
		switch class := pod.RuntimeClassName; {
		case class != nil && *class == r.Class:
			return []windowsbuild.Build{r.Build}, r.Name + ", which RuntimeClass " + r.Class + " selects"
		case class != nil && *class == r.HyperVClass():
			return []windowsbuild.Build{r.Build}, r.Name + ", which RuntimeClass " + *class + " selects; even with Hyper-V isolation, containerd pulls images for the build of the node"
		}
		hosts = append(hosts, r.Build)
	}
	return hosts, "any supported Windows Server"
}

// suggestClass suggests the RuntimeClass for the image, with Hyper-V isolation if the pod's class has it.
func suggestClass(current windowsbuild.Image, class *string) string {
	isolated := class != nil && slices.ContainsFunc(windowsbuild.Releases(), func(r windowsbuild.Release) bool { return r.HyperVClass() == *class })
	for _, r := range windowsbuild.Releases() {
		if current.RunsOn(r.Build) {
			name := r.Class
			if isolated {
				name = r.HyperVClass()
			}
			return "Use an image for the build of the nodes, or RuntimeClass " + name + " if all images of the pod are for " + r.Name + "."
		}
	}
	return "Use an image for the build of the nodes."
}
