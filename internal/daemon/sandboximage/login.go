package sandboximage

import (
	"encoding/json"
	"strings"

	"github.com/windows-machine-config/wmco/internal/cri"
	"github.com/windows-machine-config/wmco/internal/mirrors"
)

// login are the credentials of the pull secret for the registry of an image; none where there are none. Those of mirrors are where containerd
// reads its mirrors.
func (r *Reconciler) login(image string) cri.Login {
	for _, f := range r.Wanted.Files {
		if f.Path == mirrors.KubeletConfig {
			return loginOf([]byte(f.Content), image)
		}
	}
	return cri.Login{}
}

// loginOf takes the entry of a .dockerconfigjson with the longest key that is the image's registry, or a part of its name.
func loginOf(config []byte, image string) cri.Login {
	var c struct {
		Auths map[string]struct{ Username, Password, Auth, IdentityToken string } `json:"auths"`
	}
	if json.Unmarshal(config, &c) != nil {
		return cri.Login{} // the settings tell of it
	}
	registry, _, _ := strings.Cut(image, "/")
	var l cri.Login
	longest := ""
	for key, entry := range c.Auths {
		scope := strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(key, "https://"), "http://"), "/")
		isOf := scope == registry || strings.HasPrefix(image, scope+"/") && strings.HasPrefix(scope, registry+"/") ||
			strings.HasPrefix(image, scope+":") || strings.HasPrefix(image, scope+"@")
		if isOf && len(scope) > len(longest) {
			longest = scope
			l = cri.Login{Username: entry.Username, Password: entry.Password, Auth: entry.Auth, IdentityToken: entry.IdentityToken, Server: "https://" + registry}
		}
	}
	return l
}
