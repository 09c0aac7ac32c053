package generations

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/internal/observe/podrules"
	"github.com/windows-machine-config/wmco/internal/shared/mirrors"
	"github.com/windows-machine-config/wmco/internal/shared/nodestate"
	"github.com/windows-machine-config/wmco/internal/shared/windowsbuild"
)

// ImageKey is an image and Workload.Access, with which it is read.
type ImageKey struct{ Image, Access string }

// Reading is the result of reading an image from its registry.
type Reading struct {
	Image windowsbuild.Image
	// Unread is why it was not read; empty if it was. Remedy is what to do then.
	Unread, Remedy string
}

// Readings are the results by image. An image that is not in it was not read.
type Readings map[ImageKey]Reading

// notQueried is why images without a Reading were not read.
const notQueried = "its registry was not queried"

// proof is what the cluster shows about an image without its registry: where it ran.
type proof struct {
	// builds are those of the nodes that ran it.
	builds []windowsbuild.Build
	// text names one of them.
	text string
}

// appliesTo reports whether a host with a build runs the image, too.
func (p proof) appliesTo(host windowsbuild.Build) bool {
	return slices.ContainsFunc(p.builds, func(ran windowsbuild.Build) bool { return windowsbuild.Implies(ran, host) })
}

// proofs are those of a cluster, by the normal form of an image's name.
type proofs map[string]proof

// of returns the proof for an image, by any form of its name.
func (p proofs) of(image string) proof { return p[mirrors.SplitImage(image).String()] }

// proofsOf finds images that have run on Windows nodes, or that their runtimes list: containerd lists an image only if it has an entry for the host.
// Kubelets report 50 images by default, the largest.
func proofsOf(c Cluster) proofs {
	found := proofs{}
	note := func(image string, b windowsbuild.Build, text string) {
		p := found[image]
		if b == 0 || slices.Contains(p.builds, b) {
			return
		}
		found[image] = proof{append(p.builds, b), cmp.Or(p.text, text)}
	}
	nodes := map[string]windowsbuild.Build{}
	for i := range c.Nodes {
		nodes[c.Nodes[i].Name] = nodestate.WindowsBuild(&c.Nodes[i])
	}
	for i := range c.Pods {
		p := &c.Pods[i]
		b := nodes[p.Spec.NodeName]
		for _, image := range startedImages(p) {
			note(mirrors.SplitImage(image).String(), b, fmt.Sprintf("pod %s/%s ran it on %s with %s", p.Namespace, p.Name, p.Spec.NodeName, b))
		}
	}
	for i := range c.Nodes {
		b := nodes[c.Nodes[i].Name]
		for _, image := range c.Nodes[i].Status.Images {
			for _, name := range image.Names {
				note(mirrors.SplitImage(name).String(), b, fmt.Sprintf("node %s with %s has pulled it", c.Nodes[i].Name, b))
			}
		}
	}
	return found
}

// startedImages returns the images of a pod whose containers have started. Those of HostProcess pods start on every build.
func startedImages(p *corev1.Pod) (images []string) {
	if podrules.IsHostProcess(&p.Spec) {
		return nil
	}
	started := map[string]bool{}
	for _, s := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		started[s.Name] = s.State.Running != nil || s.State.Terminated != nil && !s.State.Terminated.StartedAt.IsZero() || s.LastTerminationState.Terminated != nil
	}
	for _, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
		if started[c.Name] {
			images = append(images, c.Image)
		}
	}
	return images
}

// image returns the result for an image: that of its registry, or else what the cluster proves.
func (a *assessor) image(w *Workload, name string) Image {
	out := Image{Image: name, Builds: map[string]Verdict{}}
	reading, isRead := a.read[ImageKey{name, w.Access}]
	if !isRead {
		reading.Unread = notQueried
	}
	if reading.Unread != "" {
		out.Unread, out.Proof = reading.Unread, a.proofs.of(name).text
	} else {
		for _, b := range reading.Image.Builds {
			out.For = append(out.For, b.Label())
		}
		if reading.Image.Any {
			out.For = append(out.For, "any")
		}
	}
	for _, b := range a.builds {
		out.Builds[b.Label()] = a.verdict(w, name, reading, b)
	}
	return out
}

func (a *assessor) verdict(w *Workload, name string, reading Reading, host windowsbuild.Build) Verdict {
	switch {
	case reading.Unread == "" && !reading.Image.ForWindows():
		return NoEntry
	case podrules.IsHostProcess(&w.Template), reading.Unread == "" && reading.Image.RunsOn(host):
		return Runs
	case reading.Unread == "":
		return NoEntry
	case a.proofs.of(name).appliesTo(host):
		return Runs
	}
	return Unknown
}
