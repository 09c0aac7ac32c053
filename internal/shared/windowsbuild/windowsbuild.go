// Package windowsbuild handles builds of Windows: how images and Nodes spell them, and which hosts run containers of which images. It does no I/O.
package windowsbuild

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/windows-machine-config/wmco/internal/shared/truncate"
)

// Build is the third number of a Windows version, 20348 in 10.0.20348.2402. Zero means unknown.
type Build int

// Builds of Windows Server with long-term servicing.
const (
	Server2019 Build = 17763
	Server2022 Build = 20348
	Server2025 Build = 26100
)

// Release is a release of Windows Server with long-term servicing.
type Release struct {
	Build Build
	// Version is its year, such as 2022.
	Version string
	// Tag is the tag of Microsoft's images for it, such as ltsc2022.
	Tag string
	// Class is the usual name of a RuntimeClass for the build, such as windows2022.
	Class string
	// Name is its common name.
	Name string
}

// HyperVClass returns the usual name of a RuntimeClass for the build with Hyper-V isolation, such as windows2022-hyperv.
func (r Release) HyperVClass() string { return r.Class + "-hyperv" }

// Releases returns the releases that nodes can run, oldest first.
func Releases() []Release {
	return []Release{
		{Server2019, "2019", "ltsc2019", "windows2019", "Windows Server 2019"},
		{Server2022, "2022", "ltsc2022", "windows2022", "Windows Server 2022"},
		{Server2025, "2025", "ltsc2025", "windows2025", "Windows Server 2025"},
	}
}

// ReleaseOf returns the release with a build, if any.
func ReleaseOf(b Build) (Release, bool) {
	for _, r := range Releases() {
		if r.Build == b {
			return r, true
		}
	}
	return Release{}, false
}

// Label returns the value of label node.kubernetes.io/windows-build on nodes, such as 10.0.20348.
func (b Build) Label() string { return "10.0." + strconv.Itoa(int(b)) }

// String returns the build with its common name: 10.0.20348 (Windows Server 2022).
func (b Build) String() string {
	if r, known := ReleaseOf(b); known {
		return b.Label() + " (" + r.Name + ")"
	}
	return b.Label()
}

// Parse parses a version in the form of images, Nodes and Windows: 10.0.20348 or 10.0.20348.2402, and nothing else.
func Parse(version string) (Build, error) {
	b, _, err := ParseRevision(version)
	return b, err
}

// ParseRevision is Parse, and also returns the revision, the fourth number; 0 if there is none.
func ParseRevision(version string) (Build, int, error) {
	parts := strings.SplitN(version, ".", 5)
	if len(parts) != 3 && len(parts) != 4 {
		return 0, 0, fmt.Errorf("%.40q is not a version of Windows such as 10.0.20348.2402", version)
	}
	var numbers [4]int
	for i, part := range parts {
		n, err := strconv.ParseUint(part, 10, 31)
		if err != nil || strconv.FormatUint(n, 10) != part { // no signs, no leading zeros
			return 0, 0, fmt.Errorf("%.40q is not a version of Windows such as 10.0.20348.2402", version)
		}
		numbers[i] = int(n)
	}
	if numbers[0] != 10 || numbers[1] != 0 || numbers[2] == 0 || numbers[2] > 65_535 {
		return 0, 0, fmt.Errorf("%.40q is not a version of a Windows that runs containers", version)
	}
	return Build(numbers[2]), numbers[3], nil
}

// Runs reports whether a host runs containers of an image, as containerd decides: hosts before Windows Server 2022 run only images of their own
// build, later ones run all from 20348 up to their own build. Every host tries an image without a build. The rules are the same with Hyper-V
// isolation, although Windows could then run images of all older builds: containerd pulls the image for the host (WithPlatforms in
// internal/cri/server/images/image_pull.go of containerd 2.3), and the virtual machine starts from the layers of the sandbox image.
func Runs(host, image Build) bool {
	switch {
	case host == 0:
		return false
	case image == 0:
		return true
	case host < Server2022:
		return host == image
	}
	return Server2022 <= image && image <= host
}

// Implies reports whether a host can run every image that has run on a host with build ran, whichever builds the image supports.
func Implies(ran, host Build) bool {
	return ran != 0 && (ran == host || Server2022 <= ran && ran <= host)
}

// Image is the set of builds that an image supports.
type Image struct {
	// Builds are sorted, without duplicates.
	Builds []Build
	// Any is set if a part of the image is for Windows without naming a build: every host tries it.
	Any bool
}

// ForWindows reports whether any part of the image is for Windows.
func (i Image) ForWindows() bool { return i.Any || len(i.Builds) > 0 }

// RunsOn reports whether a host with this build runs the image.
func (i Image) RunsOn(host Build) bool {
	return i.Any || slices.ContainsFunc(i.Builds, func(b Build) bool { return Runs(host, b) })
}

// String names the builds.
func (i Image) String() string {
	var names []string
	for _, b := range i.Builds {
		names = append(names, b.String())
	}
	if i.Any {
		names = append(names, "any build")
	}
	return truncate.List(names, maxNamed, ", ")
}

// maxNamed is how many builds String names.
const maxNamed = 6
