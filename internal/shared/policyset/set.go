// Package policyset has what NetworkPolicies allow the pods of one namespace, as values that the operator compiles (package
// networkpolicy) and a node turns into ACLs of its pods' endpoints in Windows' Host Network Service.
//
// Only IPv4 is supported: overlay networks of Windows carry nothing else (docs/network.md).
//
// Pods fail closed: if data is missing, unknown or too large, all traffic is denied unless the user chose otherwise. No error may allow traffic.
package policyset

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"github.com/windows-machine-config/wmco/internal/shared/hns"
)

// MaxSize is the maximum size of an encoded set, in bytes. The limit is this project's own: the API server rejects objects of 1.5 MiB
// (the limit of etcd, https://etcd.io/docs/v3.5/dev-guide/limit/), and the set is not all of its object.
const MaxSize = 1 << 20

// Set is what the NetworkPolicies of one namespace allow its pods on Windows nodes. The zero value is a namespace without policies: its
// pods are open. Slices are sorted, so that the same meaning has the same encoding.
type Set struct {
	Namespace string `json:"namespace"`
	// Unlisted has the directions that are closed for a pod that Pods does not list, for example because it has just been created: those
	// in which any policy of the namespace isolates pods, because it may be the one that selects the pod.
	Unlisted Directions `json:"unlisted,omitzero"`
	// Omitted is not 0 if the set would be larger than MaxSize: it is the size in bytes, or a lower bound of it. Such a set has no
	// policies, addresses and pods.
	Omitted int `json:"omitted,omitempty"`
	// Policies are those that select a pod in Pods, by name.
	Policies []Policy `json:"policies,omitempty"`
	// Addresses are the lists of remote addresses to which rules refer by their index. Each is sorted and as short as possible.
	Addresses [][]netip.Prefix `json:"addresses,omitempty"`
	// Pods are the pods on Windows nodes, by name. A pod without policies is listed, too: it is known to be open.
	Pods []Pod `json:"pods,omitempty"`
}

// Directions are none, one or both of the directions in which policies isolate pods.
type Directions struct {
	Ingress bool `json:"ingress,omitempty"`
	Egress  bool `json:"egress,omitempty"`
}

// Policy is what one NetworkPolicy allows the pods that it selects. Rules are additive.
type Policy struct {
	Name     string     `json:"name"`
	Isolates Directions `json:"isolates"`
	Ingress  []Rule     `json:"ingress,omitempty"`
	Egress   []Rule     `json:"egress,omitempty"`
}

// Rule allows some peers and some ports. "Any" is explicit: a field that is lost closes.
type Rule struct {
	AnyPeer bool `json:"anyPeer,omitempty"`
	// Peers is the index in Set.Addresses of the remote addresses; nil only with AnyPeer.
	Peers *int `json:"peers,omitempty"`
	// AnyPort allows all protocols, also those without ports.
	AnyPort bool `json:"anyPort,omitempty"`
	// Ports are destination ports; empty only with AnyPort.
	Ports []Port `json:"ports,omitempty"`
}

// Port is a range of ports, or the name of a port of the destination pod. Only ingress rules have names: their destination is the
// selected pod.
type Port struct {
	Protocol hns.Protocol `json:"protocol"`
	First    uint16       `json:"first,omitempty"`
	Last     uint16       `json:"last,omitempty"`
	Name     string       `json:"name,omitempty"`
}

// Pod is a pod on a Windows node.
type Pod struct {
	Name string `json:"name"`
	UID  string `json:"uid"`
	// Policies are the indexes in Set.Policies of the policies that select the pod.
	Policies []int `json:"policies,omitempty"`
	// Ports are the named ports of the pod to which its policies refer.
	Ports []NamedPort `json:"ports,omitempty"`
}

// NamedPort is a port of a container.
type NamedPort struct {
	Name     string       `json:"name"`
	Protocol hns.Protocol `json:"protocol"`
	Port     uint16       `json:"port"`
}

// Compare orders ports by name, then by protocol.
func (p NamedPort) Compare(other NamedPort) int {
	return cmp.Or(cmp.Compare(p.Name, other.Name), cmp.Compare(p.Protocol, other.Protocol))
}

// PodID identifies a pod in its namespace. A pod that is created again has the same name and another UID.
type PodID struct {
	Name, UID string
}

// Closed returns a set that closes all pods of a namespace, for a namespace whose set is unreadable.
func Closed(namespace string) Set {
	return Set{Namespace: namespace, Unlisted: Directions{Ingress: true, Egress: true}}
}

// find returns the entry of a pod. A former pod of the same name has no meaning for it.
func (s Set) find(id PodID) (Pod, bool) {
	i, found := slices.BinarySearchFunc(s.Pods, id.Name, func(p Pod, name string) int { return strings.Compare(p.Name, name) })
	if !found || s.Pods[i].UID != id.UID {
		return Pod{}, false
	}
	return s.Pods[i], true
}

// PoliciesOf returns the policies that select a pod, by name; none if the set does not list the pod.
func (s Set) PoliciesOf(id PodID) []Policy {
	pod, _ := s.find(id)
	var policies []Policy
	for _, i := range pod.Policies {
		policies = append(policies, s.Policies[i])
	}
	return policies
}
