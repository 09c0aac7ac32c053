package desired

import (
	"errors"
	"slices"
	"strings"

	"github.com/windows-machine-config/wmco/internal/shared/proxy"
	"github.com/windows-machine-config/wmco/payload"
)

// PreparedImage is a file with the name of the sandbox image that containerd pulled while an image of the host was being made. With it, the data of
// containerd belongs to the operator, although the host has not joined yet.
const PreparedImage = Root + `\sandbox-image.txt`

// ErrNoContainerd means that a payload has no containerd.
var ErrNoContainerd = errors.New("the payload has no containerd")

// ForImage declares what a host runs while an image is made of it: containerd as nodes with this content have it, which pulls the sandbox image through
// a proxy, if there is one. The rest of a Node is empty.
func ForImage(version string, content payload.Manifest, sandboxImage, proxyURL string) (Node, error) {
	in := Inputs{Version: version, Payload: content}
	folder := VersionFolder(content.Digest)
	s := containerd(in, folder)
	n := Node{
		Version: version, Digest: content.Digest, SandboxImage: sandboxImage, Services: []Service{s}, Directories: []string{folderOf(s.Log.Path)},
		Files: []File{{Path: containerdConfig, Content: renderContainerdConfig(folder, nil, nil, "")}},
	}
	if proxyURL != "" {
		n.Environment = map[string]string{proxy.HTTPProxy: proxyURL, proxy.HTTPSProxy: proxyURL}
	}
	programs := content
	programs.Files = slices.DeleteFunc(slices.Clone(content.Files), func(f payload.File) bool { return !strings.HasPrefix(f.Path, "containerd/") })
	if n.Payload = PayloadFiles(programs); len(n.Payload) == 0 {
		return Node{}, ErrNoContainerd
	}
	if err := CheckImage(sandboxImage); err != nil {
		return Node{}, err
	}
	return n, n.CheckBounds()
}
