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
		{"kubelet requests another host's identity in OVN-Kubernetes", change(overlayByKubelet(), func(r *request) { r.subject.CommonName = "system:ovn-node:win-1" }), "CommonNameNotAllowed"},
		{"kubelet adds the group of WICD to an identity in OVN-Kubernetes", change(overlayByKubelet(), func(r *request) {
			r.subject.Organization = append(r.subject.Organization, "system:wicd-nodes")
		}), "CommonNameNotAllowed"},
		{"kubelet requests an identity in OVN-Kubernetes from the signer of kubelets", change(overlayByKubelet(), func(r *request) {
			r.signer = "kubernetes.io/kube-apiserver-client-kubelet"
		}), "CommonNameNotAllowed"},
		{"host requests an identity in OVN-Kubernetes with its bootstrap token", change(overlayByKubelet(), func(r *request) { r.user = bootstrapUser }), "CommonNameNotAllowed"},
	}
	for kind, base := range map[string]func() *request{"kubelet": kubeletBootstrap, "WICD": wicdBootstrap} {
		prefix := strings.TrimSuffix(base().subject.CommonName, "win-1")
		cases = append(cases, []testCase{
			{kind + " requests another host's name with its own token", change(base(), func(r *request) { r.subject.CommonName = prefix + "win-3" }), "CredentialNotOfInstance"},
			{kind + " requests the name of a host that has joined", change(base(), func(r *request) { r.subject.CommonName = prefix + "win-2" }), "CredentialNotOfInstance"},
			{kind + " presents another host's token", change(base(), func(r *request) { r.proof = []string{"JTI=token-3"} }), "CredentialNotOfInstance"},
			{kind + " presents an unknown token", change(base(), func(r *request) { r.proof = []string{"JTI=token-9"} }), "CredentialNotOfInstance"},
			{kind + " presents no credential", change(base(), func(r *request) { r.proof = nil }), "CredentialNotOfInstance"},
			{kind + " presents two credentials", change(base(), func(r *request) { r.proof = []string{"JTI=token-1", "JTI=token-3"} }), "CredentialNotOfInstance"},
			{kind + " presents an empty token for a host that does not join", change(base(), func(r *request) {
				r.proof, r.known.Hosts[0].CredentialID = []string{"JTI="}, ""
			}), "CredentialNotOfInstance"},
			{kind + " adds organization system:masters", change(base(), func(r *request) {
				r.subject.Organization = append(r.subject.Organization, "system:masters")
			}), "OrganizationsNotExact"},
			{kind + " requests organization system:masters alone", change(base(), func(r *request) { r.subject.Organization = []string{"system:masters"} }), "OrganizationsNotExact"},
			{kind + " requests no organization", change(base(), func(r *request) { r.subject.Organization = nil }), "OrganizationsNotExact"},
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
			{kind + " requests a node without a name", change(base(), func(r *request) { r.subject.CommonName = prefix }), "CommonNameNotAllowed"},
			{kind + " requests an unrelated identity", change(base(), func(r *request) { r.subject.CommonName = "system:admin" }), "CommonNameNotAllowed"},
			{kind + " requests its name in capitals", change(base(), func(r *request) { r.subject.CommonName = prefix + "WIN-1" }), "InstanceUnknown"},
			{kind + " requests the name of a Linux node", change(base(), func(r *request) { r.subject.CommonName = prefix + "linux-1" }), "NodeNotWindows"},
			{kind + " of a host with the name of a Linux node", change(base(), func(r *request) {
				r.subject.CommonName, r.known.Hosts[0].Node = prefix+"linux-1", "linux-1"
			}), "NodeNotWindows"},
			{kind + " takes the name of another live node", change(base(), func(r *request) {
				r.known.Nodes["win-1"] = Node{OS: "windows", Ready: true, Addresses: []string{"10.0.0.99"}}
			}), "NodeNameTaken"},
			{kind + " takes the name of a dead Node", change(base(), func(r *request) {
				r.known.Nodes["win-1"] = Node{OS: "windows", Addresses: []string{"10.0.0.99"}}
			}), "NodeNameTaken"},
			{kind + " takes the name of a Node that claims the host's address", change(base(), func(r *request) {
				r.known.Nodes["win-1"] = Node{OS: "windows", Ready: true, Addresses: []string{"10.0.0.11"}}
			}), "NodeNameTaken"},
			{kind + " takes the name of an instance that is registered", change(base(), func(r *request) { r.known.Hosts[2].Node, r.known.Hosts[2].Registered = "win-1", true }), "CredentialNotOfInstance"},
			{kind + " of one of two hosts with the same name", change(base(), func(r *request) { r.known.Hosts[2].Node = "win-1" }), "NodeNameTaken"},
			{kind + " of the other of two hosts with the same name", change(base(), func(r *request) {
				r.known.Hosts[2].Node, r.proof = "win-1", []string{"JTI=token-3"}
			}), "NodeNameTaken"},
			{kind + " adds a usage", change(base(), func(r *request) { r.usages = append(r.usages, "server auth") }), "UsagesNotExact"},
			{kind + " requests any usage", change(base(), func(r *request) { r.usages = []certificatesv1.KeyUsage{"any"} }), "UsagesNotExact"},
			{kind + " lacks a usage", change(base(), func(r *request) { r.usages = r.usages[:1] }), "UsagesNotExact"},
			{kind + " requests a DNS name", change(base(), func(r *request) { r.dns = []string{"win-1"} }), "ExtensionsNotAllowed"},
			{kind + " requests an address", change(base(), func(r *request) { r.ips = []net.IP{net.IPv4(10, 0, 0, 11)} }), "ExtensionsNotAllowed"},
			{kind + " requests an email address", change(base(), func(r *request) { r.emails = []string{"a@example.com"} }), "ExtensionsNotAllowed"},
			{kind + " requests a URI", change(base(), func(r *request) { r.uris = []*url.URL{{Scheme: "spiffe", Host: "x"}} }), "ExtensionsNotAllowed"},
			{kind + " requests a CA certificate", change(base(), func(r *request) {
				r.extra = []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 19}, Value: []byte{0x30, 3, 1, 1, 0xff}}}
			}), "ExtensionsNotAllowed"},
			{kind + " requests an unrelated signer", change(base(), func(r *request) { r.signer = "kubernetes.io/legacy-unknown" }), "SignerNotAllowed"},
			{kind + " requests the signer of serving certificates", change(base(), func(r *request) { r.signer = "kubernetes.io/kubelet-serving" }), map[string]string{"kubelet": "UsagesNotExact", "WICD": "CommonNameNotAllowed"}[kind]},
			{kind + " with a key of RSA 1024", change(base(), func(r *request) { r.key = "RSA-1024" }), "KeyNotAllowed"},
			{kind + " requests more than the longest lifetime", change(base(), lasting(366*24*time.Hour+time.Second)), "ExpirationTooLong"},
			{kind + " requests the largest lifetime", change(base(), func(r *request) { r.seconds = new(int32(math.MaxInt32)) }), "ExpirationTooLong"},
			{kind + " presents the token of a leaving host", change(base(), func(r *request) { r.known.Hosts[0].Leaving = true }), "InstanceLeaving"},
			{kind + " with a key on P-224", change(base(), func(r *request) { r.key = "P-224" }), "KeyNotAllowed"},
		}...)
	}
	return append(cases, []testCase{
		{"WICD requests its first certificate while the policies are not in force", change(wicdBootstrap(), func(r *request) { r.known.PoliciesFault = "policy x is missing" }), "PolicyMissing"},
		{"WICD renews while the policies are not in force", change(wicdRenewal(), func(r *request) { r.known.PoliciesFault = "policy x is missing" }), "PolicyMissing"},
		{"kubelet requests WICD while the policies are not in force", change(wicdByKubelet(), func(r *request) { r.known.PoliciesFault = "policy x is missing" }), "PolicyMissing"},
		{"WICD requests more than a day", change(wicdBootstrap(), lasting(24*time.Hour+time.Second)), "ExpirationTooLong"},
		{"WICD renews for more than a day", change(wicdRenewal(), lasting(48*time.Hour)), "ExpirationTooLong"},
		{"WICD leaves the lifetime to the signer", change(wicdBootstrap(), forever), "ExpirationTooLong"},
		{"WICD requests a negative lifetime", change(wicdBootstrap(), lasting(-time.Hour)), "ExpirationTooLong"},
		{"kubelet requests the signer of WICD", change(kubeletBootstrap(), func(r *request) { r.signer = "kubernetes.io/kube-apiserver-client" }), "CommonNameNotAllowed"},
		{"WICD requests the signer of kubelets", change(wicdBootstrap(), func(r *request) { r.signer = "kubernetes.io/kube-apiserver-client-kubelet" }), "CommonNameNotAllowed"},
		{"WICD requests the kubelets' group", change(wicdBootstrap(), func(r *request) { r.subject.Organization = []string{"system:nodes"} }), "OrganizationsNotExact"},
	}...)
}

func TestRequestsOfOtherRequestersAreRefused(t *testing.T) { runCases(t, requesterCases()) }

func requesterCases() []testCase {
	return []testCase{
		{"user requests a host's kubelet", change(kubeletBootstrap(), func(r *request) { r.user = anyoneElse }), "RequesterNotAllowed"},
		{"user requests a host's WICD", change(wicdBootstrap(), func(r *request) { r.user = anyoneElse }), "RequesterNotAllowed"},
		{"user requests WICD's group", change(wicdBootstrap(), func(r *request) { r.user, r.subject.CommonName = anyoneElse, "bob" }), "CommonNameNotAllowed"},
		{"kubeadm's token requests a host's kubelet", change(kubeletBootstrap(), func(r *request) { r.user = "system:bootstrap:abcdef" }), "RequesterNotAllowed"},
		{"bootstrap ServiceAccount of another namespace", change(kubeletBootstrap(), func(r *request) {
			r.user = "system:serviceaccount:other:windows-node-bootstrapper"
		}), "RequesterNotAllowed"},
		{"kubelet of another host", change(kubeletRenewal(), func(r *request) { r.subject.CommonName = "system:node:win-1" }), "RequesterNotAllowed"},
		{"Linux kubelet requests a Windows node", change(kubeletRenewal(), func(r *request) { r.user = "system:node:linux-1" }), "RequesterNotAllowed"},
		{"Windows kubelet requests a Linux node", change(kubeletRenewal(), func(r *request) { r.subject.CommonName = "system:node:linux-1" }), "NodeNotWindows"},
		{"Windows kubelet requests an unknown node", change(kubeletRenewal(), func(r *request) { r.subject.CommonName = "system:node:win-9" }), "InstanceUnknown"},
		{"kubelet renews outside its group", change(kubeletRenewal(), func(r *request) { r.groups = []string{"system:authenticated"} }), "RequesterNotAllowed"},
		{"kubelet renews after its Node was deleted", change(kubeletRenewal(), func(r *request) { delete(r.known.Nodes, "win-2") }), "NodeMissing"},
		{"kubelet requests the identity of another host's WICD", change(wicdByKubelet(), func(r *request) { r.user = "system:node:win-3" }), "RequesterNotAllowed"},
		{"kubelet requests WICD's identity outside its group", change(wicdByKubelet(), func(r *request) { r.groups = []string{"system:authenticated"} }), "RequesterNotAllowed"},
		{"kubelet requests WICD's identity without a Node", change(wicdByKubelet(), func(r *request) { delete(r.known.Nodes, "win-2") }), "NodeMissing"},
		{"WICD requests the kubelet's identity", change(kubeletRenewal(), func(r *request) { r.user = "system:wicd-node:win-2" }), "RequesterNotAllowed"},
		{"WICD of another host", change(wicdRenewal(), func(r *request) { r.user = "system:wicd-node:win-1" }), "RequesterNotAllowed"},
		{"WICD requests an unrelated user", change(wicdRenewal(), func(r *request) { r.subject.CommonName = "bob" }), "CommonNameNotAllowed"},
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
		{"requested by an unrelated user", change(kubeletServing(), func(r *request) { r.user = anyoneElse }), "RequesterNotAllowed"},
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
		{"unknown address", ip(cluster(), "10.0.0.77"), "AddressNotOfInstance"},
		{"IPv6 address", ip(cluster(), "fd00::1"), "AddressNotOfInstance"}, // https://github.com/kubernetes/cloud-provider-gcp/issues/330
		{"address of a Linux node", ip(cluster(), "10.0.0.1"), "AddressNotOfInstance"},
		{"address of Service kubernetes", ip(claims("10.96.0.1"), "10.96.0.1"), "AddressOfAnother"},
		{"address of a pod on Linux", ip(claims("10.132.0.7"), "10.132.0.7"), "AddressOfAnother"},
		{"address of a pod of another Node", change(ip(claims("10.244.1.7"), "10.244.1.7"), func(r *request) {
			r.known.Nodes["linux-1"] = Node{OS: "linux", PodCIDRs: []string{"fd00::/64", "10.244.1.0/24"}}
		}), "AddressOfAnother"},
		{"address of another instance before it has a Node", ip(claims("10.0.0.13"), "10.0.0.13"), "AddressOfAnother"},
		{"address of an instance that lost its credential", change(ip(claims("10.0.0.13"), "10.0.0.13"), func(r *request) {
			r.known.Hosts[2].CredentialID = ""
		}), "approve"},
		{"address that a Ready Linux node claims", change(kubeletServing(), func(r *request) {
			r.known.Nodes["linux-1"] = Node{OS: "linux", Ready: true, Addresses: []string{"10.0.0.12"}}
		}), "approve"},
		{"announced by the name of the API server", announced("api.lab.example.com"), "DNSNameOfAnother"},
		{"announced by the name of a route", announced("oauth-openshift.apps.lab.example.com"), "DNSNameOfAnother"},
		{"announced by the name of a Service", announced("web.shop.svc"), "DNSNameOfAnother"},
		{"announced by the name of a Node", announced("linux-1"), "DNSNameOfAnother"},
		{"announced by the name of another instance's node", announced("win-3"), "DNSNameOfAnother"},
		{"reported address of the API server", ip(claims("10.0.0.100"), "10.0.0.100"), "AddressOfAnother"},
		{"reported loopback address", ip(claims("127.0.0.1"), "127.0.0.1"), "AddressOfAnother"},
		{"reported link-local address", ip(claims("169.254.1.1"), "169.254.1.1"), "AddressOfAnother"},
		{"email address", change(kubeletServing(), func(r *request) { r.emails = []string{"a@example.com"} }), "AltNameKindNotAllowed"},
		{"URI", change(kubeletServing(), func(r *request) { r.uris = []*url.URL{{Scheme: "spiffe", Host: "x"}} }), "AltNameKindNotAllowed"},
		{"unsupported kind of name", change(kubeletServing(), func(r *request) {
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
		{"longer than the maximum", rewrite(func(p []byte) []byte { return append(p, strings.Repeat("\n", MaxRequest)...) }), "RequestMalformed"},
		{"empty", rewrite(func([]byte) []byte { return nil }), "RequestMalformed"},
		{"text before the block", rewrite(func(p []byte) []byte { return append([]byte("Certificate Request:\n"), p...) }), "RequestMalformed"},
		{"text after the block", rewrite(func(p []byte) []byte { return append(p, "trailing"...) }), "RequestMalformed"},
		{"text after the block, from an unrelated user", foreign, "RequestMalformed"},
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
		{"signature of another key", rewrite(flipLast), "SignatureInvalid"},
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
