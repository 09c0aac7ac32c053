package csr

import "testing"

// TestNodesThatTheirCloudNamesHaveTheirCertificates has a Windows host whose node has the name that AWS has for its machine: with it
// the host is approved, and with its own name, which is nobody's, it is not.
func TestNodesThatTheirCloudNamesHaveTheirCertificates(t *testing.T) {
	const node, windows = "ip-10-0-0-12.us-east-2.compute.internal", "ec2amaz-1a2b3c4"
	named := func(r *request) {
		r.known.Hosts[1].Node, r.known.Hosts[1].DNSName = node, ""
		r.known.Nodes[node] = r.known.Nodes["win-2"]
		delete(r.known.Nodes, "win-2")
		r.subject.CommonName, r.user = "system:node:"+node, "system:node:"+node
		r.dns = []string{node}
	}
	runCases(t, []testCase{
		{"the cloud's name", change(kubeletServing(), named), "approve"},
		{"the cloud's name and the host's own", change(kubeletServing(), func(r *request) { named(r); r.dns = []string{node, windows} }), "DNSNameNotOfInstance"},
		{"the first label of the cloud's name", change(kubeletServing(), func(r *request) { named(r); r.dns = []string{"ip-10-0-0-12"} }), "DNSNameNotOfInstance"},
	})
}
