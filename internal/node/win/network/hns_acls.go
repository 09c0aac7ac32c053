package network

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/windows-machine-config/wmco/internal/shared/hns"
)

// aclDocument is the JSON of an ACL. The second generation of the API has it as settings of a policy (hcn.AclPolicySetting), the first
// one with a type beside it, and with fields for one protocol and one port, which are 0 or empty in rules of the second (hcsshim,
// internal/hns/hnspolicy.go).
type aclDocument struct {
	Action, Direction string
	// Protocols is empty or 256 for any (hcsshim#1059).
	Protocols string `json:",omitempty"`
	Protocol  int    `json:",omitempty"`
	// These are lists, separated by commas (hcn/hcnutils_test.go, since Windows Server 1803): addresses or prefixes, and ports or ranges.
	LocalAddresses, RemoteAddresses, LocalPorts, RemotePorts string `json:",omitempty"`
	LocalPort, RemotePort, InternalPort                      int    `json:",omitempty"`
	ServiceName                                              string `json:",omitempty"`
	RuleType                                                 string `json:",omitempty"`
	Priority                                                 uint16 `json:",omitempty"`
}

// readACL decodes a document; an unreadable one is empty, and therefore foreign.
func readACL(raw json.RawMessage) aclDocument {
	var d aclDocument
	if json.Unmarshal(raw, &d) != nil {
		return aclDocument{}
	}
	return d
}

// Rule types: Switch is a rule of the virtual switch (VFP), Host one of Windows Firewall (hcn/hcnpolicy.go).
const (
	ruleOfSwitch = "Switch"
	ruleOfHost   = "Host"
	anyProtocol  = "256"
)

// hostRules let Windows Firewall pass what the switch allows. It filters the packets of Windows Server containers in overlay and
// L2Bridge networks, too (Microsoft, "Network isolation and security"); Calico adds these rules to all others (policysets.go,
// NewHostRule), as does Azure (Azure/azure-container-networking#1752). They need no priority since Windows Server 1803 (hcn,
// AclNoHostRulePriority).
func hostRules() []aclDocument {
	return []aclDocument{
		{Action: string(hns.Allow), Direction: string(hns.In), RuleType: ruleOfHost},
		{Action: string(hns.Allow), Direction: string(hns.Out), RuleType: ruleOfHost},
	}
}

// aclDocuments returns the documents for the rules of an endpoint.
func aclDocuments(acls []hns.ACL) []aclDocument {
	if len(acls) == 0 {
		return nil
	}
	documents := hostRules()
	for _, a := range acls {
		d := aclDocument{
			Action: string(a.Action), Direction: string(a.Direction), Protocols: anyProtocol, RuleType: ruleOfSwitch, Priority: a.Priority,
			RemoteAddresses: joined(a.Remote, netip.Prefix.String),
			LocalPorts:      joined(a.LocalPorts, portsText), RemotePorts: joined(a.RemotePorts, portsText),
		}
		if a.Protocol != hns.AnyProtocol {
			d.Protocols = strconv.Itoa(int(a.Protocol))
		}
		documents = append(documents, d)
	}
	return documents
}

func joined[T any](list []T, text func(T) string) string {
	var texts []string
	for _, one := range list {
		texts = append(texts, text(one))
	}
	return strings.Join(texts, ",")
}

func portsText(r hns.PortRange) string {
	if r.First == r.Last {
		return strconv.Itoa(int(r.First))
	}
	return fmt.Sprintf("%d-%d", r.First, r.Last)
}

// aclsOf returns the rules of an endpoint. If it does not have exactly the host rules that aclDocuments adds, one of the rules is
// foreign, so that the rules are equal to none.
func aclsOf(documents []aclDocument) (acls []hns.ACL) {
	missing := hostRules()
	for _, d := range documents {
		d.normalize()
		if i := slices.Index(missing, d); i >= 0 {
			missing = slices.Delete(missing, i, i+1)
			continue
		}
		acls = append(acls, d.acl())
	}
	if len(documents) > 0 && (len(missing) > 0 || len(acls) == 0) {
		acls = append(acls, hns.ACL{Foreign: true})
	}
	return acls
}

// normalize gives equal meanings one form.
func (d *aclDocument) normalize() {
	if d.Protocols == "" && d.Protocol != 0 {
		d.Protocols = strconv.Itoa(d.Protocol)
	}
	if d.Protocol = 0; d.Protocols == anyProtocol {
		d.Protocols = ""
	}
	if d.RuleType == ruleOfHost {
		d.Priority = 0 // which has no meaning
	}
}

// acl converts a document.
func (d aclDocument) acl() hns.ACL {
	foreign := hns.ACL{Foreign: true}
	if d.RuleType != ruleOfSwitch || d.LocalAddresses != "" || d.ServiceName != "" || d.LocalPort|d.RemotePort|d.InternalPort != 0 {
		return foreign
	}
	a := hns.ACL{Action: hns.Action(d.Action), Direction: hns.Direction(d.Direction), Priority: d.Priority}
	if d.Protocols != "" {
		number, err := strconv.ParseUint(d.Protocols, 10, 8)
		if err != nil {
			return foreign
		}
		a.Protocol = hns.Protocol(number)
	}
	var areParsed [3]bool
	a.Remote, areParsed[0] = parsed(d.RemoteAddresses, parsePrefix)
	a.LocalPorts, areParsed[1] = parsed(d.LocalPorts, parsePorts)
	a.RemotePorts, areParsed[2] = parsed(d.RemotePorts, parsePorts)
	if slices.Contains(areParsed[:], false) {
		return foreign
	}
	return a
}

// parsed returns the entries of a list; ok is false if one of them cannot be parsed.
func parsed[T any](list string, parse func(string) (T, error)) (all []T, ok bool) {
	if list == "" {
		return nil, true
	}
	for text := range strings.SplitSeq(list, ",") {
		one, err := parse(strings.TrimSpace(text))
		if err != nil {
			return nil, false
		}
		all = append(all, one)
	}
	return all, true
}

// parsePrefix parses a prefix, or an address, which is a prefix of its own.
func parsePrefix(text string) (netip.Prefix, error) {
	if address, err := netip.ParseAddr(text); err == nil {
		return address.Prefix(address.BitLen())
	}
	return netip.ParsePrefix(text)
}

func parsePorts(text string) (hns.PortRange, error) {
	first, last, isRange := strings.Cut(text, "-")
	if !isRange {
		last = first
	}
	from, err := strconv.ParseUint(first, 10, 16)
	if err != nil {
		return hns.PortRange{}, err
	}
	to, err := strconv.ParseUint(last, 10, 16)
	return hns.PortRange{First: uint16(from), Last: uint16(to)}, err
}
