package images

import (
	"strings"

	"github.com/windows-machine-config/wmco/internal/node/cri"
	"github.com/windows-machine-config/wmco/internal/shared/mirrors"
)

// loginOf returns the credentials in a pull secret for an image's registry, by the rules of pull secrets (mirrors.Keyring); empty if there are none.
// containerd reads those of mirrors with its mirror configuration.
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
