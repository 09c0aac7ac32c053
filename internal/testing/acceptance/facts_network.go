package acceptance

import (
	"bytes"
	"context"
	"maps"
	"slices"
	"strings"
)

// networkFacts are what Windows reports about the network of the machine at one moment, by the name of the question.
type networkFacts map[string]Fact

// namesOfNetworkFacts returns the names of the questions whose answers a pod network can change.
func namesOfNetworkFacts() []string {
	return []string{
		"adapters", "addresses", "interfaces", "dns-servers", "dns-clients", "routes", "persistent-routes", "firewall-profiles", "network-profiles",
		"excluded-ports-tcp", "hns",
	}
}

// recordNetwork records what Windows reports about the network now, as facts whose names begin with that prefix and a hyphen.
func (s *session) recordNetwork(ctx context.Context, prefix string) networkFacts {
	facts := networkFacts{}
	for _, q := range questionsOfNetwork() {
		if slices.Contains(namesOfNetworkFacts(), q.name) {
			facts[q.name] = s.record(ctx, question{prefix + "-" + q.name, q.ask})
		}
	}
	return facts
}

// networkFacts returns the facts of a report that were recorded with a prefix; empty for those from before anything was tested.
func (r *Report) networkFacts(prefix string) networkFacts {
	facts := networkFacts{}
	for _, f := range r.Facts {
		name, found := strings.CutPrefix(f.Name, prefix)
		if found && slices.Contains(namesOfNetworkFacts(), name) {
			facts[name] = f
		}
	}
	return facts
}

// compare lists the facts that differ afterwards. It ignores facts that Windows did not report both times, and the objects of the Host Network
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
	return "facts about the network of the machine that differ from before: " + list(different) + "; that are the same: " + list(same)
}
