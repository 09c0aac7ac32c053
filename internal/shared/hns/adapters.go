package hns

import "strings"

// AdapterBelow returns the adapter below a virtual one, derived from its name: the Host Network Service names the interface that it puts on adapter
// Ethernet vEthernet (Ethernet), or vEthernet (Ethernet) 2 while one with that name still exists. isVirtual is false for other names. A user can
// give a virtual switch such a name, too: AdapterBelow does not check whether the adapter exists.
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

// IsSameAdapter reports whether two names are those of one adapter, or of a virtual one on it.
func IsSameAdapter(a, b string) bool {
	physical := func(name string) string {
		if below, isVirtual := AdapterBelow(name); isVirtual {
			return below
		}
		return name
	}
	return strings.EqualFold(physical(a), physical(b))
}
