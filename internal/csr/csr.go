// Package csr decides which certificate requests of Windows hosts may be approved. A certificate makes its
// holder a node of the cluster, so nothing is approved that is merely like what a host of ours would ask for:
// every field must be exactly what it has to be, and the requester must be the host itself, known by the token
// that was handed to it or by the certificate it already has.
//
// Read rules.go from top to bottom to see what is asked of each of the four kinds of certificate. Everything here
// is pure: what the cluster looks like is a value, Known.
package csr

import (
	"fmt"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/addresses"
	"github.com/windows-machine-config/wmco/internal/shorten"
)

// Host is what the operator knows of one Windows host: one that is a node, joins, or was only looked at.
type Host struct {
	// Instance is the WindowsInstance of the host: namespace/name.
	Instance string
	// Node is the name the host's node has or will have; "" as long as it is unknown.
	Node string
	// DNSName is the instance's address where that is a DNS name, in lower case; "" otherwise.
	DNSName string
	// Addresses are the IP addresses at which the host was reached, or has shown its SSH key: what it says of itself is none.
	Addresses []string
	// CloudNames and CloudAddresses are DNS names, in lower case, and IP addresses that the host has in its cloud, by the word of somebody
	// else: of its Machine's status, or of the user who announced it. What its Node says of itself is neither.
	CloudNames, CloudAddresses []string
	// CredentialID is the JTI of the bootstrap token the host joins with; "" while it does not join. A host whose name is
	// taken is never handed one.
	CredentialID string
	// Leaving says that the instance is being deleted: nothing that begins with a token is approved for it any more.
	Leaving bool
	// Registered says that the Node named Node is proven to be this host's. Among hosts that claim one name it is the rightful one.
	Registered bool
	// Serves says that the host was seen to have a Node: it is not about to become one.
	Serves bool
	// KeyKnown says that the user wrote down the host's SSH key, so that nobody else can have been reached at its addresses.
	KeyKnown bool
}

// Node is what the operator knows of one Node, of any operating system.
type Node struct {
	// OS is the value of label kubernetes.io/os.
	OS string
	// Ready says that the Node's condition Ready is True.
	Ready bool
	// Addresses and Names are the IP addresses and DNS names in the Node's status. The Node writes them itself.
	Addresses, Names []string
	// PodCIDRs are the ranges of its pods.
	PodCIDRs []string
}

// windowsOS is the OS of Windows nodes.
const windowsOS = "windows"

// Known is the cluster as a decision sees it.
type Known struct {
	// Namespace is the operator's own; the ServiceAccount of the bootstrap tokens is in it.
	Namespace string
	// PoliciesFault says what is wrong with the admission policies that limit what the identities of WICD and of the cloud-node-manager
	// may do; "" when they are in force.
	PoliciesFault string
	// NodeManager says that what is published for nodes has the cloud-node-manager of Azure: elsewhere it gets no certificate.
	NodeManager bool
	// Hosts are all Windows hosts that are nodes or may become nodes.
	Hosts []Host
	// Nodes are all Nodes of the cluster by name.
	Nodes map[string]Node
	// Cluster is what has addresses and names in the cluster and is no Windows host. No host is certified for any of them. Nodes are not
	// among it.
	Cluster addresses.Cluster
}

// Verdict is what to do with a request.
type Verdict string

// The three verdicts.
const (
	// Leave means that the request is not about a Windows host of ours, or is settled: do and say nothing.
	Leave Verdict = ""
	// Approve means that every rule holds.
	Approve Verdict = "Approve"
	// Refuse means that the request claims to be of a host of ours and breaks a rule. It is told and left pending, never
	// denied: what was missing may come (an instance, a Node), and then the same request may be approved.
	Refuse Verdict = "Refuse"
)

// Decision is a verdict and its grounds.
type Decision struct {
	Verdict Verdict
	// Rule is the stable name of the rule that is broken; "" unless refused.
	Rule string
	// Message names the request, the field, its value and what is allowed; "" unless refused. It is at most shorten.Note bytes of ASCII; what
	// the requester wrote is quoted and shortened in it.
	Message string
	// Instance is the WindowsInstance the request is about, namespace/name; "" when there is none.
	Instance string
	// Disputed are the Nodes, by name, that say of themselves what a request that is approved has certified: addresses that are proven
	// to be the host's.
	Disputed []string
}

// Decide says what to do with a request. The same request gets another verdict when what is known changes, so a
// refused one is to be decided again whenever an instance or Node does.
func Decide(req *certificatesv1.CertificateSigningRequest, known Known) Decision {
	if settled(req) {
		return Decision{}
	}
	c := read(req, known)
	if !c.isOurs() {
		return Decision{}
	}
	for _, r := range rules(req.Spec.SignerName, c.commonName) {
		if fault := r.broken(c); fault != "" {
			message := fmt.Sprintf("certificate request %s: %s", req.Name, fault)
			return Decision{Verdict: Refuse, Rule: r.name, Message: shorten.Text(message, shorten.Note), Instance: c.instance()}
		}
	}
	return Decision{Verdict: Approve, Instance: c.instance(), Disputed: c.disputes()}
}

// settled says that somebody has decided already, or that there is a certificate.
func settled(req *certificatesv1.CertificateSigningRequest) bool {
	for _, c := range req.Status.Conditions {
		switch c.Type {
		case certificatesv1.CertificateApproved, certificatesv1.CertificateDenied, certificatesv1.CertificateFailed:
			return true
		}
	}
	return len(req.Status.Certificate) > 0
}

// isOurs says whether the request claims to be about a Windows host: by who makes it, or by the identity it asks
// for. A Linux node that joins with kubeadm's or the cluster's own bootstrap token does not.
func (c candidate) isOurs() bool {
	if c.isOVNKubernetes() {
		return false
	}
	user := c.req.Spec.Username
	if user == c.known.bootstrapper() || isOfDaemon(user) || c.known.isNodeOfHost(user) {
		return true
	}
	for _, name := range c.commonNames {
		if isOfDaemon(name) || c.known.isNodeOfHost(name) {
			return true
		}
	}
	for _, organization := range c.organizations {
		if organization == api.WICDGroup || organization == api.NodeManagerGroup {
			return true
		}
	}
	return false
}

// isOfDaemon says whether a user name is that of WICD or of a cloud-node-manager.
func isOfDaemon(user string) bool {
	return strings.HasPrefix(user, api.WICDUserPrefix) || strings.HasPrefix(user, api.NodeManagerUserPrefix)
}

// AsksForNodeManager says whether a request is for the identity of a cloud-node-manager, for which Known.NodeManager is needed.
func AsksForNodeManager(req *certificatesv1.CertificateSigningRequest) bool {
	cert, _ := decode(req.Spec.Request)
	return strings.HasPrefix(cert.Subject.CommonName, api.NodeManagerUserPrefix)
}

// isOVNKubernetes says whether a kubelet asks for nothing but its host's identity in OVN-Kubernetes, as hybrid-overlay-node does.
// OVN-Kubernetes has an approver of its own for that.
func (c candidate) isOVNKubernetes() bool {
	node, isKubelet := strings.CutPrefix(c.req.Spec.Username, NodeUserPrefix)
	return isKubelet && c.req.Spec.SignerName == certificatesv1.KubeAPIServerClientSignerName &&
		slices.Equal(c.commonNames, []string{"system:ovn-node:" + node}) && slices.Equal(c.organizations, []string{"system:ovn-nodes"})
}

// bootstrapper is the user name of those who hold a bootstrap token.
func (k Known) bootstrapper() string {
	return "system:serviceaccount:" + k.Namespace + ":" + api.BootstrapServiceAccount
}

// isNodeOfHost says whether a user name is that of the kubelet of one of the hosts. A Linux node keeps its name, and its
// requests are nobody's business here, even if a Windows host has the same name.
func (k Known) isNodeOfHost(user string) bool {
	name, ok := strings.CutPrefix(user, NodeUserPrefix)
	if node, exists := k.Nodes[name]; exists && node.OS != windowsOS {
		return false
	}
	return ok && k.host(name, "") != nil
}

// host finds the host that has, or will have, a node name. Where several claim it, the registered one is right, and one
// that joins comes before one that does not. Of two that join, the holder of the credential is meant, and rule NodeNameTaken
// refuses it.
func (k Known) host(node, credential string) *Host {
	rank := func(h *Host) int {
		switch {
		case h.Registered:
			return 3
		case h.holds(credential):
			return 2
		case h.claims():
			return 1
		}
		return 0
	}
	var found *Host
	for i := range k.Hosts {
		h := &k.Hosts[i]
		if node != "" && h.Node == node && (found == nil || rank(h) > rank(found)) {
			found = h
		}
	}
	return found
}

// claims says whether the host's name is its own by now: the operator has let it join under that name.
func (h Host) claims() bool { return h.Registered || h.CredentialID != "" }

// holds says whether a credential, as the API server writes it into requests, is the host's bootstrap token.
func (h Host) holds(credential string) bool {
	return h.CredentialID != "" && credential == "JTI="+h.CredentialID
}
