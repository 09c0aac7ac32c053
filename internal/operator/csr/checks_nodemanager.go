package csr

import (
	"fmt"

	"github.com/windows-machine-config/wmco/api"
)

// requesterOtherThanWICD requires WICD of the node that the certificate is for.
func requesterOtherThanWICD(c candidate) string {
	if allowed := api.WICDUserPrefix + c.node; c.req.Spec.Username != allowed {
		return fmt.Sprintf("spec.username is %s; allowed for %s: %s", quote(c.req.Spec.Username), c.commonName, allowed)
	}
	return groupsWithout(c, api.WICDGroup, authenticatedGroup)
}

// serviceNotDeclared refuses the identity of a program that this cluster's nodes do not run.
func serviceNotDeclared(c candidate) string {
	if c.known.NodeManager {
		return ""
	}
	return fmt.Sprintf("the common name in spec.request is %s; it is allowed only on Azure, if an external cloud provider initializes nodes and the payload "+
		"has azure-cloud-node-manager.exe", quote(c.commonName))
}

// nodeMissing makes the identity end with its Node. A joining host sends the request before its kubelet has created the Node.
func nodeMissing(c candidate) string {
	if _, exists := c.known.Nodes[c.node]; !exists && (c.host.CredentialID == "" || c.host.Leaving) {
		return fmt.Sprintf("spec.username is %s, but Node %s does not exist; allowed: requests for nodes that exist or are joining",
			quote(c.req.Spec.Username), c.node)
	}
	return ""
}
