package csr

import (
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"math"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
)

func TestClientRequestsBreakingRulesAreRefused(t *testing.T) { runCases(t, clientCases()) }

func clientCases() []testCase {
	cases := []testCase{
		{"kubelet asks for another host's identity in OVN-Kubernetes", change(overlayByKubelet(), func(r *request) { r.subject.CommonName = "system:ovn-node:win-1" }), "CommonNameNotAllowed"},
		{"kubelet hides an identity of ours behind one in OVN-Kubernetes", change(overlayByKubelet(), func(r *request) {
			r.subject.Organization = append(r.subject.Organization, "system:wicd-nodes")
		}), "CommonNameNotAllowed"},
		{"kubelet asks a signer of kubelets for an identity in OVN-Kubernetes", change(overlayByKubelet(), func(r *request) {
			r.signer = "kubernetes.io/kube-apiserver-client-kubelet"
		}), "CommonNameNotAllowed"},
		{"host asks with its token for an identity in OVN-Kubernetes", change(overlayByKubelet(), func(r *request) { r.user = bootstrapUser }), "CommonNameNotAllowed"},
	}
	for kind, base := range map[string]func() *request{"kubelet": kubeletBootstrap, "WICD": wicdBootstrap} {
		prefix := strings.TrimSuffix(base().subject.CommonName, "win-1")
		cases = append(cases, []testCase{
			{kind + " asks for another host's name with its own token", change(base(), func(r *request) { r.subject.CommonName = prefix + "win-3" }), "CredentialNotOfInstance"},
			{kind + " asks for the name of a host that has joined", change(base(), func(r *request) { r.subject.CommonName = prefix + "win-2" }), "CredentialNotOfInstance"},
			{kind + " shows another host's token", change(base(), func(r *request) { r.proof = []string{"JTI=token-3"} }), "CredentialNotOfInstance"},
			{kind + " shows a token that was handed to nobody", change(base(), func(r *request) { r.proof = []string{"JTI=token-9"} }), "CredentialNotOfInstance"},
			{kind + " shows no credential", change(base(), func(r *request) { r.proof = nil }), "CredentialNotOfInstance"},
			{kind + " shows two credentials", change(base(), func(r *request) { r.proof = []string{"JTI=token-1", "JTI=token-3"} }), "CredentialNotOfInstance"},
			{kind + " shows an empty token for a host that does not join", change(base(), func(r *request) {
				r.proof, r.known.Hosts[0].CredentialID = []string{"JTI="}, ""
			}), "CredentialNotOfInstance"},
			{kind + " adds organization system:masters", change(base(), func(r *request) {
				r.subject.Organization = append(r.subject.Organization, "system:masters")
			}), "OrganizationsNotExact"},
			{kind + " asks for organization system:masters alone", change(base(), func(r *request) { r.subject.Organization = []string{"system:masters"} }), "OrganizationsNotExact"},
			{kind + " asks without organization", change(base(), func(r *request) { r.subject.Organization = nil }), "OrganizationsNotExact"},
			{kind + " names its organization twice", change(base(), func(r *request) {
				r.subject.Organization = append(r.subject.Organization, r.subject.Organization[0])
			}), "OrganizationsNotExact"},
			{kind + " adds an organizational unit", change(base(), func(r *request) { r.subject.OrganizationalUnit = []string{"x"} }), "SubjectNotExact"},
			{kind + " adds a second common name", change(base(), func(r *request) {
				r.subject.ExtraNames = []pkix.AttributeTypeAndValue{{Type: oidCommonName(), Value: "system:node:win-1"}}
				r.subject.ExtraNames = append(r.subject.ExtraNames, pkix.AttributeTypeAndValue{Type: oidCommonName(), Value: r.subject.CommonName})
				r.subject.ExtraNames = append(r.subject.ExtraNames, pkix.AttributeTypeAndValue{Type: oidOrganization(), Value: r.subject.Organization[0]})
			}), "SubjectNotExact"},
			{kind + " has no instance", change(base(), func(r *request) { r.subject.CommonName = prefix + "win-9" }), "InstanceUnknown"},
			{kind + " asks for a node without a name", change(base(), func(r *request) { r.subject.CommonName = prefix }), "CommonNameNotAllowed"},
			{kind + " asks for some other identity", change(base(), func(r *request) { r.subject.CommonName = "system:admin" }), "CommonNameNotAllowed"},
			{kind + " asks for its name in capitals", change(base(), func(r *request) { r.subject.CommonName = prefix + "WIN-1" }), "InstanceUnknown"},
			{kind + " asks for the name of a Linux node", change(base(), func(r *request) { r.subject.CommonName = prefix + "linux-1" }), "NodeNotWindows"},
			{kind + " of a host with the name of a Linux node", change(base(), func(r *request) {
				r.subject.CommonName, r.known.Hosts[0].Node = prefix+"linux-1", "linux-1"
			}), "NodeNotWindows"},
			{kind + " takes the name of another live node", change(base(), func(r *request) {
				r.known.Nodes["win-1"] = Node{OS: "windows", Ready: true, Addresses: []string{"10.0.0.99"}}
			}), "NodeNameTaken"},
			{kind + " takes the name of a dead Node", change(base(), func(r *request) {
				r.known.Nodes["win-1"] = Node{OS: "windows", Addresses: []string{"10.0.0.99"}}
			}), "NodeNameTaken"},
			{kind + " takes the name of a Node that has the host's address by its own word", change(base(), func(r *request) {
				r.known.Nodes["win-1"] = Node{OS: "windows", Ready: true, Addresses: []string{"10.0.0.11"}}
			}), "NodeNameTaken"},
			{kind + " takes the name of an instance that is registered", change(base(), func(r *request) { r.known.Hosts[2].Node, r.known.Hosts[2].Registered = "win-1", true }), "CredentialNotOfInstance"},
			{kind + " of one of two hosts with the same name", change(base(), func(r *request) { r.known.Hosts[2].Node = "win-1" }), "NodeNameTaken"},
			{kind + " of the other of two hosts with the same name", change(base(), func(r *request) {
				r.known.Hosts[2].Node, r.proof = "win-1", []string{"JTI=token-3"}
			}), "NodeNameTaken"},
			{kind + " adds a usage", change(base(), func(r *request) { r.usages = append(r.usages, "server auth") }), "UsagesNotExact"},
			{kind + " asks for any usage", change(base(), func(r *request) { r.usages = []certificatesv1.KeyUsage{"any"} }), "UsagesNotExact"},
			{kind + " lacks a usage", change(base(), func(r *request) { r.usages = r.usages[:1] }), "UsagesNotExact"},
			{kind + " asks for a DNS name", change(base(), func(r *request) { r.dns = []string{"win-1"} }), "ExtensionsNotAllowed"},
			{kind + " asks for an address", change(base(), func(r *request) { r.ips = []net.IP{net.IPv4(10, 0, 0, 11)} }), "ExtensionsNotAllowed"},
			{kind + " asks for an email address", change(base(), func(r *request) { r.emails = []string{"a@example.com"} }), "ExtensionsNotAllowed"},
			{kind + " asks for a URI", change(base(), func(r *request) { r.uris = []*url.URL{{Scheme: "spiffe", Host: "x"}} }), "ExtensionsNotAllowed"},
			{kind + " asks to be an authority", change(base(), func(r *request) {
				r.extra = []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 19}, Value: []byte{0x30, 3, 1, 1, 0xff}}}
			}), "ExtensionsNotAllowed"},
			{kind + " asks the signer of others", change(base(), func(r *request) { r.signer = "kubernetes.io/legacy-unknown" }), "SignerNotAllowed"},
			{kind + " asks the signer of serving certificates", change(base(), func(r *request) { r.signer = "kubernetes.io/kubelet-serving" }), map[string]string{"kubelet": "UsagesNotExact", "WICD": "CommonNameNotAllowed"}[kind]},
			{kind + " with a key of RSA 1024", change(base(), func(r *request) { r.key = "RSA-1024" }), "KeyNotAllowed"},
			{kind + " asks for more than it may have", change(base(), lasting(366*24*time.Hour+time.Second)), "ExpirationTooLong"},
			{kind + " asks for as long as there is", change(base(), func(r *request) { r.seconds = new(int32(math.MaxInt32)) }), "ExpirationTooLong"},
			{kind + " asks with the token of a host that is leaving", change(base(), func(r *request) { r.known.Hosts[0].Leaving = true }), "InstanceLeaving"},
			{kind + " with a key on P-224", change(base(), func(r *request) { r.key = "P-224" }), "KeyNotAllowed"},
		}...)
	}
	return append(cases, []testCase{
		{"WICD asks while the policies are not in force", change(wicdBootstrap(), func(r *request) { r.known.PoliciesFault = "policy x is missing" }), "PolicyMissing"},
		{"WICD renews while the policies are not in force", change(wicdRenewal(), func(r *request) { r.known.PoliciesFault = "policy x is missing" }), "PolicyMissing"},
		{"kubelet asks for WICD while the policies are not in force", change(wicdByKubelet(), func(r *request) { r.known.PoliciesFault = "policy x is missing" }), "PolicyMissing"},
		{"WICD asks for more than a day", change(wicdBootstrap(), lasting(24*time.Hour+time.Second)), "ExpirationTooLong"},
		{"WICD renews for more than a day", change(wicdRenewal(), lasting(48*time.Hour)), "ExpirationTooLong"},
		{"WICD leaves the lifetime to the signer", change(wicdBootstrap(), forever), "ExpirationTooLong"},
		{"WICD asks for a negative lifetime", change(wicdBootstrap(), lasting(-time.Hour)), "ExpirationTooLong"},
		{"kubelet asks the signer of WICD", change(kubeletBootstrap(), func(r *request) { r.signer = "kubernetes.io/kube-apiserver-client" }), "CommonNameNotAllowed"},
		{"WICD asks the signer of kubelets", change(wicdBootstrap(), func(r *request) { r.signer = "kubernetes.io/kube-apiserver-client-kubelet" }), "CommonNameNotAllowed"},
		{"WICD asks for the kubelets' group", change(wicdBootstrap(), func(r *request) { r.subject.Organization = []string{"system:nodes"} }), "OrganizationsNotExact"},
	}...)
}

func TestRequestsOfOtherRequestersAreRefused(t *testing.T) { runCases(t, requesterCases()) }

func requesterCases() []testCase {
	return []testCase{
		{"user asks for a host's kubelet", change(kubeletBootstrap(), func(r *request) { r.user = anyoneElse }), "RequesterNotAllowed"},
		{"user asks for a host's WICD", change(wicdBootstrap(), func(r *request) { r.user = anyoneElse }), "RequesterNotAllowed"},
		{"user asks for WICD's group", change(wicdBootstrap(), func(r *request) { r.user, r.subject.CommonName = anyoneElse, "bob" }), "CommonNameNotAllowed"},
		{"kubeadm's token asks for a host's kubelet", change(kubeletBootstrap(), func(r *request) { r.user = "system:bootstrap:abcdef" }), "RequesterNotAllowed"},
		{"bootstrap ServiceAccount of another namespace", change(kubeletBootstrap(), func(r *request) {
			r.user = "system:serviceaccount:other:windows-node-bootstrapper"
		}), "RequesterNotAllowed"},
		{"kubelet of another host", change(kubeletRenewal(), func(r *request) { r.subject.CommonName = "system:node:win-1" }), "RequesterNotAllowed"},
		{"Linux kubelet asks for a Windows node", change(kubeletRenewal(), func(r *request) { r.user = "system:node:linux-1" }), "RequesterNotAllowed"},
		{"Windows kubelet asks for a Linux node", change(kubeletRenewal(), func(r *request) { r.subject.CommonName = "system:node:linux-1" }), "NodeNotWindows"},
		{"Windows kubelet asks for a node nobody knows", change(kubeletRenewal(), func(r *request) { r.subject.CommonName = "system:node:win-9" }), "InstanceUnknown"},
		{"kubelet renews outside its group", change(kubeletRenewal(), func(r *request) { r.groups = []string{"system:authenticated"} }), "RequesterNotAllowed"},
		{"kubelet renews after its Node was deleted", change(kubeletRenewal(), func(r *request) { delete(r.known.Nodes, "win-2") }), "NodeMissing"},
		{"kubelet asks for the identity of another host's WICD", change(wicdByKubelet(), func(r *request) { r.user = "system:node:win-3" }), "RequesterNotAllowed"},
		{"kubelet asks for WICD's identity outside its group", change(wicdByKubelet(), func(r *request) { r.groups = []string{"system:authenticated"} }), "RequesterNotAllowed"},
		{"kubelet asks for WICD's identity without a Node", change(wicdByKubelet(), func(r *request) { delete(r.known.Nodes, "win-2") }), "NodeMissing"},
		{"WICD asks for the kubelet's identity", change(kubeletRenewal(), func(r *request) { r.user = "system:wicd-node:win-2" }), "RequesterNotAllowed"},
		{"WICD of another host", change(wicdRenewal(), func(r *request) { r.user = "system:wicd-node:win-1" }), "RequesterNotAllowed"},
		{"WICD asks for some user", change(wicdRenewal(), func(r *request) { r.subject.CommonName = "bob" }), "CommonNameNotAllowed"},
		{"WICD renews outside its group", change(wicdRenewal(), func(r *request) { r.groups = []string{"system:authenticated"} }), "RequesterNotAllowed"},
		{"WICD renews after its Node was deleted", change(wicdRenewal(), func(r *request) { delete(r.known.Nodes, "win-2") }), "NodeMissing"},
		{"WICD renews after its instance was deleted", change(wicdRenewal(), func(r *request) { r.known.Hosts = r.known.Hosts[:1] }), "InstanceUnknown"},
	}
}

func TestServingRequestsBreakingRulesAreRefused(t *testing.T) { runCases(t, servingCases()) }

func servingCases() []testCase {
	dns := func(names ...string) *request {
		return change(kubeletServing(), func(r *request) { r.dns = names })
	}
	ip := func(known Known, ip string) *request {
		return change(kubeletServing(), func(r *request) {
			r.known, r.ips = known, append(r.ips, net.ParseIP(ip))
		})
	}
	claims := func(address string) Known {
		k := cluster()
		k.Hosts[1].Addresses = append(k.Hosts[1].Addresses, address)
		return k
	}
	announced := func(name string) *request {
		return change(kubeletServing(), func(r *request) { r.known.Hosts[1].DNSName, r.dns = name, []string{"win-2", name} })
	}
	otherName := []byte{0xa0, 0x08, 0x06, 0x02, 0x2a, 0x03, 0xa0, 0x02, 0x05, 0x00} // an otherName with the value NULL
	return []testCase{
		{"serving certificate for more than a year", change(kubeletServing(), lasting(366*24*time.Hour+time.Second)), "ExpirationTooLong"},
		{"requested with the bootstrap token", change(kubeletServing(), func(r *request) { r.user = bootstrapUser }), "RequesterNotAllowed"},
		{"requested by somebody else", change(kubeletServing(), func(r *request) { r.user = anyoneElse }), "RequesterNotAllowed"},
		{"requested by another node", change(kubeletServing(), func(r *request) { r.user = "system:node:win-1" }), "RequesterNotAllowed"},
		{"requested outside group system:nodes", change(kubeletServing(), func(r *request) { r.groups = []string{"system:authenticated"} }), "RequesterNotAllowed"},
		{"requested outside group system:authenticated", change(kubeletServing(), func(r *request) { r.groups = []string{"system:nodes"} }), "RequesterNotAllowed"},
		{"name of a node without instance", change(kubeletServing(), func(r *request) { r.subject.CommonName = "system:node:win-9" }), "InstanceUnknown"},
		{"by a node without instance", change(kubeletServing(), func(r *request) { r.known.Hosts = r.known.Hosts[:1] }), "leave"},
		{"Linux node's name", change(kubeletServing(), func(r *request) { r.subject.CommonName = "system:node:linux-1" }), "NodeNotWindows"},
		{"extra organization system:masters", change(kubeletServing(), func(r *request) {
			r.subject.Organization = []string{"system:nodes", "system:masters"}
		}), "OrganizationsNotExact"},
		{"usage client auth", change(kubeletServing(), func(r *request) { r.usages = []certificatesv1.KeyUsage{"digital signature", "client auth"} }), "UsagesNotExact"},
		{"WICD's common name", change(kubeletServing(), func(r *request) { r.subject.CommonName = "system:wicd-node:win-2" }), "CommonNameNotAllowed"},
		{"no alternative names", change(kubeletServing(), func(r *request) { r.dns, r.ips = nil, nil }), "AltNamesMissing"},
		{"DNS name of another host", dns("win-2", "win-1"), "DNSNameNotOfInstance"},
		{"DNS name of the API", dns("win-2", "kubernetes.default.svc"), "DNSNameNotOfInstance"},
		{"DNS name with a wildcard", dns("*"), "DNSNameNotOfInstance"},
		{"empty DNS name where the instance has none", change(kubeletServing(), func(r *request) {
			r.dns, r.known.Hosts[1].DNSName = []string{""}, ""
		}), "DNSNameNotOfInstance"},
		{"DNS name in capitals", dns("WIN-2"), "approve"}, // https://github.com/kubernetes/cloud-provider-vsphere/issues/484
		{"DNS name of another host in capitals", dns("WIN-1"), "DNSNameNotOfInstance"},
		{"address of another host", ip(cluster(), "10.0.0.11"), "AddressNotOfInstance"},
		{"address of nobody", ip(cluster(), "10.0.0.77"), "AddressNotOfInstance"},
		{"IPv6 address", ip(cluster(), "fd00::1"), "AddressNotOfInstance"}, // https://github.com/kubernetes/cloud-provider-gcp/issues/330
		{"address of a Linux node", ip(cluster(), "10.0.0.1"), "AddressNotOfInstance"},
		{"address of Service kubernetes", ip(claims("10.96.0.1"), "10.96.0.1"), "AddressOfAnother"},
		{"address of a pod on Linux", ip(claims("10.132.0.7"), "10.132.0.7"), "AddressOfAnother"},
		{"address of a pod of another Node", change(ip(claims("10.244.1.7"), "10.244.1.7"), func(r *request) {
			r.known.Nodes["linux-1"] = Node{OS: "linux", PodCIDRs: []string{"fd00::/64", "10.244.1.0/24"}}
		}), "AddressOfAnother"},
		{"address of another instance before it has a Node", ip(claims("10.0.0.13"), "10.0.0.13"), "AddressOfAnother"},
		{"address of an instance whose node does not work any more", change(ip(claims("10.0.0.13"), "10.0.0.13"), func(r *request) {
			r.known.Hosts[2].CredentialID = ""
		}), "approve"},
		{"address that a Ready Linux node says it has, too", change(kubeletServing(), func(r *request) {
			r.known.Nodes["linux-1"] = Node{OS: "linux", Ready: true, Addresses: []string{"10.0.0.12"}}
		}), "approve"},
		{"announced by the name of the API server", announced("api.lab.example.com"), "DNSNameOfAnother"},
		{"announced by the name of a route", announced("oauth-openshift.apps.lab.example.com"), "DNSNameOfAnother"},
		{"announced by the name of a Service", announced("web.shop.svc"), "DNSNameOfAnother"},
		{"announced by the name of a Node", announced("linux-1"), "DNSNameOfAnother"},
		{"announced by the name of another instance's node", announced("win-3"), "DNSNameOfAnother"},
		{"reported address that is the API server's", ip(claims("10.0.0.100"), "10.0.0.100"), "AddressOfAnother"},
		{"reported loopback address", ip(claims("127.0.0.1"), "127.0.0.1"), "AddressOfAnother"},
		{"reported link-local address", ip(claims("169.254.1.1"), "169.254.1.1"), "AddressOfAnother"},
		{"email address", change(kubeletServing(), func(r *request) { r.emails = []string{"a@example.com"} }), "AltNameKindNotAllowed"},
		{"URI", change(kubeletServing(), func(r *request) { r.uris = []*url.URL{{Scheme: "spiffe", Host: "x"}} }), "AltNameKindNotAllowed"},
		{"name of a kind that is passed over", change(kubeletServing(), func(r *request) {
			r.dns, r.ips = nil, nil
			names := slices.Concat([]byte{0x30, 0x11, 0x82, 0x05}, []byte("win-2"), otherName)
			r.extra = []pkix.Extension{{Id: oidAltNames(), Value: names}}
		}), "AltNameKindNotAllowed"},
		{"other extension", change(kubeletServing(), func(r *request) {
			r.extra = []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 19}, Value: []byte{0x30, 3, 1, 1, 0xff}}}
		}), "ExtensionsNotAllowed"},
		{"two unregistered hosts with the name", change(kubeletServing(), func(r *request) {
			r.known.Hosts[1].Registered, r.known.Hosts[2].Node = false, "win-2"
		}), "NodeNameTaken"},
	}
}

func TestRequestsMustBeOnePEMBlock(t *testing.T) { runCases(t, encodingCases()) }

func encodingCases() []testCase {
	rewrite := func(with func([]byte) []byte) *request {
		r := kubeletBootstrap()
		r.after = func(req *certificatesv1.CertificateSigningRequest) { req.Spec.Request = with(req.Spec.Request) }
		return r
	}
	foreign := rewrite(func(p []byte) []byte { return append(p, "trailing"...) })
	foreign.user = anyoneElse
	return []testCase{
		{"no PEM", rewrite(func([]byte) []byte { return []byte("nonsense") }), "RequestMalformed"},
		{"longer than any host's", rewrite(func(p []byte) []byte { return append(p, strings.Repeat("\n", MaxRequest)...) }), "RequestMalformed"},
		{"nothing", rewrite(func([]byte) []byte { return nil }), "RequestMalformed"},
		{"text before the block", rewrite(func(p []byte) []byte { return append([]byte("Certificate Request:\n"), p...) }), "RequestMalformed"},
		{"text after the block", rewrite(func(p []byte) []byte { return append(p, "trailing"...) }), "RequestMalformed"},
		{"text after the block, by somebody else about our host", foreign, "RequestMalformed"},
		{"second block", rewrite(func(p []byte) []byte { return slices.Concat(p, p) }), "RequestMalformed"},
		{"broken block before the block", rewrite(func(p []byte) []byte {
			return append([]byte("-----BEGIN CERTIFICATE REQUEST-----\n!\n-----END CERTIFICATE REQUEST-----\n"), p...)
		}), "RequestMalformed"},
		{"other type of block", rewrite(func(p []byte) []byte {
			return []byte(strings.ReplaceAll(string(p), "CERTIFICATE REQUEST", "CERTIFICATE"))
		}), "RequestMalformed"},
		{"headers in the block", rewrite(func(p []byte) []byte {
			return []byte(strings.Replace(string(p), "REQUEST-----\n", "REQUEST-----\nA: b\n\n", 1))
		}), "RequestMalformed"},
		{"no request in the block", rewrite(func([]byte) []byte {
			return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: []byte("nonsense")})
		}), "RequestMalformed"},
		{"signature that is not the key's", rewrite(flipLast), "SignatureInvalid"},
		{"newlines after the block are no fault", rewrite(func(p []byte) []byte { return append(p, "\n\n"...) }), "approve"},
	}
}

// flipLast changes the last bit of a request, which belongs to its signature.
func flipLast(data []byte) []byte {
	block, _ := pem.Decode(data)
	block.Bytes[len(block.Bytes)-1] ^= 1
	return pem.EncodeToMemory(block)
}

func TestEveryRuleHasFailingCase(t *testing.T) {
	broken := map[string]bool{}
	const ofWICD, ofNodeManager = "system:wicd-node:win-2", "system:windows-cloud-node-manager:win-2"
	for _, tc := range slices.Concat(clientCases(), requesterCases(), servingCases(), encodingCases()) {
		broken[tc.signer+" "+ofWICD+" "+tc.rule] = true
	}
	for _, tc := range nodeManagerCases() {
		broken[tc.signer+" "+ofNodeManager+" "+tc.rule] = true
	}
	for _, kind := range []struct{ signer, name string }{
		{certificatesv1.KubeAPIServerClientKubeletSignerName, ofWICD}, {certificatesv1.KubeletServingSignerName, ofWICD},
		{certificatesv1.KubeAPIServerClientSignerName, ofWICD}, {certificatesv1.KubeAPIServerClientSignerName, ofNodeManager},
		{"kubernetes.io/legacy-unknown", ofWICD},
	} {
		for _, r := range rules(kind.signer, kind.name) {
			if !broken[kind.signer+" "+kind.name+" "+r.name] && !slices.Contains(independentOfKind(), r.name) {
				t.Errorf("no case breaks rule %s of signer %s for %s", r.name, kind.signer, kind.name)
			}
			if !regexp.MustCompile(`^([A-Z]+[a-z]*)+$`).MatchString(r.name) {
				t.Errorf("rule %q is not in CamelCase", r.name)
			}
		}
	}
}

// independentOfKind returns the rules about encoding and keys, which are tested with one kind of certificate only.
func independentOfKind() []string {
	return []string{"RequestMalformed", "SignatureInvalid", "KeyNotAllowed", "SubjectNotExact"}
}
