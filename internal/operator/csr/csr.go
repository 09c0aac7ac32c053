// Package csr decides which certificate requests of Windows hosts may be approved. A certificate makes its holder a node of the cluster, so a request
// that merely resembles one of a managed host is not enough: every field must have exactly the required value, and the requester must be the host
// itself, identified by its bootstrap token or its current certificate.
//
// Read rules.go from top to bottom for the requirements of the four kinds of certificate. The package has no side effects: the state of the cluster
// is a value, Known.
package csr

import (
	"fmt"
	"slices"
	"strings"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/operator/addresses"
	"github.com/windows-machine-config/wmco/internal/shared/truncate"
)

// Host is what the operator knows about one Windows host that is a node, joins, or was only inspected.
type Host struct {
	// Instance is the WindowsInstance of the host: namespace/name.
	Instance string
	// Node is the name that the host's node has or will have; "" if unknown.
	Node string
	// DNSName is the instance's address in lower case if it is a DNS name; "" otherwise.
	DNSName string
	// Addresses are the IP addresses at which the host was reached or has presented its SSH key. Addresses that the host reports do not count.
	Addresses []string
	// CloudNames and CloudAddresses are the DNS names, in lower case, and IP addresses of the host in its cloud, from its Machine's status or from
	// the user who announced it. The status of its Node does not count.
	CloudNames, CloudAddresses []string
	// CredentialID is the JTI of the host's bootstrap token; "" unless it joins. A host whose name is taken never gets a token.
	CredentialID string
	// Leaving means that the instance is being deleted: requests with a bootstrap token are no longer approved for it.
	Leaving bool
	// Registered means that the Node named Node is proven to be this host's. Among hosts that claim one name, it is the rightful owner.
	Registered bool
	// Serves means that the host is known to have a Node.
	Serves bool
	// KeyKnown means that the user recorded the host's SSH key, so that no other host can have been reached at its addresses.
	KeyKnown bool
}

// Node is what the operator knows about one Node, of any operating system.
type Node struct {
	// OS is the value of label kubernetes.io/os.
	OS string
	// Ready reports whether the Node's condition Ready is True.
	Ready bool
	// Addresses and Names are the IP addresses and DNS names in the Node's status, which the node itself writes.
	Addresses, Names []string
	// PodCIDRs are the ranges of its pods.
	PodCIDRs []string
}

const windowsOS = "windows"

// Known is the cluster state on which decisions are based.
type Known struct {
	// Namespace is the operator's namespace, which contains the ServiceAccount of the bootstrap tokens.
	Namespace string
	// PoliciesFault describes a problem with the admission policies that restrict the identities of WICD and the cloud-node-manager; "" if they are
	// in force.
	PoliciesFault string
	// NodeManager means that the published settings include Azure's cloud-node-manager; otherwise it gets no certificate.
	NodeManager bool
	// Hosts are all Windows hosts that are nodes or may become nodes.
	Hosts []Host
	// Nodes are all Nodes of the cluster by name.
	Nodes map[string]Node
	// Cluster has the addresses and names of the cluster that belong to no Windows host; they are never certified for a host. It does not include
	// Nodes.
	Cluster addresses.Cluster
}

// Verdict is what to do with a request.
type Verdict string

// The verdicts.
const (
	// Ignore means that the request is not about a managed Windows host, or is already decided.
	Ignore Verdict = ""
	// Approve means that every rule holds.
	Approve Verdict = "Approve"
	// Refuse means that the request claims to be from a managed host and breaks a rule. An event reports it, and the request stays pending, never
	// denied: the missing object (an instance, a Node) may still appear, and then the same request may be approved.
	Refuse Verdict = "Refuse"
)

// Decision is a verdict with its reason.
type Decision struct {
	Verdict Verdict
	// Rule is the stable name of the broken rule; "" unless refused.
	Rule string
	// Message names the request, the field, its value and what is allowed; "" unless refused. It is at most truncate.Note bytes of ASCII; values from
	// the requester are quoted and shortened.
	Message string
	// Instance is the WindowsInstance that the request is about, namespace/name; "" if there is none.
	Instance string
	// Disputed names the Nodes whose status claims an address of an approved request, although it is proven to be the host's.
	Disputed []string
}

// Decide returns the verdict on a request. The verdict depends on known, so a refused request must be decided again whenever an instance or Node
// changes.
func Decide(req *certificatesv1.CertificateSigningRequest, known Known) Decision {
	if isDecided(req) {
		return Decision{}
	}
	c := read(req, known)
	if !c.concernsHost() {
		return Decision{}
	}
	for _, r := range rules(req.Spec.SignerName, c.commonName) {
		if fault := r.violation(c); fault != "" {
			message := fmt.Sprintf("certificate request %s: %s", req.Name, fault)
			return Decision{Verdict: Refuse, Rule: r.name, Message: truncate.Text(message, truncate.Note), Instance: c.instance()}
		}
	}
	return Decision{Verdict: Approve, Instance: c.instance(), Disputed: c.disputes()}
}

// isDecided reports whether the request is already decided or has a certificate.
func isDecided(req *certificatesv1.CertificateSigningRequest) bool {
	for _, c := range req.Status.Conditions {
		switch c.Type {
		case certificatesv1.CertificateApproved, certificatesv1.CertificateDenied, certificatesv1.CertificateFailed:
			return true
		}
	}
	return len(req.Status.Certificate) > 0
}

// concernsHost reports whether the request claims to be about a Windows host, by its requester or by the requested identity. A Linux node that joins
// with kubeadm's or the cluster's own bootstrap token does not.
func (c candidate) concernsHost() bool {
	if c.isOVNKubernetes() {
		return false
	}
	user := c.req.Spec.Username
	if user == c.known.bootstrapper() || isDaemonUser(user) || c.known.isNodeOfHost(user) {
		return true
	}
	for _, name := range c.commonNames {
		if isDaemonUser(name) || c.known.isNodeOfHost(name) {
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

// isDaemonUser reports whether a user name is that of WICD or of a cloud-node-manager.
func isDaemonUser(user string) bool {
	return strings.HasPrefix(user, api.WICDUserPrefix) || strings.HasPrefix(user, api.NodeManagerUserPrefix)
}

// IsForNodeManager reports whether a request is for the identity of a cloud-node-manager, which requires Known.NodeManager.
func IsForNodeManager(req *certificatesv1.CertificateSigningRequest) bool {
	cert, _ := decode(req.Spec.Request)
	return strings.HasPrefix(cert.Subject.CommonName, api.NodeManagerUserPrefix)
}

// isOVNKubernetes reports whether a kubelet requests only its host's identity in OVN-Kubernetes, as hybrid-overlay-node does. OVN-Kubernetes has its
// own approver for that.
func (c candidate) isOVNKubernetes() bool {
	node, isKubelet := strings.CutPrefix(c.req.Spec.Username, NodeUserPrefix)
	return isKubelet && c.req.Spec.SignerName == certificatesv1.KubeAPIServerClientSignerName &&
		slices.Equal(c.commonNames, []string{"system:ovn-node:" + node}) && slices.Equal(c.organizations, []string{"system:ovn-nodes"})
}

// bootstrapper returns the user name of bootstrap token holders.
func (k Known) bootstrapper() string {
	return "system:serviceaccount:" + k.Namespace + ":" + api.BootstrapServiceAccount
}

// isNodeOfHost reports whether a user name is that of the kubelet of one of the hosts. A Linux node keeps its name, and this package ignores its
// requests even if a Windows host has the same name.
func (k Known) isNodeOfHost(user string) bool {
	name, ok := strings.CutPrefix(user, NodeUserPrefix)
	if node, exists := k.Nodes[name]; exists && node.OS != windowsOS {
		return false
	}
	return ok && k.host(name, "") != nil
}

// host returns the host that has, or will have, a node name. If several hosts claim it, the registered one wins, and a joining one takes precedence over
// the others. Of two joining hosts, it returns the holder of the credential, and rule NodeNameTaken refuses the request.
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

// claims reports whether the operator has let the host join under its name.
func (h Host) claims() bool { return h.Registered || h.CredentialID != "" }

// holds reports whether a credential, in the API server's format, is the host's bootstrap token.
func (h Host) holds(credential string) bool {
	return h.CredentialID != "" && credential == "JTI="+h.CredentialID
}
