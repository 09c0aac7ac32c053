package credentials

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

// BootstrapKubeconfig renders the kubelet's bootstrap kubeconfig. It is JSON, which is valid YAML.
func BootstrapKubeconfig(b wicdapi.Bootstrap) (string, error) {
	type object = map[string]any
	const name = "bootstrap"
	out, err := json.Marshal(object{
		"apiVersion": "v1", "kind": "Config", "current-context": name,
		"clusters": []object{{"name": name, "cluster": object{"server": b.Server, "certificate-authority-data": []byte(b.CA)}}},
		"users":    []object{{"name": name, "user": object{"token": b.Token}}},
		"contexts": []object{{"name": name, "context": object{"cluster": name, "user": name}}},
	})
	return string(out) + "\n", err
}

// BootstrapToken returns the token on the host; without one, the error is fs.ErrNotExist.
func BootstrapToken(d hostapi.Disk) (string, error) {
	b, err := d.Read(desired.BootstrapKubeconfig)
	if err != nil {
		return "", err
	}
	var k struct {
		Users []struct{ User struct{ Token string } }
	}
	if err := json.Unmarshal(b, &k); err != nil || len(k.Users) == 0 || k.Users[0].User.Token == "" {
		return "", fmt.Errorf("%s holds no token; join the host again", desired.BootstrapKubeconfig)
	}
	return k.Users[0].User.Token, nil
}

// KubeconfigNames reports whether the kubelet's own kubeconfig names this API server. The kubelet copies address and CA from the bootstrap
// kubeconfig only once.
func KubeconfigNames(d hostapi.Disk, b wicdapi.Bootstrap) (bool, error) {
	k, err := d.Read(desired.KubeletKubeconfig)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	ca := base64.StdEncoding.EncodeToString([]byte(b.CA))
	return bytes.Contains(k, []byte(b.Server)) && bytes.Contains(k, []byte(ca)), nil
}
