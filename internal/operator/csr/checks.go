package csr

import (
	"fmt"
	"slices"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"

	"github.com/windows-machine-config/wmco/api"
)

func malformed(c candidate) string { return c.malformed }

func keyNotAllowed(c candidate) string {
	if weak := weakness(c.cert.PublicKey); weak != "" {
		return fmt.Sprintf("the key in spec.request is %s; it must be RSA with %d to %d bits, ECDSA on P-256, P-384 or P-521, or Ed25519",
			weak, minRSABits, maxRSABits)
	}
	return ""
}

// signatureInvalid requires proof that the requester has the private key.
func signatureInvalid(c candidate) string {
	if err := c.cert.CheckSignature(); err != nil {
		return fmt.Sprintf("the signature of spec.request is invalid (%s); it must be made with the key in the request", quote(err.Error()))
	}
	return ""
}

func commonNameWithout(prefix string) func(candidate) string {
	return func(c candidate) string {
		if name, ok := strings.CutPrefix(c.commonName, prefix); ok && name != "" {
			return ""
		}
		return fmt.Sprintf("the common name in spec.request is %s; allowed for signer %s: %s<name of the node>",
			quote(c.commonName), c.req.Spec.SignerName, prefix)
	}
}

func organizationsOtherThan(group string) func(candidate) string {
	return func(c candidate) string {
		if slices.Equal(c.organizations, []string{group}) {
			return ""
		}
		return fmt.Sprintf("the organizations in spec.request are %s; allowed: exactly %s", list(c.organizations), list([]string{group}))
	}
}

// moreInSubject rejects other parts of a subject: a second common name, or an attribute that some API server may read.
func moreInSubject(c candidate) string {
	if names := c.cert.Subject.Names; len(names) != 2 {
		return fmt.Sprintf("the subject in spec.request has %d attributes (%s); it must have exactly one common name and one organization",
			len(names), quote(c.cert.Subject.String()))
	}
	return ""
}

func usagesOtherThan(purpose certificatesv1.KeyUsage) func(candidate) string {
	return func(c candidate) string {
		required := []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, purpose}
		missing := func(u certificatesv1.KeyUsage) bool { return !slices.Contains(c.req.Spec.Usages, u) }
		extra := func(u certificatesv1.KeyUsage) bool {
			return !slices.Contains(required, u) && u != certificatesv1.UsageKeyEncipherment
		}
		if slices.ContainsFunc(required, missing) || slices.ContainsFunc(c.req.Spec.Usages, extra) {
			return fmt.Sprintf("spec.usages is %s; allowed: exactly %s, with or without %q",
				list(c.req.Spec.Usages), list(required), certificatesv1.UsageKeyEncipherment)
		}
		return ""
	}
}

// anyExtension is for client certificates, which certify an identity and no address.
func anyExtension(c candidate) string {
	if len(c.cert.Extensions) == 0 {
		return ""
	}
	return fmt.Sprintf("spec.request has extensions (%s); client certificates must have none, including alternative names", extensions(c))
}

func extensionsOtherThanAltNames(c candidate) string {
	for _, extension := range c.cert.Extensions {
		if !extension.Id.Equal(oidAltNames()) {
			return fmt.Sprintf("spec.request has extensions (%s); allowed: alternative names only (%s)", extensions(c), oidAltNames())
		}
	}
	return ""
}

func extensions(c candidate) string {
	var ids []string
	for _, extension := range c.cert.Extensions {
		ids = append(ids, extension.Id.String())
	}
	return list(ids)
}

func altNamesMissing(c candidate) string {
	if len(c.cert.DNSNames)+len(c.cert.IPAddresses) == 0 {
		return "spec.request has no alternative names; at least one of the node's name and addresses is required"
	}
	return ""
}

func altNamesOtherThanDNSAndIP(c candidate) string {
	tags, err := altNameTags(c.cert)
	if err != nil {
		return fmt.Sprintf("the alternative names in spec.request cannot be parsed (%s)", quote(err.Error()))
	}
	for _, tag := range tags {
		if tag != tagDNSName && tag != tagIPAddress {
			return "spec.request has alternative names that are neither DNS names nor IP addresses; allowed: the node's name and its addresses"
		}
	}
	return ""
}

func nodeNotWindows(c candidate) string {
	if node, exists := c.known.Nodes[c.node]; exists && node.OS != windowsOS {
		return fmt.Sprintf("the common name in spec.request is %s, but label kubernetes.io/os of Node %s is %s; allowed: Windows nodes",
			quote(c.commonName), c.node, quote(node.OS))
	}
	return ""
}

func instanceUnknown(c candidate) string {
	if c.host == nil {
		return fmt.Sprintf("the common name in spec.request is %s; allowed: the names of hosts that have begun to join with a WindowsInstance", quote(c.commonName))
	}
	return ""
}

// requesterOtherThanHost is for client certificates: the first is requested with the bootstrap token, the next with the identity itself.
func requesterOtherThanHost(group string) func(candidate) string {
	return func(c candidate) string {
		if c.usesBootstrapToken() {
			return ""
		}
		return requesterWithout(c, fmt.Sprintf("%s (with the token handed to instance %s) and, to renew, %s", c.known.bootstrapper(), c.host.Instance, c.commonName),
			group, authenticatedGroup)
	}
}

// requesterOtherThanDaemon is for WICD, whose certificate is valid for a day. If it has expired because the cluster was unreachable that long, the
// kubelet of the same node may request a new one. The kubelet has more permissions on its node than WICD.
func requesterOtherThanDaemon(c candidate) string {
	if kubelet := NodeUserPrefix + c.node; c.req.Spec.Username == kubelet {
		return groupsWithout(c, nodesGroup, authenticatedGroup)
	}
	return requesterOtherThanHost(api.WICDGroup)(c)
}

func requesterOtherThanNode(c candidate) string {
	return requesterWithout(c, c.commonName, nodesGroup, authenticatedGroup)
}

// requesterWithout requires the requester to be the certificate's subject, and in the groups.
func requesterWithout(c candidate, allowed string, groups ...string) string {
	if c.req.Spec.Username != c.commonName {
		return fmt.Sprintf("spec.username is %s; allowed for %s: %s", quote(c.req.Spec.Username), c.commonName, allowed)
	}
	return groupsWithout(c, groups...)
}

func groupsWithout(c candidate, groups ...string) string {
	for _, group := range groups {
		if !slices.Contains(c.req.Spec.Groups, group) {
			return fmt.Sprintf("spec.groups is %s; it must contain %s", list(c.req.Spec.Groups), group)
		}
	}
	return ""
}

// credentialOfOther binds a bootstrap token to the host that received it: that host cannot request an identity for another.
func credentialOfOther(c candidate) string {
	if !c.usesBootstrapToken() || c.host.holds(c.credential()) {
		return ""
	}
	holder := "no joining host"
	for _, h := range c.known.Hosts {
		if h.holds(c.credential()) {
			holder = "instance " + h.Instance
		}
	}
	return fmt.Sprintf("spec.extra[%s] is %s, the token of %s; allowed: the token handed to instance %s, whose node is %s",
		credentialKey, list(c.req.Spec.Extra[credentialKey]), holder, c.host.Instance, c.host.Node)
}

// nodeNameTaken prevents a second host from taking over the name of a working host, and a host from using a name that another machine has registered
// since.
func nodeNameTaken(c candidate) string {
	for _, h := range c.known.Hosts {
		if !c.host.Registered && h.Node == c.node && h.claims() && h.Instance != c.host.Instance {
			return fmt.Sprintf("the common name in spec.request is %s, and instances %s and %s both have that name; rename one of the hosts",
				quote(c.commonName), c.host.Instance, h.Instance)
		}
	}
	if node, exists := c.known.Nodes[c.node]; exists && !c.host.Registered {
		return fmt.Sprintf("the common name in spec.request is %s, but Node %s has the addresses %s, and is not proven to be the host of instance %s; "+
			"rename the host, or delete the Node if its machine no longer exists", quote(c.commonName), c.node, list(node.Addresses), c.host.Instance)
	}
	return ""
}

// instanceLeaving prevents a leaving host from joining again with a token that it still has. It may renew its current certificates until it has left.
func instanceLeaving(c candidate) string {
	if c.host.Leaving && c.usesBootstrapToken() {
		return fmt.Sprintf("instance %s is being deleted; allowed: renewals until its host has left", c.host.Instance)
	}
	return ""
}

// expirationBeyond limits the validity of a certificate. A request without a duration gets the signer's default, which is too long for identities
// with a shorter limit.
func expirationBeyond(limit time.Duration) func(candidate) string {
	return func(c candidate) string {
		seconds := c.req.Spec.ExpirationSeconds
		switch {
		case seconds == nil && limit < maxKubeletLifetime:
			return fmt.Sprintf("spec.expirationSeconds is not set; allowed: 1 to %.0f", limit.Seconds())
		case seconds != nil && (*seconds <= 0 || time.Duration(*seconds)*time.Second > limit):
			return fmt.Sprintf("spec.expirationSeconds is %d; allowed: 1 to %.0f", *seconds, limit.Seconds())
		}
		return ""
	}
}

// renewalWithoutNode makes an identity end with its Node: a host that returns must join again.
func renewalWithoutNode(c candidate) string {
	if _, exists := c.known.Nodes[c.node]; !exists && !c.usesBootstrapToken() {
		return fmt.Sprintf("spec.username is %s, but Node %s does not exist; allowed: renewals for nodes that exist", quote(c.req.Spec.Username), c.node)
	}
	return ""
}

// checkPolicies is for the identities of WICD and the cloud-node-manager: RBAC lets them change Nodes, and admission policies restrict that to their own.
func checkPolicies(c candidate) string {
	if c.known.PoliciesFault == "" {
		return ""
	}
	return "approval requires the policies that limit this identity, and they are not in force: " + c.known.PoliciesFault
}
