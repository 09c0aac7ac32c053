package sandboximage

import (
	"strings"

	"github.com/windows-machine-config/wmco/internal/cri"
	"github.com/windows-machine-config/wmco/internal/mirrors"
)

// login are the credentials of the pull secret for the registry of an image; none where there are none. Those of mirrors are where containerd
// reads its mirrors.
func (r *Reconciler) login(image string) cri.Login {
	return loginOf(r.Wanted.PullSecret(), image)
}

// loginOf is the credential for an image by the rules of pull secrets (mirrors.Keyring).
func loginOf(config []byte, image string) cri.Login {
	registry, repository, _ := strings.Cut(image, "/")
	repository, _, _ = strings.Cut(repository, "@")
	repository, _, _ = strings.Cut(repository, ":")
	name, err := mirrors.ParseName(registry, repository)
	if err != nil {
		return cri.Login{} // no such image is declared (desired.CheckImage)
	}
	c, found := mirrors.ReadKeyring(config).For(name)
	if !found {
		return cri.Login{}
	}
	return cri.Login{Username: c.User, Password: c.Password, IdentityToken: c.IdentityToken, Server: "https://" + registry}
}
