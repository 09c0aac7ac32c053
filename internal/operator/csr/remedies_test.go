package csr

import (
	"crypto/x509/pkix"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
)

// remedy is a request that breaks a rule, and the remedy that its message names.
type remedy struct {
	rule string
	with func() *request
	// message is the part of the message that names what is allowed, or the remedy; apply carries it out.
	message string
	apply   func(*request)
}

func remedies() []remedy {
	six, claimed := net.ParseIP("2001:db8::7"), netip.MustParseAddr("10.0.0.12")
	of := func(base func() *request, broken func(*request)) func() *request {
		return func() *request { return change(base(), broken) }
	}
	serving := func(broken func(*request)) func() *request { return of(kubeletServing, broken) }
	usages := []certificatesv1.KeyUsage{"digital signature", "client auth"}
	return []remedy{
		{"SignerNotAllowed", of(kubeletRenewal, func(r *request) { r.signer = "example.com/x" }), "kube-apiserver-client-kubelet",
			func(r *request) { r.signer = certificatesv1.KubeAPIServerClientKubeletSignerName }},
		{"RequestMalformed", of(kubeletRenewal, func(r *request) {
			r.after = func(req *certificatesv1.CertificateSigningRequest) {
				req.Spec.Request = append(req.Spec.Request, "x"...)
			}
		}), "allowed: one CERTIFICATE REQUEST block", func(r *request) { r.after = nil }},
		{"KeyNotAllowed", of(kubeletRenewal, func(r *request) { r.key = "P-224" }), "it must be RSA with 2048", func(r *request) { r.key = "RSA-2048" }},
		{"KeyNotAllowed", of(kubeletRenewal, func(r *request) { r.key = "P-224" }), "ECDSA on P-256, P-384 or P-521", func(r *request) { r.key = "P-521" }},
		{"SignatureInvalid", of(kubeletRenewal, func(r *request) { r.after = breakSignature }), "must be made with the key in the request", func(r *request) { r.after = nil }},
		{"CommonNameNotAllowed", of(kubeletRenewal, func(r *request) { r.subject.CommonName = "win-2" }), "system:node:<name of the node>", func(r *request) { r.subject.CommonName = "system:node:win-2" }},
		{"OrganizationsNotExact", of(wicdRenewal, func(r *request) { r.subject.Organization = nil }), `exactly ["system:wicd-nodes"]`, func(r *request) { r.subject.Organization = []string{"system:wicd-nodes"} }},
		{"SubjectNotExact", of(kubeletRenewal, func(r *request) { r.subject.Locality = []string{"x"} }), "one common name and one organization", func(r *request) {
			r.subject = pkix.Name{CommonName: r.subject.CommonName, Organization: r.subject.Organization}
		}},
		{"UsagesNotExact", of(kubeletRenewal, func(r *request) { r.usages = nil }), `exactly ["digital signature", "client auth"], with or without "key encipherment"`, func(r *request) { r.usages = append(usages, "key encipherment") }},
		{"ExtensionsNotAllowed", of(kubeletRenewal, func(r *request) { r.dns = []string{"win-2"} }), "client certificates must have none", func(r *request) { r.dns = nil }},
		{"ExtensionsNotAllowed", serving(func(r *request) { r.extra = []pkix.Extension{{Id: oidCommonName(), Value: []byte{5, 0}}} }), "alternative names only", func(r *request) { r.extra = nil }},
		{"AltNamesMissing", serving(func(r *request) { r.dns, r.ips = nil, nil }), "at least one of the node's name and addresses is required", func(r *request) { r.dns = []string{"win-2"} }},
		{"AltNameKindNotAllowed", serving(func(r *request) { r.uris = []*url.URL{{Scheme: "spiffe", Host: "x"}} }), "allowed: the node's name and its addresses", func(r *request) { r.uris = nil }},
		{"NodeNotWindows", of(kubeletRenewal, func(r *request) { r.known.Nodes["win-2"] = Node{OS: "linux"}; r.user = bootstrapUser }), "allowed: Windows nodes", func(r *request) {
			r.known.Nodes["win-2"] = Node{OS: windowsOS}
			r.user = r.subject.CommonName
		}},
		{"InstanceUnknown", of(kubeletBootstrap, func(r *request) { r.known.Hosts[0].Node = "" }), "have begun to join with a WindowsInstance", func(r *request) { r.known.Hosts[0].Node = "win-1" }},
		{"RequesterNotAllowed", of(kubeletRenewal, func(r *request) { r.user = anyoneElse }), "and, to renew, system:node:win-2", func(r *request) { r.user = "system:node:win-2" }},
		{"RequesterNotAllowed", of(wicdBootstrap, func(r *request) { r.user = anyoneElse }), bootstrapUser + " (with the token handed to instance wmco/joining)", func(r *request) { r.user = bootstrapUser }},
		{"RequesterNotAllowed", serving(func(r *request) { r.groups = nil }), "it must contain system:nodes", func(r *request) { r.groups = []string{"system:nodes", "system:authenticated"} }},
		{"CredentialNotOfInstance", of(kubeletBootstrap, func(r *request) { r.proof = []string{"JTI=token-3"} }), "the token handed to instance wmco/joining", func(r *request) { r.proof = []string{"JTI=token-1"} }},
		{"NodeNameTaken", of(kubeletBootstrap, func(r *request) { r.known.Nodes["win-1"] = Node{OS: windowsOS} }), "delete the Node if its machine no longer exists", func(r *request) { delete(r.known.Nodes, "win-1") }},
		{"NodeNameTaken", of(kubeletBootstrap, func(r *request) { r.known.Hosts[2].Node = "win-1" }), "rename one of the hosts", func(r *request) { r.known.Hosts[2].Node = "win-4" }},
		{"InstanceLeaving", of(kubeletBootstrap, func(r *request) { r.known.Hosts[0].Leaving = true }), "allowed: renewals until its host has left", func(r *request) {
			r.user, r.proof, r.groups = r.subject.CommonName, nil, kubeletRenewal().groups
			r.known.Nodes["win-1"] = Node{OS: windowsOS}
			r.known.Hosts[0].Registered = true
		}},
		{"NodeMissing", of(wicdRenewal, func(r *request) { delete(r.known.Nodes, "win-2") }), "allowed: renewals for nodes that exist", func(r *request) { r.known.Nodes["win-2"] = Node{OS: windowsOS} }},
		{"ExpirationTooLong", of(wicdRenewal, forever), "allowed: 1 to 86400", lasting(24 * time.Hour)},
		{"PolicyMissing", of(wicdRenewal, func(r *request) { r.known.PoliciesFault = "policy x is missing" }), "they are not in force: policy x is missing", func(r *request) { r.known.PoliciesFault = "" }},
		{"ServiceNotDeclared", of(nodeManager, func(r *request) { r.known.NodeManager = false }), "only on Azure", func(r *request) { r.known.NodeManager = true }},
		{"NodeMissing", of(nodeManager, func(r *request) { delete(r.known.Nodes, "win-2") }), "nodes that exist or are joining", func(r *request) { r.known.Hosts[1].CredentialID = "token-2" }},

		{"DNSNameNotOfInstance", serving(func(r *request) { r.dns = []string{"WIN-2.Corp.Example"} }), "add it to spec.additionalAddresses", func(r *request) { r.known.Hosts[1].CloudNames = []string{"win-2.corp.example"} }},
		{"DNSNameNotOfInstance", serving(func(r *request) { r.dns = []string{"win-3"} }), "it is a name of instance wmco/another", func(r *request) { r.dns = []string{"win-2"} }},
		{"DNSNameNotOfInstance", serving(func(r *request) { r.dns = []string{"*"} }), "it is not a valid host name", func(r *request) { r.dns = []string{"win-2"} }},
		{"DNSNameOfAnother", serving(func(r *request) {
			r.dns, r.known.Hosts[1].CloudNames = []string{"x.example"}, []string{"x.example"}
			r.known.Hosts[0].CloudNames = r.dns
		}),
			"names of only this node", func(r *request) { r.known.Hosts[0].CloudNames = nil }},
		{"AddressNotOfInstance", serving(func(r *request) { r.ips = append(r.ips, net.IPv4(203, 0, 113, 7)) }), "add it to spec.additionalAddresses", func(r *request) { r.known.Hosts[1].CloudAddresses = []string{"203.0.113.7"} }},
		{"AddressNotOfInstance", serving(func(r *request) { r.ips = append(r.ips, six) }), "add it to spec.additionalAddresses", func(r *request) { r.known.Hosts[1].CloudAddresses = []string{"2001:db8::7"} }},
		{"AddressNotOfInstance", serving(func(r *request) { r.ips = append(r.ips, net.ParseIP("fe80::1")) }), "it is a link-local address", func(r *request) { r.ips = r.ips[:1] }},
		{"AddressNotOfInstance", serving(func(r *request) { r.ips = append(r.ips, net.IPv4(10, 0, 0, 1)) }), "it is an address of Node linux-1", func(r *request) { r.ips = r.ips[:1] }},
		{"AddressOfAnother", serving(func(r *request) {
			r.known.Hosts[1].CloudAddresses, r.ips = []string{six.String()}, append(r.ips, six)
			r.known.Nodes["linux-1"] = Node{Addresses: []string{six.String()}}
		}), "addresses of only this node", func(r *request) { delete(r.known.Nodes, "linux-1") }},
		{"AddressOfAnother", serving(claim(claimed, "Service a/b")), "if the address belongs to the host, remove it from the Service", func(r *request) { r.known.Cluster.Claimed = nil }},
		{"AddressOfAnother", serving(claim(claimed, "Service a/b")), "or set the host's key in spec.hostKey", func(r *request) { r.known.Hosts[1].KeyKnown = true }},
		{"AddressOfAnother", serving(func(r *request) {
			r.known.Cluster.Released = map[netip.Addr]string{claimed: "Service a/b"}
		}), "wait a few minutes", func(r *request) { r.known.Cluster.Released = nil }},
		{"AddressOfAnother", serving(func(r *request) { r.known.Cluster.Uncounted = "a/b" }), "delete the Service", func(r *request) { r.known.Cluster.Uncounted = "" }},
	}
}

func claim(address netip.Addr, by string) func(*request) {
	return func(r *request) { r.known.Cluster.Claimed = map[netip.Addr]string{address: by} }
}

func breakSignature(req *certificatesv1.CertificateSigningRequest) {
	req.Spec.Request = flipLast(req.Spec.Request)
}

// TestRefusalRemediesWork applies the remedy in each rule's message, and expects the request to be approved then.
func TestRefusalRemediesWork(t *testing.T) {
	tried := map[string]bool{}
	for _, r := range remedies() {
		tried[r.rule] = true
		t.Run(r.rule+" "+r.message, func(t *testing.T) {
			broken := r.with()
			got := Decide(broken.build(t), broken.known)
			if got.Rule != r.rule || !strings.Contains(got.Message, r.message) {
				t.Errorf("rule %q, want %q: %q does not contain %q", got.Rule, r.rule, got.Message, r.message)
			}
			r.apply(broken)
			if after := Decide(broken.build(t), broken.known); after.Verdict != Approve {
				t.Errorf("the remedy in the message does not help: %s", after.Message)
			}
		})
	}
	for _, signer := range []string{
		certificatesv1.KubeAPIServerClientKubeletSignerName, certificatesv1.KubeletServingSignerName, certificatesv1.KubeAPIServerClientSignerName, "x",
	} {
		for _, name := range []string{"system:wicd-node:x", "system:windows-cloud-node-manager:x"} {
			for _, rule := range rules(signer, name) {
				if !tried[rule.name] {
					t.Errorf("no case tests the remedy of rule %s", rule.name)
				}
			}
		}
	}
}

// TestCloudClaimHasNoHostKeyRemedy: a key proves which host is reached at an address, and nothing about an address that only a cloud
// reports.
func TestCloudClaimHasNoHostKeyRemedy(t *testing.T) {
	public := netip.MustParseAddr("203.0.113.7")
	r := change(kubeletServing(), claim(public, "Service a/b"))
	r.known.Hosts[1].CloudAddresses, r.known.Hosts[1].KeyKnown = []string{public.String()}, true
	r.ips = append(r.ips, public.AsSlice())
	got := Decide(r.build(t), r.known)
	if got.Rule != "AddressOfAnother" || strings.Contains(got.Message, "hostKey") {
		t.Errorf("rule %q: %s", got.Rule, got.Message)
	}
}
