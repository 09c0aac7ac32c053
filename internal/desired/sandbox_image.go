package desired

import (
	"cmp"
	"fmt"
	"regexp"
)

// DefaultSandboxImage is what every pod starts from unless WindowsConfig names another image. OpenShift's documents tell administrators of
// closed networks to mirror this one, so that it is there already. It has entries for Windows Server 2019 and 2022. Windows Server 2025 runs
// that of 2022 (package platforms of containerd, platform_windows_compat.go); pause images have an entry for 2025 since 3.10.2
// (build/pause/CHANGELOG.md of Kubernetes), which Microsoft has in another repository, oss/v2/kubernetes/pause.
const DefaultSandboxImage = "mcr.microsoft.com/oss/kubernetes/pause:3.9"

// maxImage is how long the name of an image may be. The name of a repository has at most 255 characters (distribution/reference), a digest 71.
const maxImage = 512

// CheckImage refuses what does not name one image of one registry: the name begins with the registry, and ends with a tag or a digest.
// containerd pins an image by its whole name, and would complete a shorter one.
func CheckImage(name string) error {
	const (
		label     = `[a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?`
		registry  = `((localhost|` + label + `(\.` + label + `)+)(:[0-9]{1,5})?|` + label + `:[0-9]{1,5})`
		component = `[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*`
		image     = `^` + registry + `(/` + component + `)+(:[a-zA-Z0-9_][a-zA-Z0-9_.-]{0,127}|@sha256:[a-f0-9]{64})$`
	)
	if len(name) > maxImage || !regexp.MustCompile(image).MatchString(name) {
		return fmt.Errorf("%.128q does not name an image with its registry and a tag or a digest, as in %s or "+
			"registry.example.com:5000/pause@sha256:<64 hexadecimal digits>", name, DefaultSandboxImage)
	}
	return nil
}

// sandboxImage is the one that nodes are to have.
func (in Inputs) sandboxImage() string {
	return cmp.Or(in.Config.Runtime.SandboxImage, DefaultSandboxImage)
}

// Succeeding is what differs from host to host when next comes after former: the host goes on with the sandbox image that it has until it has
// the next one.
func (l Local) Succeeding(former, next Node) Local {
	has := cmp.Or(l.SandboxImage, former.SandboxImage)
	if l.SandboxImage = has; has == next.SandboxImage {
		l.SandboxImage = ""
	}
	return l
}
