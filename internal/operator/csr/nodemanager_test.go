package csr

import (
	"net"
	"testing"
	"time"
)

// nodeManager returns the request of win-2's WICD on Azure.
func nodeManager() *request {
	r := wicdRenewal()
	r.subject.CommonName, r.subject.Organization = "system:windows-cloud-node-manager:win-2", []string{"system:windows-cloud-node-managers"}
	r.known.NodeManager = true
	return r
}

// joining changes it to a request of win-1, whose kubelet has not created its Node.
func joining(r *request) {
	r.subject.CommonName, r.user = "system:windows-cloud-node-manager:win-1", "system:wicd-node:win-1"
}

func TestOnlyWICDRequestsNodeManagerIdentity(t *testing.T) {
	runCases(t, nodeManagerCases())
}

func nodeManagerCases() []testCase {
	with := func(apply func(*request)) *request { return change(nodeManager(), apply) }
	by := func(user string, groups ...string) *request {
		return with(func(r *request) { r.user, r.groups = user, append(groups, "system:authenticated") })
	}
	named := func(name string) *request { return with(func(r *request) { r.subject.CommonName = name }) }
	grouped := func(groups ...string) *request { return with(func(r *request) { r.subject.Organization = groups }) }
	return []testCase{
		{"by WICD", nodeManager(), "approve"},
		{"by WICD of a joining host without a Node", with(joining), "approve"},
		{"by WICD of a leaving host", with(func(r *request) { r.known.Hosts[1].Leaving = true }), "approve"},

		{"of another node", named("system:windows-cloud-node-manager:win-3"), "RequesterNotAllowed"},
		{"of a node without a host", named("system:windows-cloud-node-manager:win-9"), "InstanceUnknown"},
		{"of a Linux node", named("system:windows-cloud-node-manager:linux-1"), "NodeNotWindows"},
		{"of no node", named("system:windows-cloud-node-manager:"), "CommonNameNotAllowed"},
		{"by the kubelet", by("system:node:win-2", "system:nodes"), "RequesterNotAllowed"},
		{"by the node manager", by("system:windows-cloud-node-manager:win-2", "system:windows-cloud-node-managers"), "RequesterNotAllowed"},
		{"by a bootstrap token", with(func(r *request) {
			r.user, r.groups, r.proof = bootstrapUser, kubeletBootstrap().groups, []string{"JTI=token-1"}
			r.subject.CommonName = "system:windows-cloud-node-manager:win-1"
		}), "RequesterNotAllowed"},
		{"by WICD outside of its group", by("system:wicd-node:win-2"), "RequesterNotAllowed"},
		{"by WICD of another node", by("system:wicd-node:win-1", "system:wicd-nodes"), "RequesterNotAllowed"},
		{"by an unrelated user", by(anyoneElse, "system:wicd-nodes"), "RequesterNotAllowed"},

		{"in WICD's group", grouped("system:wicd-nodes"), "OrganizationsNotExact"},
		{"in both groups", grouped("system:windows-cloud-node-managers", "system:wicd-nodes"), "OrganizationsNotExact"},
		{"in a group of administrators, too", grouped("system:windows-cloud-node-managers", "system:masters"), "OrganizationsNotExact"},
		{"in no group", grouped(), "OrganizationsNotExact"},
		{"WICD in the node manager's group", named("system:wicd-node:win-2"), "OrganizationsNotExact"},
		{"unrelated user in the node manager's group", named("alice"), "CommonNameNotAllowed"},
		{"from the signer of kubelets", with(func(r *request) { r.signer = "kubernetes.io/kube-apiserver-client-kubelet" }), "CommonNameNotAllowed"},

		{"for a server", with(func(r *request) { r.usages[1] = "server auth" }), "UsagesNotExact"},
		{"with an address", with(func(r *request) { r.ips = []net.IP{net.IPv4(10, 0, 0, 12)} }), "ExtensionsNotAllowed"},
		{"without an end", with(forever), "ExpirationTooLong"},
		{"for two days", with(lasting(48 * time.Hour)), "ExpirationTooLong"},
		{"without the service", with(func(r *request) { r.known.NodeManager = false }), "ServiceNotDeclared"},
		{"without the policies", with(func(r *request) { r.known.PoliciesFault = "one is missing" }), "PolicyMissing"},
		{"of a deleted Node", with(func(r *request) { delete(r.known.Nodes, "win-2") }), "NodeMissing"},
		{"of a leaving host without a Node", with(func(r *request) { joining(r); r.known.Hosts[0].Leaving = true }), "NodeMissing"},
		{"of a name shared by two hosts", with(func(r *request) {
			r.known.Hosts[1].Registered, r.known.Hosts[2].Node = false, "win-2"
		}), "NodeNameTaken"},
	}
}

func TestNodeManagerRequestsAreRecognized(t *testing.T) {
	if !IsForNodeManager(nodeManager().build(t)) || IsForNodeManager(wicdRenewal().build(t)) {
		t.Error("the kind of a request is not recognized")
	}
	broken := nodeManager().build(t)
	broken.Spec.Request = []byte("nonsense")
	if IsForNodeManager(broken) {
		t.Error("an unreadable request is recognized as one for the node manager")
	}
}
