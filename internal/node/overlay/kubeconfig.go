package overlay

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

// kubeconfig has the fields of a kubeconfig that name the cluster and the user.
type kubeconfig struct {
	CurrentContext string `json:"current-context"`
	Contexts       []struct {
		Name    string `json:"name"`
		Context struct {
			Cluster string `json:"cluster"`
			User    string `json:"user"`
		} `json:"context"`
	} `json:"contexts"`
	Clusters []struct {
		Name    string  `json:"name"`
		Cluster cluster `json:"cluster"`
	} `json:"clusters"`
	Users []struct {
		Name string `json:"name"`
		User user   `json:"user"`
	} `json:"users"`
}

type cluster struct {
	Server string `json:"server"`
	CAFile string `json:"certificate-authority"`
	CA     []byte `json:"certificate-authority-data"`
}

type user struct {
	CertificateFile string `json:"client-certificate"`
	Certificate     []byte `json:"client-certificate-data"`
	KeyFile         string `json:"client-key"`
	Key             []byte `json:"client-key-data"`
	Token           string `json:"token"`
	TokenFile       string `json:"tokenFile"`
}

// credentials authenticate a client.
type credentials struct {
	token       string
	certificate *tls.Certificate
}

// access has the address of the API server and the credentials.
type access struct {
	server      string
	ca          []byte
	credentials credentials
}

// readKubeconfig reads a kubeconfig and the files that it names, which the kubelet renews.
func readKubeconfig(name string) (access, error) {
	text, err := readFile(name)
	if err != nil {
		return access{}, err
	}
	var k kubeconfig
	if err := yaml.Unmarshal(text, &k); err != nil {
		return access{}, errors.New("reading " + name + ": it is not a kubeconfig") // the parser's error could quote a key
	}
	c, u, err := k.current()
	if err != nil {
		return access{}, fmt.Errorf("reading %s: %w", name, err)
	}
	folder := filepath.Dir(name)
	a := access{server: c.Server}
	if a.ca, err = content(c.CA, c.CAFile, folder); err != nil {
		return access{}, err
	}
	if a.credentials, err = u.credentials(folder); err != nil {
		return access{}, err
	}
	return a, nil
}

// current returns cluster and user of the current context. Without one, the file must have one of each.
func (k kubeconfig) current() (c cluster, u user, err error) {
	clusterName, userName := "", ""
	for _, context := range k.Contexts {
		if context.Name == k.CurrentContext {
			clusterName, userName = context.Context.Cluster, context.Context.User
		}
	}
	foundCluster, foundUser := false, false
	for _, named := range k.Clusters {
		if !foundCluster && (clusterName == "" && len(k.Clusters) == 1 || named.Name == clusterName) {
			c, foundCluster = named.Cluster, true
		}
	}
	for _, named := range k.Users {
		if !foundUser && (userName == "" && len(k.Users) == 1 || named.Name == userName) {
			u, foundUser = named.User, true
		}
	}
	if !foundCluster || !foundUser {
		return c, u, fmt.Errorf("context %q has no cluster or no user", k.CurrentContext)
	}
	return c, u, nil
}

func (u user) credentials(folder string) (credentials, error) {
	token := []byte(u.Token)
	token, err := content(token, u.TokenFile, folder)
	if err != nil {
		return credentials{}, err
	}
	c := credentials{token: strings.TrimSpace(string(token))}
	certificate, err := content(u.Certificate, u.CertificateFile, folder)
	if err != nil || len(certificate) == 0 {
		return c, err
	}
	key, err := content(u.Key, u.KeyFile, folder)
	if err != nil {
		return credentials{}, err
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return credentials{}, fmt.Errorf("reading certificate and key of %s: %w", cmp.Or(u.CertificateFile, "the kubeconfig"), err)
	}
	c.certificate = &pair
	return c, nil
}

// content returns a value of the kubeconfig, or else the content of the file that it names.
func content(inline []byte, name, folder string) ([]byte, error) {
	if len(inline) > 0 || name == "" {
		return inline, nil
	}
	if !filepath.IsAbs(name) {
		name = filepath.Join(folder, name)
	}
	return readFile(name)
}
