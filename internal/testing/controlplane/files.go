package controlplane

import (
	"crypto/x509/pkix"
	"encoding/json"
	"fmt"
	"net"
)

// The API server's certificate for the servers of aggregated APIs, and its CA, which signs no other: with a certificate of it, a program can
// make requests as any user (https://kubernetes.io/docs/tasks/extend-kubernetes/configure-aggregation-layer/).
const frontProxyCA, frontProxy = "front-proxy-ca", "front-proxy-client"

// Credentials are the credentials of a control plane.
type Credentials struct {
	CA *Authority
	// Admin is the certificate of a cluster administrator.
	Admin Pair
	// Files are the files that the programs read from Config.Folder, by name: certificates, keys, kubeconfig files and the audit policy. Only
	// administrators of the machine may read them.
	Files map[string][]byte
}

// NewCredentials creates the CAs and all certificates of a control plane. They are valid for a week.
func (c Config) NewCredentials() (Credentials, error) {
	ca, err := NewAuthority()
	if err != nil {
		return Credentials{}, err
	}
	caKey, err := keyBlock(ca.key)
	if err != nil {
		return Credentials{}, err
	}
	accounts, err := NewAuthority() // only its key is used, to sign and verify service account tokens
	if err != nil {
		return Credentials{}, err
	}
	accountKey, err := keyBlock(accounts.key)
	if err != nil {
		return Credentials{}, err
	}
	front, err := NewAuthority()
	if err != nil {
		return Credentials{}, err
	}
	proxy, err := front.Issue(pkix.Name{CommonName: frontProxy}, nil, nil)
	if err != nil {
		return Credentials{}, err
	}
	all := Credentials{CA: ca, Files: map[string][]byte{
		"ca.crt": ca.PEM, "ca.key": caKey, "service-accounts.key": accountKey,
		frontProxyCA + ".crt": front.PEM, frontProxy + ".crt": proxy.Cert, frontProxy + ".key": proxy.Key,
	}}
	if c.AuditPolicy != "" {
		all.Files["audit.yaml"] = []byte(c.AuditPolicy)
	}
	for name, r := range c.requests() {
		pair, err := ca.Issue(r.subject, r.names, r.addresses)
		if err != nil {
			return Credentials{}, err
		}
		all.Files[name+".crt"], all.Files[name+".key"] = pair.Cert, pair.Key
		switch name {
		case "admin":
			all.Admin = pair
		case "controller-manager", "scheduler":
			if all.Files[name+".conf"], err = Kubeconfig(c.URL(), ca.PEM, User{Certificate: pair.Cert, Key: pair.Key}); err != nil {
				return Credentials{}, err
			}
		}
	}
	return all, nil
}

// request describes a certificate to issue.
type request struct {
	subject   pkix.Name
	names     []string
	addresses []net.IP
}

// requests returns the requests for all certificates, by file name.
func (c Config) requests() map[string]request {
	loopback := net.IPv4(127, 0, 0, 1)
	return map[string]request{
		"etcd": {pkix.Name{CommonName: "etcd"}, []string{"localhost"}, []net.IP{loopback}},
		"apiserver": {
			pkix.Name{CommonName: "kube-apiserver"},
			[]string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", nameOfTheAPI},
			[]net.IP{loopback, net.ParseIP(c.Address), net.ParseIP(ServiceOfTheAPI)},
		},
		"apiserver-client":   {subject: pkix.Name{CommonName: "kube-apiserver-client", Organization: []string{"system:masters"}}},
		"admin":              {subject: pkix.Name{CommonName: "admin", Organization: []string{"system:masters"}}},
		"controller-manager": {subject: pkix.Name{CommonName: "system:kube-controller-manager"}},
		"scheduler":          {subject: pkix.Name{CommonName: "system:kube-scheduler"}},
	}
}

// User is the user of a kubeconfig file: a certificate with its key, both as PEM, or a token. With neither, the kubeconfig only names the
// cluster, as in ConfigMap cluster-info.
type User struct {
	Certificate, Key []byte
	Token            string
}

// Kubeconfig returns a kubeconfig file (https://kubernetes.io/docs/reference/config-api/kubeconfig.v1/), in JSON.
func Kubeconfig(server string, ca []byte, u User) ([]byte, error) {
	type object = map[string]any
	text, err := json.MarshalIndent(object{
		"apiVersion": "v1", "kind": "Config", "current-context": "trial",
		"clusters": []object{{"name": "trial", "cluster": object{"server": server, "certificate-authority-data": ca}}},
		"contexts": []object{{"name": "trial", "context": object{"cluster": "trial", "user": "user"}}},
		"users":    []object{{"name": "user", "user": u.fields()}},
	}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encoding a kubeconfig: %w", err)
	}
	return text, nil
}

func (u User) fields() map[string]any {
	fields := map[string]any{}
	if u.Token != "" {
		fields["token"] = u.Token
	}
	if u.Certificate != nil {
		fields["client-certificate-data"], fields["client-key-data"] = u.Certificate, u.Key
	}
	return fields
}
