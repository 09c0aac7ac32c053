package hns

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// ACL is a policy of type ACL of an endpoint, in the form in which the lab enforces it (package balancer). Its documents are those of
// hcsshim's hcn.AclPolicySetting; internal/shared/hns has what is known of their meaning, with the sources. Where Windows documents
// nothing, or versions differ, this service has the strictest variant:
//
//   - An endpoint with any ACL is closed in both directions, at the switch and at the firewall of the host, for everything that no rule
//     allows.
//   - A rule without a rule type is one of both (Azure, cni/azure-windows-multitenancy.conflist, has such rules).
//   - At equal priorities, rules that block come first.
//   - A rule of the switch with a priority below 100 drops all packets of the endpoint (ephpm/ephemerd,
//     pkg/networking/network_windows.go).
//   - A prefix of length 0 matches nothing (Cloud Foundry's winc, network/netrules/applier.go; ephemerd saw it match everything).
//   - Update replaces the policies of all types (hcsshim's hcn.RequestTypeUpdate), and Remove needs each field as it is returned.
type ACL struct {
	Allow, In bool
	// Switch is true for a rule of the virtual switch, Host for one of the host's firewall.
	Switch, Host bool
	// Protocols are IANA numbers; none means any, as do empty lists of addresses and ports.
	Protocols               []uint8
	Local, Remote           []netip.Prefix
	LocalPorts, RemotePorts []PortRange
	Priority                int
}

// PortRange is an inclusive range of ports.
type PortRange struct{ First, Last uint16 }

const (
	// minPriority is the first priority at which the switch still passes packets.
	minPriority = 100
	// maxPriority is the last one that works (Calico, cni-plugin/pkg/dataplane/windows/dataplane_windows.go).
	maxPriority = 65500
	anyProtocol = "256" // hcsshim#1059
)

// Closes reports whether a rule makes the switch drop all packets of its endpoint.
func (a ACL) Closes() bool { return a.Switch && a.Priority < minPriority }

// aclDocument has the fields of an ACL's settings.
type aclDocument struct {
	Protocols, Action, Direction                             string
	LocalAddresses, RemoteAddresses, LocalPorts, RemotePorts string
	RuleType                                                 string
	Priority                                                 uint16
}

// ACLs returns the rules of an endpoint, in the order in which they apply.
func (o Object) ACLs() ([]ACL, error) {
	var acls []ACL
	for _, p := range items(o["Policies"]) {
		if text(p, "Type") != "ACL" {
			continue
		}
		a, err := parseACL(p["Settings"])
		if err != nil {
			return nil, fmt.Errorf("ACL %v of endpoint %s: %w", p["Settings"], o.id(), err)
		}
		acls = append(acls, a)
	}
	slices.SortStableFunc(acls, func(a, b ACL) int {
		if a.Priority != b.Priority || a.Allow == b.Allow {
			return a.Priority - b.Priority
		}
		if a.Allow {
			return 1
		}
		return -1
	})
	return acls, nil
}

func parseACL(settings any) (ACL, error) {
	if settings == nil {
		return ACL{}, fmt.Errorf("%w: it has no settings", InvalidJSON)
	}
	raw, err := json.Marshal(settings)
	var d aclDocument
	if err == nil {
		err = json.Unmarshal(raw, &d)
	}
	if err != nil {
		return ACL{}, fmt.Errorf("%w: %w", InvalidJSON, err)
	}
	a := ACL{
		Allow: d.Action == "Allow", In: d.Direction == "In", Priority: int(d.Priority),
		Switch: d.RuleType != "Host", Host: d.RuleType != "Switch",
	}
	isOf := func(value string, values ...string) bool { return slices.Contains(values, value) }
	switch {
	case !isOf(d.Action, "Allow", "Block"), !isOf(d.Direction, "In", "Out"), !isOf(d.RuleType, "", "Switch", "Host"):
		return ACL{}, fmt.Errorf("%w: action %q, direction %q, rule type %q", InvalidPolicy, d.Action, d.Direction, d.RuleType)
	case a.Switch && a.Priority == 0, a.Priority > maxPriority:
		return ACL{}, fmt.Errorf("%w: priority %d", InvalidPolicy, a.Priority)
	}
	if d.Protocols != anyProtocol {
		if a.Protocols, err = parseList(d.Protocols, parseProtocol); err != nil {
			return ACL{}, err
		}
	}
	var failures [4]error
	a.Local, failures[0] = parseList(d.LocalAddresses, parsePrefix)
	a.Remote, failures[1] = parseList(d.RemoteAddresses, parsePrefix)
	a.LocalPorts, failures[2] = parseList(d.LocalPorts, parsePorts)
	a.RemotePorts, failures[3] = parseList(d.RemotePorts, parsePorts)
	for _, err := range failures {
		if err != nil {
			return ACL{}, err
		}
	}
	return a, nil
}

// parseList parses a list, which is separated by commas.
func parseList[T any](list string, parse func(string) (T, error)) (all []T, err error) {
	if list == "" {
		return nil, nil
	}
	for entry := range strings.SplitSeq(list, ",") {
		one, err := parse(entry)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", InvalidPolicy, err)
		}
		all = append(all, one)
	}
	return all, nil
}

func parseProtocol(text string) (uint8, error) {
	number, err := strconv.ParseUint(text, 10, 8)
	return uint8(number), err
}

// parsePrefix parses an address or a prefix: Windows accepts nothing else (hcsshim#1059).
func parsePrefix(text string) (netip.Prefix, error) {
	if address, err := netip.ParseAddr(text); err == nil {
		return address.Prefix(address.BitLen())
	}
	prefix, err := netip.ParsePrefix(text)
	return prefix.Masked(), err
}

func parsePorts(text string) (PortRange, error) {
	first, last, isRange := strings.Cut(text, "-")
	if !isRange {
		last = first
	}
	from, err := strconv.ParseUint(first, 10, 16)
	if err != nil {
		return PortRange{}, err
	}
	to, err := strconv.ParseUint(last, 10, 16)
	if err == nil && to < from {
		err = fmt.Errorf("ports %s are not a range", text)
	}
	return PortRange{uint16(from), uint16(to)}, err
}

// completeACLs rejects ACLs that Windows rejects, and adds the fields that Windows returns: empty selectors, and a scope that is in
// hcsshim's documents of neither generation (Azure/azure-container-networking#1752).
func (o Object) completeACLs() error {
	acls, err := o.ACLs()
	if err != nil || len(acls) == 0 {
		return err
	}
	if o.remote() {
		return fmt.Errorf("ACLs of a remote endpoint: %w", InvalidRemote)
	}
	for _, p := range items(o["Policies"]) {
		settings, _ := p["Settings"].(map[string]any)
		if text(p, "Type") != "ACL" {
			continue
		}
		for _, field := range []string{"Protocols", "LocalAddresses", "RemoteAddresses", "LocalPorts", "RemotePorts"} {
			if settings[field] == nil {
				settings[field] = ""
			}
		}
		settings["Scope"] = 0.0
	}
	return nil
}

// aclText is equal for endpoints with equal ACLs; empty for one without.
func (o Object) aclText() string {
	acls, err := o.ACLs()
	if err == nil && len(acls) == 0 {
		return ""
	}
	return fmt.Sprint(acls, err)
}
