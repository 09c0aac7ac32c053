package hns

import "strings"

// AdapterBelow is the adapter on which a virtual one is, by its name: the Host Network Service names the interface that it puts on adapter
// Ethernet vEthernet (Ethernet), or vEthernet (Ethernet) 2 while there still is one of that name. It is false for another name. A user can
// give a virtual switch such a name, too: whether the adapter exists is not known here.
func AdapterBelow(name string) (adapter string, isVirtual bool) {
	inner, isVirtual := strings.CutPrefix(name, "vEthernet (")
	if !isVirtual {
		return "", false
	}
	if i := strings.LastIndex(inner, ") "); i > 0 && i+2 < len(inner) && strings.Trim(inner[i+2:], "0123456789") == "" {
		return inner[:i], true
	}
	if adapter, isVirtual = strings.CutSuffix(inner, ")"); !isVirtual || adapter == "" {
		return "", false
	}
	return adapter, true
}

// IsSameAdapter tells whether two names are those of one adapter, or of a virtual one on it.
func IsSameAdapter(a, b string) bool {
	physical := func(name string) string {
		if below, isVirtual := AdapterBelow(name); isVirtual {
			return below
		}
		return name
	}
	return strings.EqualFold(physical(a), physical(b))
}
