package desired

import (
	"cmp"
	"fmt"
	"regexp"
)

// DefaultSandboxImage is the sandbox image of pods unless WindowsConfig names another. OpenShift's documentation instructs administrators of
// disconnected clusters to mirror this one, so they already have it. It has entries for Windows Server 2019 and 2022. Windows Server 2025 runs
// that of 2022 (package platforms of containerd, platform_windows_compat.go); pause images have an entry for 2025 since 3.10.2
// (build/pause/CHANGELOG.md of Kubernetes), which Microsoft publishes in another repository, oss/v2/kubernetes/pause.
const DefaultSandboxImage = "mcr.microsoft.com/oss/kubernetes/pause:3.9"

// maxImage is the maximum length of an image name. A repository name has at most 255 characters (distribution/reference), a digest 71.
const maxImage = 512

const (
	hostLabel = `[a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?`
	registry  = `((localhost|` + hostLabel + `(\.` + hostLabel + `)+)(:[0-9]{1,5})?|` + hostLabel + `:[0-9]{1,5})`
	component = `[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*`
)

var fullImageName = regexp.MustCompile(`^` + registry + `(/` + component + `)+(:[a-zA-Z0-9_][a-zA-Z0-9_.-]{0,127}|@sha256:[a-f0-9]{64})$`)

// CheckImage rejects names that are not fully qualified: the name must begin with the registry, and end with a tag or a digest. containerd
// pins an image by its full name, and would complete a shorter one.
func CheckImage(name string) error {
	if len(name) > maxImage || !fullImageName.MatchString(name) {
		return fmt.Errorf("%.128q does not name an image with its registry and a tag or a digest, as in %s or "+
			"registry.example.com:5000/pause@sha256:<64 hexadecimal digits>", name, DefaultSandboxImage)
	}
	return nil
}

// sandboxImage returns the configured image, or the default.
func (in Inputs) sandboxImage() string {
	return cmp.Or(in.Config.Runtime.SandboxImage, DefaultSandboxImage)
}

// WithImageInUse returns the Local for a host whose declaration changes from former to next: it keeps its current sandbox image until it
// has pulled the next one.
func (l Local) WithImageInUse(former, next Node) Local {
	existing := cmp.Or(l.SandboxImage, former.SandboxImage)
	if l.SandboxImage = existing; existing == next.SandboxImage {
		l.SandboxImage = ""
	}
	return l
}
