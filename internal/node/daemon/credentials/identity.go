package credentials

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"time"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/node/identity"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

// Certificate files.
const (
	// WICDFile holds WICD's certificate and its key.
	WICDFile = desired.WICDIdentity
	// PendingFile holds the key, and the request made with it, until the certificate is issued.
	PendingFile = desired.WICDCertificates + `\wicd-client-pending.pem`
	// NodeManagerFile holds the certificate of the cloud-node-manager and its key, on hosts that have this service.
	NodeManagerFile = desired.NodeManagerIdentity
	// NodeManagerPendingFile is the PendingFile of that certificate.
	NodeManagerPendingFile = desired.WICDCertificates + `\cloud-node-manager-client-pending.pem`
	// The kubelet's; their names are those of client-go's certificate store.
	KubeletClientFile = desired.KubeletCertificates + `\kubelet-client-current.pem`
	KubeletServerFile = desired.KubeletServing
	// KubeletPendingFile is where a kubelet that does not rotate its certificate keeps the key of its request; one that
	// does makes a new request whenever it starts (k8s.io/kubernetes, pkg/kubelet/certificate/bootstrap).
	KubeletPendingFile = desired.KubeletCertificates + `\kubelet-client.key.tmp`
)

// ReadIdentity returns WICD's certificate if it is the node's and has not expired.
func ReadIdentity(d hostapi.Disk, node string, now time.Time) (identity.Identity, error) {
	b, err := d.Read(WICDFile)
	if err != nil {
		return identity.Identity{}, err
	}
	return identity.Parse(b, NameOf(node), now)
}

// ReadKubeletIdentity returns the kubelet's certificate if it is the node's and has not expired.
func ReadKubeletIdentity(d hostapi.Disk, node string, now time.Time) (identity.Identity, error) {
	b, err := d.Read(KubeletClientFile)
	if err != nil {
		return identity.Identity{}, err
	}
	return identity.Parse(b, identity.Name{User: "system:node:" + node, Group: "system:nodes"}, now)
}

// NameOf returns WICD's name on a node.
func NameOf(node string) identity.Name {
	return identity.Name{User: api.WICDUserPrefix + node, Group: api.WICDGroup}
}

// NodeManagerName returns the name of the cloud-node-manager on a node.
func NodeManagerName(node string) identity.Name {
	return identity.Name{User: api.NodeManagerUserPrefix + node, Group: api.NodeManagerGroup}
}

// CertificateFiles returns the files with the certificates by which a node's programs authenticate.
func CertificateFiles() []string {
	return []string{KubeletClientFile, KubeletServerFile, WICDFile, NodeManagerFile}
}

// ReadCertificate returns the first certificate of a PEM file.
func ReadCertificate(d hostapi.Disk, name string) (*x509.Certificate, error) {
	b, err := d.Read(name)
	if err != nil {
		return nil, err
	}
	for block, rest := pem.Decode(b); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == "CERTIFICATE" {
			return x509.ParseCertificate(block.Bytes)
		}
	}
	return nil, fmt.Errorf("%s contains no certificate", name)
}

// KubeletHasCertificate reports whether the kubelet can do without the bootstrap kubeconfig.
func KubeletHasCertificate(d hostapi.Disk, node string, now time.Time) bool {
	leaf, err := ReadCertificate(d, KubeletClientFile)
	return err == nil && d.Exists(desired.KubeletKubeconfig) && identity.CheckLeaf(leaf, "system:node:"+node, now) == nil
}

// Prefixes of the names of certificate requests: of WICD's own, and of those for the cloud-node-manager.
const (
	RequestPrefix            = "wicd-"
	NodeManagerRequestPrefix = "cloud-node-manager-"
)

// Files stores certificates on the disk of the host. It implements identity.Store.
type Files struct{ hostapi.Disk }

// Write implements identity.Store.
func (f Files) Write(name string, content []byte) error {
	_, err := f.WriteFile(name, string(content))
	return err
}
