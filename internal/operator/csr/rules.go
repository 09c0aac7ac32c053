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

const authenticatedGroup = "system:authenticated"

// Maximum validity of certificates. A kubelet requests no duration and gets the signer's default: a year, unless kube-controller-manager has another
// --cluster-signing-duration. WICD requests a day for itself and for the cloud-node-manager, so that a stolen identity soon expires.
const (
	maxKubeletLifetime = 366 * 24 * time.Hour
	maxWICDLifetime    = 24 * time.Hour
)

// rule is one requirement for requests. Its name is stable: events contain it, and users look it up.
type rule struct {
	name string
	// violation describes the violation (field, value, what is allowed); "" if there is none.
	violation func(candidate) string
}

// rules returns the rules for the kind of certificate that a signer issues for a common name, in the order of evaluation.
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
			return fmt.Sprintf("spec.signerName is %s; allowed for Windows hosts: %s, %s and %s", quote(c.req.Spec.SignerName),
				certificatesv1.KubeAPIServerClientKubeletSignerName, certificatesv1.KubeletServingSignerName, certificatesv1.KubeAPIServerClientSignerName)
		}}}
	}
}

// identityRules are for every request: the form, the subject, and what the certificate is for.
func identityRules(userPrefix, group string, usage certificatesv1.KeyUsage, extensions func(candidate) string) []rule {
	return []rule{
		{"RequestMalformed", malformed},
		{"KeyNotAllowed", keyNotAllowed},
		{"SignatureInvalid", signatureInvalid},
		{"CommonNameNotAllowed", commonNameWithout(userPrefix)},
		{"OrganizationsNotExact", organizationsOtherThan(group)},
		{"SubjectNotExact", moreInSubject},
		{"UsagesNotExact", usagesOtherThan(usage)},
		{"ExtensionsNotAllowed", extensions},
	}
}

// kubeletClientRules are for a kubelet's client certificate for the API server: the first, requested with the bootstrap token, and its renewals.
func kubeletClientRules() []rule {
	return append(identityRules(NodeUserPrefix, nodesGroup, certificatesv1.UsageClientAuth, anyExtension), []rule{
		{"NodeNotWindows", nodeNotWindows},
		{"InstanceUnknown", instanceUnknown},
		{"RequesterNotAllowed", requesterOtherThanHost(nodesGroup)},
		{"CredentialNotOfInstance", credentialOfOther},
		{"NodeNameTaken", nodeNameTaken},
		{"InstanceLeaving", instanceLeaving},
		{"NodeMissing", renewalWithoutNode},
		{"ExpirationTooLong", expirationBeyond(maxKubeletLifetime)},
	}...)
}

// kubeletServingRules are for a kubelet's serving certificate. Only the kubelet itself can request it, so the token plays no part. Its Node may not
// exist yet: the kubelet sends the request as soon as it knows its addresses.
func kubeletServingRules() []rule {
	return append(identityRules(NodeUserPrefix, nodesGroup, certificatesv1.UsageServerAuth, extensionsOtherThanAltNames), []rule{
		{"AltNamesMissing", altNamesMissing},
		{"AltNameKindNotAllowed", altNamesOtherThanDNSAndIP},
		{"NodeNotWindows", nodeNotWindows},
		{"InstanceUnknown", instanceUnknown},
		{"RequesterNotAllowed", requesterOtherThanNode},
		{"NodeNameTaken", nodeNameTaken},
		{"DNSNameNotOfInstance", dnsNameNotOwn},
		{"DNSNameOfAnother", dnsNameOfAnother},
		{"AddressNotOfInstance", addressNotReported},
		{"AddressOfAnother", addressOfAnother},
		{"ExpirationTooLong", expirationBeyond(maxKubeletLifetime)},
	}...)
}

// wicdClientRules are for WICD's client certificate for the API server. The first is requested with the bootstrap token, often before the kubelet has
// created the Node. The Node would prove nothing then; the token does, because it was given to one host over SSH and is valid only for that host's
// name. A renewal requires the Node, so that an identity ends with its Node.
func wicdClientRules() []rule {
	return append(identityRules(api.WICDUserPrefix, api.WICDGroup, certificatesv1.UsageClientAuth, anyExtension), []rule{
		{"NodeNotWindows", nodeNotWindows},
		{"InstanceUnknown", instanceUnknown},
		{"RequesterNotAllowed", requesterOtherThanDaemon},
		{"CredentialNotOfInstance", credentialOfOther},
		{"NodeNameTaken", nodeNameTaken},
		{"InstanceLeaving", instanceLeaving},
		{"NodeMissing", renewalWithoutNode},
		{"ExpirationTooLong", expirationBeyond(maxWICDLifetime)},
		{"PolicyMissing", checkPolicies},
	}...)
}

// nodeManagerRules are for the certificate of Azure's cloud-node-manager, which initializes its Node. WICD of the same node requests each of them;
// the program itself never does.
func nodeManagerRules() []rule {
	return append(identityRules(api.NodeManagerUserPrefix, api.NodeManagerGroup, certificatesv1.UsageClientAuth, anyExtension), []rule{
		{"NodeNotWindows", nodeNotWindows},
		{"InstanceUnknown", instanceUnknown},
		{"RequesterNotAllowed", requesterOtherThanWICD},
		{"ServiceNotDeclared", serviceNotDeclared},
		{"NodeNameTaken", nodeNameTaken},
		{"NodeMissing", nodeMissing},
		{"ExpirationTooLong", expirationBeyond(maxWICDLifetime)},
		{"PolicyMissing", checkPolicies},
	}...)
}
