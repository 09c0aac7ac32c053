package csr

import (
	"fmt"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/windows-machine-config/wmco/api"
)

// The identity of kubelets, fixed by Kubernetes' node authorizer. The name of the node follows NodeUserPrefix.
const (
	NodeUserPrefix = "system:node:"
	nodesGroup     = "system:nodes"
)

// authenticatedGroup holds everybody whom the API server knows.
const authenticatedGroup = "system:authenticated"

// How long certificates may be valid. A kubelet asks for nothing, and gets what the signer gives by itself: a year, unless
// kube-controller-manager has another --cluster-signing-duration. WICD asks for a day each time, so that a stolen identity is soon worth nothing;
// so it does for the cloud-node-manager.
const (
	kubeletLife = 366 * 24 * time.Hour
	wicdLife    = 24 * time.Hour
)

// rule is one thing a request must fulfill. Its name is stable: users meet it in events and look it up.
type rule struct {
	name string
	// broken says what is wrong (field, value, what is allowed), or "".
	broken func(candidate) string
}

// rules are those for the kind of certificate that a signer issues for a common name, in the order in which they are asked.
func rules(signer, commonName string) []rule {
	switch signer {
	case certificatesv1.KubeAPIServerClientKubeletSignerName:
		return kubeletClientRules()
	case certificatesv1.KubeletServingSignerName:
		return kubeletServingRules()
	case certificatesv1.KubeAPIServerClientSignerName:
		if strings.HasPrefix(commonName, api.NodeManagerUserPrefix) {
			return nodeManagerRules()
		}
		return wicdClientRules()
	default:
		return []rule{{"SignerNotAllowed", func(c candidate) string {
			return fmt.Sprintf("spec.signerName is %s; allowed for Windows hosts are %s, %s and %s", quote(c.req.Spec.SignerName),
				certificatesv1.KubeAPIServerClientKubeletSignerName, certificatesv1.KubeletServingSignerName, certificatesv1.KubeAPIServerClientSignerName)
		}}}
	}
}

// kubeletClientRules are for the certificate with which a kubelet talks to the API server: the first, asked for
// with the bootstrap token, and its renewals.
func kubeletClientRules() []rule {
	return []rule{
		{"RequestMalformed", malformed},
		{"KeyNotAllowed", keyNotAllowed},
		{"SignatureInvalid", signatureInvalid},
		{"CommonNameNotAllowed", commonNameWithout(NodeUserPrefix)},
		{"OrganizationsNotExact", organizationsOtherThan(nodesGroup)},
		{"SubjectNotExact", moreInSubject},
		{"UsagesNotExact", usagesOtherThan(certificatesv1.UsageClientAuth)},
		{"ExtensionsNotAllowed", anyExtension},
		{"NodeNotWindows", nodeNotWindows},
		{"InstanceUnknown", instanceUnknown},
		{"RequesterNotAllowed", requesterOtherThanHost(nodesGroup)},
		{"CredentialNotOfInstance", credentialOfOther},
		{"NodeNameTaken", nodeNameTaken},
		{"InstanceLeaving", instanceLeaving},
		{"NodeMissing", renewalWithoutNode},
		{"ExpirationTooLong", expirationBeyond(kubeletLife)},
	}
}

// kubeletServingRules are for the certificate a kubelet shows to those who connect to it. Only the kubelet itself can
// ask, so the token plays no part. Its Node may not be there yet: the kubelet asks as soon as it knows its addresses.
func kubeletServingRules() []rule {
	return []rule{
		{"RequestMalformed", malformed},
		{"KeyNotAllowed", keyNotAllowed},
		{"SignatureInvalid", signatureInvalid},
		{"CommonNameNotAllowed", commonNameWithout(NodeUserPrefix)},
		{"OrganizationsNotExact", organizationsOtherThan(nodesGroup)},
		{"SubjectNotExact", moreInSubject},
		{"UsagesNotExact", usagesOtherThan(certificatesv1.UsageServerAuth)},
		{"ExtensionsNotAllowed", extensionsOtherThanAltNames},
		{"AltNamesMissing", altNamesMissing},
		{"AltNameKindNotAllowed", altNamesOtherThanDNSAndIP},
		{"NodeNotWindows", nodeNotWindows},
		{"InstanceUnknown", instanceUnknown},
		{"RequesterNotAllowed", requesterOtherThanNode},
		{"NodeNameTaken", nodeNameTaken},
		{"DNSNameNotOfInstance", dnsNameOfOther},
		{"DNSNameOfAnother", dnsNameOfAnother},
		{"AddressNotOfInstance", addressNotReported},
		{"AddressOfAnother", addressOfAnother},
		{"ExpirationTooLong", expirationBeyond(kubeletLife)},
	}
}

// wicdClientRules are for the certificate with which our daemon on the host talks to the API server. The first is asked
// for with the bootstrap token, often before the kubelet has made the Node. The Node would prove nothing then: the token
// does, for it was handed to one host over SSH, and that host's name is the only one it is good for. A renewal does need
// the Node, so that an identity ends with the Node it is for.
func wicdClientRules() []rule {
	return []rule{
		{"RequestMalformed", malformed},
		{"KeyNotAllowed", keyNotAllowed},
		{"SignatureInvalid", signatureInvalid},
		{"CommonNameNotAllowed", commonNameWithout(api.WICDUserPrefix)},
		{"OrganizationsNotExact", organizationsOtherThan(api.WICDGroup)},
		{"SubjectNotExact", moreInSubject},
		{"UsagesNotExact", usagesOtherThan(certificatesv1.UsageClientAuth)},
		{"ExtensionsNotAllowed", anyExtension},
		{"NodeNotWindows", nodeNotWindows},
		{"InstanceUnknown", instanceUnknown},
		{"RequesterNotAllowed", requesterOtherThanDaemon},
		{"CredentialNotOfInstance", credentialOfOther},
		{"NodeNameTaken", nodeNameTaken},
		{"InstanceLeaving", instanceLeaving},
		{"NodeMissing", renewalWithoutNode},
		{"ExpirationTooLong", expirationBeyond(wicdLife)},
		{"PolicyMissing", unguarded},
	}
}

// nodeManagerRules are for the certificate of the cloud-node-manager of Azure, which initializes its Node. WICD of the same node asks for
// each of them: the program itself asks for nothing.
func nodeManagerRules() []rule {
	return []rule{
		{"RequestMalformed", malformed},
		{"KeyNotAllowed", keyNotAllowed},
		{"SignatureInvalid", signatureInvalid},
		{"CommonNameNotAllowed", commonNameWithout(api.NodeManagerUserPrefix)},
		{"OrganizationsNotExact", organizationsOtherThan(api.NodeManagerGroup)},
		{"SubjectNotExact", moreInSubject},
		{"UsagesNotExact", usagesOtherThan(certificatesv1.UsageClientAuth)},
		{"ExtensionsNotAllowed", anyExtension},
		{"NodeNotWindows", nodeNotWindows},
		{"InstanceUnknown", instanceUnknown},
		{"RequesterNotAllowed", requesterOtherThanWICD},
		{"ServiceNotDeclared", serviceNotDeclared},
		{"NodeNameTaken", nodeNameTaken},
		{"NodeMissing", nodeMissing},
		{"ExpirationTooLong", expirationBeyond(wicdLife)},
		{"PolicyMissing", unguarded},
	}
}
