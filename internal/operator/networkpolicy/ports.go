package networkpolicy

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/windows-machine-config/wmco/internal/shared/hns"
	"github.com/windows-machine-config/wmco/internal/shared/policyset"
)

// portSet is what the ports of a rule select. Ranges and names are sorted, and as few as possible.
type portSet struct {
	any           bool
	ranges, names []policyset.Port
}

// ports returns the ports of a rule. No ports mean all protocols; invalid ones are none.
func (t *translator) ports(c clause) portSet {
	set := portSet{any: len(c.ports) == 0}
	ranges := map[hns.Protocol][]policyset.Range{}
	for i := range c.ports {
		port, ok := t.port(c, i)
		switch {
		case !ok:
		case port.Name != "":
			set.names = append(set.names, port)
		default:
			ranges[port.Protocol] = append(ranges[port.Protocol], policyset.Range{First: uint32(port.First), Last: uint32(port.Last)})
		}
	}
	for _, protocol := range []hns.Protocol{hns.TCP, hns.UDP, hns.SCTP} {
		for _, r := range policyset.Union(ranges[protocol]) {
			set.ranges = append(set.ranges, policyset.Port{Protocol: protocol, First: uint16(r.First), Last: uint16(r.Last)})
		}
	}
	slices.SortFunc(set.names, comparePorts)
	set.names = slices.Compact(set.names)
	return set
}

func comparePorts(a, b policyset.Port) int {
	return cmp.Or(
		cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.First, b.First), cmp.Compare(a.Last, b.Last), cmp.Compare(a.Name, b.Name),
	)
}

// port returns a port of a rule, or false if it is invalid.
func (t *translator) port(c clause, i int) (policyset.Port, bool) {
	p := c.ports[i]
	invalid := func(format string, arguments ...any) (policyset.Port, bool) {
		t.report(Invalid, "%s.ports[%d]"+format+"; it is ignored", append([]any{c.path, i}, arguments...)...)
		return policyset.Port{}, false
	}
	protocol, known := protocolOf(p.Protocol)
	switch {
	case !known:
		return invalid(".protocol is %.64q; allowed: TCP, UDP and SCTP", *p.Protocol)
	case p.EndPort != nil && (p.Port == nil || p.Port.Type != intstr.Int):
		return invalid(".endPort is %d, but port is not a number", *p.EndPort)
	case p.Port == nil: // all ports of the protocol
		return policyset.Port{Protocol: protocol, First: 1, Last: 1<<16 - 1}, true
	case p.Port.Type == intstr.String:
		if wrong := validation.IsValidPortName(p.Port.StrVal); len(wrong) > 0 {
			return invalid(".port is %.64q: %s", p.Port.StrVal, wrong[0])
		}
		return policyset.Port{Protocol: protocol, Name: p.Port.StrVal}, true
	case p.Port.Type != intstr.Int || !isPort(p.Port.IntVal):
		return invalid(".port is %s; allowed: a name and 1 to 65535", p.Port)
	}
	last := p.Port.IntVal
	if p.EndPort != nil {
		if last = *p.EndPort; last < p.Port.IntVal || !isPort(last) {
			return invalid(".endPort is %d; allowed: %d to 65535", last, p.Port.IntVal)
		}
	}
	return policyset.Port{Protocol: protocol, First: uint16(p.Port.IntVal), Last: uint16(last)}, true
}
