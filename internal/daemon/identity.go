package daemon

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"time"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/desired"
	"github.com/windows-machine-config/wmco/internal/host"
	"github.com/windows-machine-config/wmco/internal/identity"
)

// Files of certificates.
const (
	// identityFile holds WICD's certificate and its key.
	identityFile = desired.WICDIdentity
	// pendingFile holds the key, and the request made with it, until the certificate is issued.
	pendingFile = desired.WICDCertificates + `\wicd-client-pending.pem`
	// The kubelet's; their names are those of client-go's certificate store.
	kubeletClientFile = desired.KubeletCertificates + `\kubelet-client-current.pem`
	kubeletServerFile = desired.KubeletServing
	// kubeletPendingFile is where a kubelet that does not rotate its certificate keeps the key of its request; one that
	// does makes a new request whenever it starts (k8s.io/kubernetes, pkg/kubelet/certificate/bootstrap).
	kubeletPendingFile = desired.KubeletCertificates + `\kubelet-client.key.tmp`
)

// readIdentity returns WICD's certificate when it is valid now, and the node's.
func readIdentity(d host.Disk, node string, now time.Time) (identity.Identity, error) {
	b, err := d.Read(identityFile)
	if err != nil {
		return identity.Identity{}, err
	}
	return identity.Parse(b, nameOf(node), now)
}

// readKubeletIdentity returns the kubelet's certificate when it is valid now, and the node's.
func readKubeletIdentity(d host.Disk, node string, now time.Time) (identity.Identity, error) {
	b, err := d.Read(kubeletClientFile)
	if err != nil {
		return identity.Identity{}, err
	}
	return identity.Parse(b, identity.Name{User: "system:node:" + node, Group: "system:nodes"}, now)
}

// nameOf is WICD's name on a node.
func nameOf(node string) identity.Name {
	return identity.Name{User: api.WICDUserPrefix + node, Group: api.WICDGroup}
}

// readCertificate returns the first certificate of a PEM file.
func readCertificate(d host.Disk, name string) (*x509.Certificate, error) {
	b, err := d.Read(name)
	if err != nil {
		return nil, err
	}
	for block, rest := pem.Decode(b); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" {
			return x509.ParseCertificate(block.Bytes)
		}
	}
	return nil, fmt.Errorf("there is no certificate in %s", name)
}

// kubeletHasCertificate tells whether the kubelet can do without the bootstrap kubeconfig.
func kubeletHasCertificate(d host.Disk, node string, now time.Time) bool {
	leaf, err := readCertificate(d, kubeletClientFile)
	return err == nil && d.Exists(desired.KubeletKubeconfig) && identity.CheckLeaf(leaf, "system:node:"+node, now) == nil
}

// pendingRequest returns the request that is under way, or makes one with a new key.
func pendingRequest(d host.Disk, node string) (identity.Pending, error) {
	read := func() ([]byte, error) { return d.Read(pendingFile) }
	write := func(b []byte) error {
		_, err := d.WriteFile(pendingFile, string(b))
		return err
	}
	return identity.Ask(nameOf(node), "wicd-", read, write)
}
