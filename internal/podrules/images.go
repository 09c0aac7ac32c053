package podrules

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/windows-machine-config/wmco/internal/windowsbuild"
)

// container is a container of a pod, and where its image is in the pod's spec.
type container struct{ field, image string }

func containersOf(pod *corev1.PodSpec) (all []container) {
	for i, c := range pod.InitContainers {
		all = append(all, container{fmt.Sprintf("initContainers[%d].image", i), c.Image})
	}
	for i, c := range pod.Containers {
		all = append(all, container{fmt.Sprintf("containers[%d].image", i), c.Image})
	}
	return all
}

// Images are those that a pod names, by the field that does; fields in the order of containers.
func Images(spec map[string]any) (fields []string, images map[string]string) {
	var pod corev1.PodSpec
	if runtime.DefaultUnstructuredConverter.FromUnstructured(spec, &pod) != nil {
		return nil, nil
	}
	images = map[string]string{}
	for _, c := range containersOf(&pod) {
		if c.image != "" { // a Deployment without one is refused
			fields, images[c.field] = append(fields, c.field), c.image
		}
	}
	return fields, images
}

// CheckImages finds which images do not run on the nodes that a pod asks for. Builds are what registries say of images; an image that is
// missing there is not checked.
func CheckImages(spec map[string]any, builds map[string]windowsbuild.Image) (found []Finding) {
	var pod corev1.PodSpec
	if runtime.DefaultUnstructuredConverter.FromUnstructured(spec, &pod) != nil {
		return nil
	}
	hosts, asked := hostsOf(&pod)
	hostProcess := hostProcessOf(&pod).all()
	for _, c := range containersOf(&pod) {
		is, known := builds[c.image]
		if !known {
			continue
		}
		runs := slices.DeleteFunc(slices.Clone(hosts), func(h windowsbuild.Build) bool { return !is.RunsOn(h) })
		switch {
		case !is.ForWindows():
			found = append(found, Finding{Error, c.field, fmt.Sprintf("Image %s is not for Windows on amd64.", c.image), "Use an image for Windows, or a tag that has one."})
		case hostProcess: // they run on every build
		case len(runs) == 0:
			found = append(found, Finding{Error, c.field, fmt.Sprintf("Image %s is for %s, which does not run on %s.", c.image, is, asked), instead(is)})
			return found
		default:
			hosts, asked = runs, "nodes that run the images before it"
		}
	}
	return found
}

// hostsOf are the builds of the nodes that a pod may be on, and their name for people.
func hostsOf(pod *corev1.PodSpec) (hosts []windowsbuild.Build, name string) {
	if label := pod.NodeSelector[corev1.LabelWindowsBuild]; label != "" {
		if b, err := windowsbuild.Parse(label); err == nil {
			return []windowsbuild.Build{b}, "nodes with " + b.String() + ", which the pod selects"
		}
	}
	for _, r := range windowsbuild.Releases() {
		if pod.RuntimeClassName != nil && *pod.RuntimeClassName == r.Class {
			return []windowsbuild.Build{r.Build}, r.Name + ", for which RuntimeClass " + r.Class + " is"
		}
		hosts = append(hosts, r.Build)
	}
	return hosts, "any Windows Server that nodes have"
}

// instead names the RuntimeClass for the image.
func instead(is windowsbuild.Image) string {
	for _, r := range windowsbuild.Releases() {
		if is.RunsOn(r.Build) {
			return "Use an image for the build of the nodes; or RuntimeClass " + r.Class + ", where all images of the pod are for " + r.Name + "."
		}
	}
	return "Use an image for the build of the nodes."
}
