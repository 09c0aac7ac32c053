package csr

import (
	"net"
	"strings"
	"testing"
)

// TestNodesNamedByCloudGetCertificates has a Windows host whose node has AWS's name for its machine: the host gets a certificate for
// that name, and none for its own hostname, which no one has confirmed.
func TestNodesNamedByCloudGetCertificates(t *testing.T) {
	const node, windows = "ip-10-0-0-12.us-east-2.compute.internal", "ec2amaz-1a2b3c4"
	named := func(r *request) {
		r.known.Hosts[1].Node, r.known.Hosts[1].DNSName = node, ""
		r.known.Nodes[node] = r.known.Nodes["win-2"]
		delete(r.known.Nodes, "win-2")
		r.subject.CommonName, r.user = "system:node:"+node, "system:node:"+node
		r.dns = []string{node}
	}
	runCases(t, []testCase{
		{"cloud name", change(kubeletServing(), named), "approve"},
		{"cloud name and hostname", change(kubeletServing(), func(r *request) { named(r); r.dns = []string{node, windows} }), "DNSNameNotOfInstance"},
		{"first label of the cloud name", change(kubeletServing(), func(r *request) { named(r); r.dns = []string{"ip-10-0-0-12"} }), "DNSNameNotOfInstance"},
	})
}

// TestCloudNamesAndAddressesNeedConfirmation has a Windows host whose cloud writes more addresses into its Node than those at which the
// operator reached it. Its kubelet requests all of them. The Node alone, which a host can write, justifies none.
func TestCloudNamesAndAddressesNeedConfirmation(t *testing.T) {
	const internal, external = "ip-10-0-0-12.internal", "ec2-203-0-113-7.example"
	public, another := net.IPv4(203, 0, 113, 7), net.IPv4(203, 0, 113, 8)
	requests := func(r *request) {
		node := r.known.Nodes["win-2"]
		node.Addresses = append(node.Addresses, public.String())
		r.known.Nodes["win-2"] = node
		r.dns, r.ips = []string{"win-2", internal, external}, []net.IP{net.IPv4(10, 0, 0, 12), public}
	}
	confirmed := func(r *request) {
		requests(r)
		r.known.Hosts[1].CloudNames, r.known.Hosts[1].CloudAddresses = []string{internal, external}, []string{public.String(), "not an address"}
	}
	and := func(more func(*request)) func(*request) { return func(r *request) { confirmed(r); more(r) } }
	ofJoining := func(change func(h *Host)) func(*request) { return and(func(r *request) { change(&r.known.Hosts[0]) }) }
	serving := func(with func(*request)) *request { return change(kubeletServing(), with) }
	runCases(t, []testCase{
		{"unconfirmed", serving(requests), "DNSNameNotOfInstance"},
		{"unconfirmed address", serving(func(r *request) { requests(r); r.dns = []string{"win-2"} }), "AddressNotOfInstance"},
		{"confirmed", serving(confirmed), "approve"},
		{"IPv6 address", serving(and(func(r *request) { // https://github.com/gardener/gardener/issues/10876
			r.known.Hosts[1].CloudAddresses, r.ips = []string{"2001:db8::7"}, []net.IP{net.ParseIP("2001:db8::7")}
		})), "approve"},
		{"name in capitals", serving(and(func(r *request) { r.dns = []string{strings.ToUpper(internal)} })), "approve"}, // https://github.com/kubernetes/cloud-provider-vsphere/issues/50
		{"subset of the confirmed", serving(and(func(r *request) { r.dns, r.ips = r.dns[:1], r.ips[:1] })), "approve"},
		{"additional name", serving(and(func(r *request) { r.dns = append(r.dns, "db.internal") })), "DNSNameNotOfInstance"},
		{"part of a name", serving(and(func(r *request) { r.dns = []string{"internal"} })), "DNSNameNotOfInstance"},
		{"a wildcard", serving(and(func(r *request) { r.dns = []string{"*.internal"} })), "DNSNameNotOfInstance"},
		{"additional address", serving(and(func(r *request) { r.ips = append(r.ips, another) })), "AddressNotOfInstance"},
		{"name of the cluster", serving(and(func(r *request) {
			r.known.Hosts[1].CloudNames = []string{"api-int.lab.example.com"}
			r.dns = []string{"api-int.lab.example.com"}
		})), "DNSNameOfAnother"},
		{"address of the API server", serving(and(func(r *request) {
			r.known.Hosts[1].CloudAddresses, r.ips = []string{"10.0.0.100"}, []net.IP{net.IPv4(10, 0, 0, 100)}
		})), "AddressOfAnother"},
		{"address of another host", serving(ofJoining(func(h *Host) { h.Addresses = append(h.Addresses, public.String()) })), "AddressOfAnother"},
		{"address confirmed for two hosts", serving(ofJoining(func(h *Host) { h.CloudAddresses = []string{public.String()} })), "AddressOfAnother"},
		{"name confirmed for two hosts", serving(ofJoining(func(h *Host) { h.CloudNames = []string{internal} })), "DNSNameOfAnother"},
		{"address of a Linux node", serving(and(func(r *request) {
			r.known.Nodes["linux-1"] = Node{OS: "linux", Addresses: []string{public.String()}}
		})), "AddressOfAnother"},
		{"name of a Linux node", serving(and(func(r *request) {
			r.known.Nodes["linux-1"] = Node{OS: "linux", Ready: true, Names: []string{"linux-1", external}}
		})), "DNSNameOfAnother"},
		{"own address and name that a Linux node claims", serving(and(func(r *request) {
			r.known.Nodes["linux-1"] = Node{OS: "linux", Ready: true, Addresses: []string{"10.0.0.12"}, Names: []string{"win-2"}}
		})), "approve"},
		{"own address confirmed for another host", serving(ofJoining(func(h *Host) { h.CloudAddresses = []string{"10.0.0.12"} })), "approve"},
		{"own name confirmed for another host", serving(ofJoining(func(h *Host) { h.CloudNames = []string{"win-2"} })), "approve"},
	})
}
