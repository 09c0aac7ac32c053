package podcause

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/shared/nodestate"
)

// gmsaRequirement describes the nodes that can run containers with group Managed Service Accounts.
const gmsaRequirement = "is joined to a domain or has a plugin of Container Credential Guard"

// accountsOf returns the Windows options of a pod and its containers.
func accountsOf(pod *corev1.Pod) (all []*corev1.WindowsSecurityContextOptions) {
	add := func(o *corev1.WindowsSecurityContextOptions) {
		if o != nil {
			all = append(all, o)
		}
	}
	if pod.Spec.SecurityContext != nil {
		add(pod.Spec.SecurityContext.WindowsOptions)
	}
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		if c.SecurityContext != nil {
			add(c.SecurityContext.WindowsOptions)
		}
	}
	return all
}

// credentialSpecMissing finds pods that the webhook of windows-gmsa did not process: their containers would run without the account.
func credentialSpecMissing(pod *corev1.Pod, _ Cluster) Cause {
	for _, o := range accountsOf(pod) {
		if o.GMSACredentialSpecName != nil && o.GMSACredentialSpec == nil {
			return Cause{Reason: api.EventCredentialSpecMissing, Message: fmt.Sprintf(
				"the pod names credential spec %s, but its content was not added to the pod", *o.GMSACredentialSpecName)}
		}
	}
	return Cause{}
}

// WithKind adds what windows-gmsa lacks for a credential spec. exists reports whether the cluster has its kind GMSACredentialSpec.
func (c Cause) WithKind(exists bool) Cause {
	if exists {
		c.Message += ": the webhook of windows-gmsa is not installed, or excludes the namespace of the pod (label windows.k8s.io/disabled)"
	} else {
		c.Message += ": windows-gmsa is not installed: kind GMSACredentialSpec does not exist"
	}
	return c
}

// nodeNotInDomain finds pods with an account on a node that does not report support for accounts.
func nodeNotInDomain(pod *corev1.Pod, known Cluster) Cause {
	node := nodeOf(pod, known)
	if node == nil || !slices.ContainsFunc(accountsOf(pod), func(o *corev1.WindowsSecurityContextOptions) bool { return o.GMSACredentialSpec != nil }) {
		return Cause{}
	}
	if isCapable(node) {
		return Cause{}
	}
	capable := 0
	for i := range known.Nodes {
		if isCapable(&known.Nodes[i]) {
			capable++
		}
	}
	return Cause{Reason: api.EventNodeNotInDomain, Message: fmt.Sprintf(
		"the pod has a group Managed Service Account, but its node %s does not report that it %s; %d of %d Windows nodes do", node.Name, gmsaRequirement, capable, len(known.Nodes))}
}

func isCapable(node *corev1.Node) bool {
	c := nodestate.Condition(node, api.ConditionGMSACapable)
	return c != nil && c.Status == corev1.ConditionTrue
}
