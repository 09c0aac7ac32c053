package acceptance

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"strings"
)

// networkFacts are what Windows reports about the network of the machine at one moment, by the name of the query.
type networkFacts map[string]Fact

// networkFactNames returns the names of the queries whose answers a pod network can change.
func networkFactNames() []string {
	return []string{
		"adapters", "addresses", "interfaces", "dns-servers", "dns-clients", "routes", "persistent-routes", "firewall-profiles", "network-profiles",
		"excluded-ports-tcp", "hns",
	}
}

// recordNetwork records what Windows reports about the network now, as facts whose names begin with that prefix and a hyphen.
func (s *session) recordNetwork(ctx context.Context, prefix string) networkFacts {
	facts := networkFacts{}
	for _, q := range networkQueries() {
		if slices.Contains(networkFactNames(), q.name) {
			facts[q.name] = s.record(ctx, query{prefix + "-" + q.name, q.run})
		}
	}
	return facts
}

// networkFacts returns the facts of a report that were recorded with a prefix. An empty prefix selects those from before the first probe.
func (r *Report) networkFacts(prefix string) networkFacts {
	facts := networkFacts{}
	for _, f := range r.Facts {
		name, found := strings.CutPrefix(f.Name, prefix)
		if found && slices.Contains(networkFactNames(), name) {
			facts[name] = f
		}
	}
	return facts
}

// compare lists the facts that changed. It ignores facts that Windows did not report both times, and the objects of the Host Network
// Service, which differ anyway.
func (before networkFacts) compare(after networkFacts) string {
	var same, different []string
	for _, name := range slices.Sorted(maps.Keys(before)) {
		a, known := after[name]
		b := before[name]
		switch {
		case !known || name == "hns" || a.Error != "" || b.Error != "":
		case a.Text == b.Text && bytes.Equal(a.Document, b.Document):
			same = append(same, name)
		default:
			different = append(different, name)
		}
	}
	list := func(names []string) string {
		if len(names) == 0 {
			return "none"
		}
		return strings.Join(names, ", ")
	}
	return "network facts that changed: " + list(different) + "; unchanged: " + list(same)
}
