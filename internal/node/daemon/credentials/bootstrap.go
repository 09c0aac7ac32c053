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

// kubeconfig is the part of a kubeconfig that the bootstrap needs. JSON is valid YAML, so the kubelet reads it.
type kubeconfig struct {
	APIVersion     string         `json:"apiVersion"`
	Kind           string         `json:"kind"`
	Clusters       []namedCluster `json:"clusters"`
	Users          []namedUser    `json:"users"`
	Contexts       []namedContext `json:"contexts"`
	CurrentContext string         `json:"current-context"`
}

type namedCluster struct {
	Name    string `json:"name"`
	Cluster struct {
		Server string `json:"server"`
		CA     []byte `json:"certificate-authority-data,omitempty"`
	} `json:"cluster"`
}

type namedUser struct {
	Name string `json:"name"`
	User struct {
		Token string `json:"token"`
	} `json:"user"`
}

type namedContext struct {
	Name    string `json:"name"`
	Context struct {
		Cluster string `json:"cluster"`
		User    string `json:"user"`
	} `json:"context"`
}

// BootstrapKubeconfig renders the kubelet's bootstrap kubeconfig.
func BootstrapKubeconfig(b wicdapi.Bootstrap) (string, error) {
	const name = "bootstrap"
	c := namedCluster{Name: name}
	c.Cluster.Server, c.Cluster.CA = b.Server, []byte(b.CA)
	u := namedUser{Name: name}
	u.User.Token = b.Token
	x := namedContext{Name: name}
	x.Context.Cluster, x.Context.User = name, name
	out, err := json.Marshal(kubeconfig{
		APIVersion: "v1", Kind: "Config", CurrentContext: name,
		Clusters: []namedCluster{c}, Users: []namedUser{u}, Contexts: []namedContext{x},
	})
	return string(out) + "\n", err
}

// BootstrapToken returns the token on the host; without one, the error is fs.ErrNotExist.
func BootstrapToken(d hostapi.Disk) (string, error) {
	b, err := d.Read(desired.BootstrapKubeconfig)
	if err != nil {
		return "", err
	}
	var k kubeconfig
	if err := json.Unmarshal(b, &k); err != nil || len(k.Users) == 0 || k.Users[0].User.Token == "" {
		return "", fmt.Errorf("%s holds no token; join the host again", desired.BootstrapKubeconfig)
	}
	return k.Users[0].User.Token, nil
}

// SpeaksTo reports whether the kubelet's own kubeconfig names this API server. The kubelet copies address and CA from the bootstrap kubeconfig only
// once.
func SpeaksTo(d hostapi.Disk, b wicdapi.Bootstrap) (bool, error) {
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
