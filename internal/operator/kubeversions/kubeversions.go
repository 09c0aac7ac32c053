// Package kubeversions decides, without I/O, which of the operator's content fits a cluster. The payload has the kubelet and kube-proxy of several
// minor versions of Kubernetes; each of them, with everything else, is one release. A cluster's nodes get the newest release that is not newer
// than the oldest of its API servers, by Kubernetes' version skew policy (https://kubernetes.io/releases/version-skew-policy/).
package kubeversions

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

// MinKubernetes is the oldest supported minor version of the API server: from this version on, the operator's admission policies, token IDs in
// certificate requests and ServiceCIDR are on by default.
const MinKubernetes = "1.33"

// Release is the content that nodes get with one minor version of Kubernetes.
type Release struct {
	// Version is what nodes with this whole release report, such as 1.2.0-k1.36-3f9a2c1.
	Version string
	// Minor is the minor version of Kubernetes, such as 1.36; empty in a payload without Kubernetes groups, which has one release.
	Minor string
	// Kubelet is the version of the kubelet, such as v1.36.3; empty in a payload without one.
	Kubelet string
	// Containerd is the version of containerd, such as v2.3.7; empty in a payload without one.
	Containerd string
	// Content is every file that a host may get, on any network.
	Content payload.Manifest
}

// Of returns the releases of a payload, oldest first. There is at least one.
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

// name returns a short name that contains the minor version and is the same for operators with the same content and version.
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

// ErrUnknown means that no API server reports its version. Nodes stay unchanged until one does.
var ErrUnknown = errors.New("no API server reports its version (GET /version)")

// olderMinors is how many minor versions a kubelet may be older than the API server (Kubernetes' version skew policy).
const olderMinors = 3

// Choose returns the newest release that is not newer than the oldest of the API servers' versions. Versions that cannot be parsed are ignored.
// The error names the versions and what to upgrade; with an error, Choose returns the nearest release, which no new node may get.
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
		return first, fmt.Errorf("API server v%s has a different major version from the kubelets of this operator, %s to %s; install an operator with a kubelet of %d.x",
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

// maxNumber is the maximum of each number in a server's version.
const maxNumber = 1023

// Server returns the relevant version of an API server, from its response to GET /version. If the server emulates an earlier version, that one
// is relevant, because kubelets use its APIs.
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

// number parses a part of a version, such as 36 or 36+.
func number(text string) (uint, error) {
	n, err := strconv.ParseUint(strings.TrimSuffix(text, "+"), 10, 10) // up to maxNumber
	return uint(n), err
}

// oldestOf returns the oldest of versions such as v1.36.3 or v1.36.3+f1a2b3c.
func oldestOf(versions []string) (oldest *version.Version, ok bool) {
	for _, text := range versions {
		v, err := version.ParseGeneric(text)
		if err == nil && (oldest == nil || v.LessThan(oldest)) {
			oldest = v
		}
	}
	return oldest, oldest != nil
}
