// Package release says, purely, which of the operator's content goes with a cluster. The payload has the kubelet and
// kube-proxy of several minor versions of Kubernetes; with each of them, everything else makes one release. A cluster's
// nodes get the newest release that is not newer than the oldest of its API servers, by Kubernetes' version skew policy
// (https://kubernetes.io/releases/version-skew-policy/).
package release

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/windows-machine-config/wmco/payload"
)

// MinKubernetes is the oldest minor version of an API server that the operator works with: its admission policies, the ID of each token in
// certificate requests and ServiceCIDR are on by default from this version on.
const MinKubernetes = "1.33"

// Release is the content that nodes get with one minor version of Kubernetes.
type Release struct {
	// Version is what nodes report that have all of it, as in 1.2.0-k1.36-3f9a2c1.
	Version string
	// Minor is that of Kubernetes, as in 1.36; empty in a payload without such groups, which has one release.
	Minor string
	// Kubelet is the version of the kubelet, as in v1.36.3; empty in a payload without one.
	Kubelet string
	// Containerd is the version of containerd, as in v2.3.7; empty in a payload without one.
	Containerd string
	// Content is every file that a host can get, on any network.
	Content payload.Manifest
}

// Of returns the releases of a payload, oldest first: one at least.
func Of(operator string, m payload.Manifest) []Release {
	minors := m.Minors()
	if len(minors) == 0 {
		return []Release{of(operator, "", m.Select(payload.Base, payload.Flannel, payload.AWS, payload.Azure))}
	}
	var all []Release
	for _, minor := range minors {
		all = append(all, of(operator, minor, m.Select(payload.Base, payload.Flannel, payload.AWS, payload.Azure, payload.Kubernetes(minor))))
	}
	return all
}

func of(operator, minor string, content payload.Manifest) Release {
	return Release{Version: name(operator, minor, content.Digest), Minor: minor, Kubelet: versionOf("kubelet", content), Containerd: versionOf("containerd", content), Content: content}
}

// name is short, says the minor version, and is the same for operators with the same content and version.
func name(operator, minor, digest string) string {
	if minor != "" {
		operator += "-k" + minor
	}
	return operator + "-" + digest[:min(7, len(digest))]
}

func versionOf(component string, content payload.Manifest) string {
	i := slices.IndexFunc(content.Files, func(f payload.File) bool { return f.Component == component })
	if i < 0 {
		return ""
	}
	return content.Files[i].Version
}

// ErrUnknown means that no API server says which version it is. Nodes stay as they are until one does.
var ErrUnknown = errors.New("no API server says its version (GET /version)")

// olderMinors is how many minor versions a kubelet may be older than the API server (Kubernetes' version skew policy).
const olderMinors = 3

// Choose returns the newest release that is not newer than the oldest of the API servers' versions. Versions that cannot be
// parsed are ignored. The error says which versions there are, and what to upgrade; with it comes the release that is nearest,
// which no new node may have.
func Choose(all []Release, servers []string) (Release, error) {
	oldest, ok := oldestOf(servers)
	if !ok {
		return all[0], ErrUnknown
	}
	var newest Release
	for _, r := range all {
		kubelet, err := version.ParseGeneric(r.Kubelet)
		if err != nil && len(all) == 1 {
			return r, nil // simulated content has no version
		}
		if err == nil && kubelet.Major() == oldest.Major() && kubelet.Minor() <= oldest.Minor() {
			newest = r
		}
	}
	first := all[0]
	if kubelet, err := version.ParseGeneric(first.Kubelet); newest.Version == "" && err == nil && kubelet.LessThan(oldest) {
		return first, fmt.Errorf("API server v%s has another major version than the kubelets of this operator, %s to %s; install an operator with a kubelet of %d.x",
			oldest, first.Kubelet, all[len(all)-1].Kubelet, oldest.Major())
	}
	if newest.Version == "" {
		return first, fmt.Errorf("the oldest kubelet of this operator is %s, newer than API server v%s; upgrade the cluster to %s or later",
			first.Kubelet, oldest, first.Minor)
	}
	if kubelet, _ := version.ParseGeneric(newest.Kubelet); kubelet.Minor()+olderMinors < oldest.Minor() {
		return newest, fmt.Errorf("the newest kubelet of this operator is %s, more than %d minor versions older than API server v%s; "+
			"install an operator with a later kubelet", newest.Kubelet, olderMinors, oldest)
	}
	return newest, nil
}

// maxNumber is the largest that a part of a server's version may be.
const maxNumber = 1023

// Server is the version of an API server that counts, of what it answers to GET /version. Of a server that emulates an earlier version, it is
// that one: its APIs are what kubelets get.
func Server(git, emulationMajor, emulationMinor string) (string, error) {
	v, err := version.ParseGeneric(git)
	if err != nil {
		return "", fmt.Errorf("reading gitVersion: %w", err)
	}
	if v.Major() > maxNumber || v.Minor() > maxNumber || v.Patch() > maxNumber {
		return "", fmt.Errorf("gitVersion %.64q has a number above %d", git, maxNumber)
	}
	major, err1 := number(emulationMajor)
	minor, err2 := number(emulationMinor)
	if cmp.Or(err1, err2) == nil && version.MajorMinor(major, minor).LessThan(version.MajorMinor(v.Major(), v.Minor())) {
		v = version.MajorMinor(major, minor)
	}
	return fmt.Sprintf("v%d.%d.%d", v.Major(), v.Minor(), v.Patch()), nil
}

// number reads a part of a version, as in 36 or 36+.
func number(text string) (uint, error) {
	n, err := strconv.ParseUint(strings.TrimSuffix(text, "+"), 10, 10) // up to maxNumber
	return uint(n), err
}

// oldestOf returns the oldest of versions, as in v1.36.3 or v1.36.3+f1a2b3c.
func oldestOf(versions []string) (oldest *version.Version, ok bool) {
	for _, text := range versions {
		v, err := version.ParseGeneric(text)
		if err == nil && (oldest == nil || v.LessThan(oldest)) {
			oldest = v
		}
	}
	return oldest, oldest != nil
}
