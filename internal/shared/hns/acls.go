package hns

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
)

// ACL is a rule of an endpoint: a policy of type ACL and rule type Switch, which the virtual switch's filter (VFP) applies to each
// packet of the endpoint. What is known of it, and from where:
//
//   - The rule with the lowest Priority decides (Azure/azure-container-networking#4823). Rules of equal priority have no order (Calico,
//     felix/dataplane/windows/policysets/policysets.go).
//   - An endpoint that has rules is closed for everything that no rule allows (microsoft/Windows-Containers#616). It is not documented
//     whether a rule for one direction also closes the other: the CNI of AWS (network/imds/imds_windows.go) and of Azure (#2617) allow
//     both directions explicitly.
//   - Rules are stateful: replies to an allowed connection pass. vfpctrl lists the rules of Calico as "terminating stateful" in layer
//     ACL_ENDPOINT_LAYER, which has one group of rules for each direction (mrolmedo/rke2windows, README.md).
//   - Rules also apply to packets between an endpoint and its own host, such as probes of the kubelet
//     (Azure/azure-container-networking#1881).
//   - Each change may reset connections of the endpoint, including those that rules allow before and after (projectcalico/calico#10199,
//     #10437).
type ACL struct {
	Action    Action
	Direction Direction
	// Protocol is AnyProtocol or an IANA number. Ports need TCP, UDP or SCTP. It is not known whether Windows passes SCTP: by default,
	// containers get only TCP, UDP, ICMP and IGMP (Microsoft's page "Network isolation and security"), and Azure rejects policies for it
	// (#1442).
	Protocol Protocol
	// Remote are IPv4 addresses of the other side; none means any.
	Remote []netip.Prefix
	// LocalPorts are ports of the endpoint, and RemotePorts of the other side; none means any.
	LocalPorts, RemotePorts []PortRange
	// Priority is between MinACLPriority and MaxACLPriority.
	Priority uint16
	// Foreign is true for a rule of another program that this type cannot represent. It has no other fields, and cannot be written.
	Foreign bool
}

// Action is what happens to a packet that a rule matches.
type Action string

// Direction is the direction of packets, as seen from the endpoint.
type Direction string

// Actions and directions, as in hcn.ActionType and hcn.DirectionType of hcsshim.
const (
	Allow Action = "Allow"
	Block Action = "Block"

	In  Direction = "In"
	Out Direction = "Out"
)

// AnyProtocol is for ACLs only.
const AnyProtocol Protocol = 0

// PortRange is an inclusive range of ports.
type PortRange struct{ First, Last uint16 }

const (
	// MinACLPriority is the first usable priority: a Switch rule below it is accepted, and then the endpoint drops all packets (measured by
	// ephpm/ephemerd, pkg/networking/network_windows.go).
	MinACLPriority = 100
	// MaxACLPriority is the last one "with which the ACL policy when applied on windows works" (Calico, cni-plugin/pkg/dataplane/windows).
	MaxACLPriority = 65500
	// MaxACLEntries is the maximum of each list of a rule. Microsoft recommends a few thousand, Calico chose 4000 (policysets.go).
	MaxACLEntries = 4000
)

// ErrPolicy means that the service rejects a policy, or that this package does because the service would accept it and do something else
// (0x803b000d).
var ErrPolicy = errors.New("the Host Network Service does not accept the policy")

// CheckACLs rejects rules that the service rejects, and those that it accepts but does not apply as written. The error is ErrPolicy and
// names the rule by its index.
func CheckACLs(acls []ACL) error {
	type level struct {
		Direction
		priority uint16
	}
	actions := map[level]Action{}
	for i, a := range acls {
		if err := a.check(); err != nil {
			return fmt.Errorf("rule %d: %w: %w", i, ErrPolicy, err)
		}
		at := level{a.Direction, a.Priority}
		if other, exists := actions[at]; exists && other != a.Action {
			return fmt.Errorf("rule %d: %w: priority %d of direction %s has both actions, and Windows does not define which one applies",
				i, ErrPolicy, a.Priority, a.Direction)
		}
		actions[at] = a.Action
	}
	return nil
}

func (a ACL) check() error {
	switch {
	case a.Foreign:
		return errors.New("it is another program's")
	case a.Action != Allow && a.Action != Block:
		return fmt.Errorf("action %q is neither %s nor %s", a.Action, Allow, Block)
	case a.Direction != In && a.Direction != Out:
		return fmt.Errorf("direction %q is neither %s nor %s", a.Direction, In, Out)
	case a.Priority < MinACLPriority || a.Priority > MaxACLPriority:
		return fmt.Errorf("priority %d is not between %d and %d", a.Priority, MinACLPriority, MaxACLPriority)
	case len(a.LocalPorts)+len(a.RemotePorts) > 0 && a.Protocol != TCP && a.Protocol != UDP && a.Protocol != SCTP:
		return fmt.Errorf("protocol %d has no ports", a.Protocol)
	}
	if n := max(len(a.Remote), len(a.LocalPorts), len(a.RemotePorts)); n > MaxACLEntries {
		return fmt.Errorf("a list has %d entries, more than %d", n, MaxACLEntries)
	}
	for _, p := range a.Remote {
		switch {
		case !p.IsValid() || !p.Addr().Is4():
			return fmt.Errorf("remote address %v is not IPv4", p)
		case p.Bits() == 0: // Cloud Foundry's winc, network/netrules/applier.go
			return fmt.Errorf("remote address %v does not match every address in Windows; a rule without remote addresses does", p)
		case p != p.Masked():
			return fmt.Errorf("remote address %v is not the first of its range, %v", p, p.Masked())
		}
	}
	for _, r := range slices.Concat(a.LocalPorts, a.RemotePorts) {
		if r.First == 0 || r.Last < r.First {
			return fmt.Errorf("ports %d-%d are not a range", r.First, r.Last)
		}
	}
	return nil
}

// SameACLs reports whether two lists have the same rules, regardless of the order of rules and of the entries of their lists, in which
// the service need not return them. A foreign rule is equal to none.
func SameACLs(a, b []ACL) bool {
	isForeign := func(a ACL) bool { return a.Foreign }
	return !slices.ContainsFunc(a, isForeign) && !slices.ContainsFunc(b, isForeign) && slices.Equal(canonical(a), canonical(b))
}

// canonical returns each rule once as text, sorted.
func canonical(acls []ACL) []string {
	var texts []string
	for _, a := range acls {
		texts = append(texts, fmt.Sprint(a.Priority, a.Direction, a.Action, a.Protocol, sorted(a.Remote, netip.Prefix.Compare),
			sorted(a.LocalPorts, PortRange.Compare), sorted(a.RemotePorts, PortRange.Compare)))
	}
	slices.Sort(texts)
	return slices.Compact(texts)
}

func sorted[T comparable](list []T, compare func(a, b T) int) []T {
	return slices.Compact(slices.SortedFunc(slices.Values(list), compare))
}

// Compare orders ranges by their first ports, then by their last.
func (r PortRange) Compare(other PortRange) int {
	return cmp.Or(cmp.Compare(r.First, other.First), cmp.Compare(r.Last, other.Last))
}
