//go:build linux

package e2e

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"

	"github.com/windows-machine-config/wmco/lab/windows/hns"
	"github.com/windows-machine-config/wmco/lab/windows/hostspec"
)

var updateNetworks = flag.Bool("update-networks", false, "rewrite the golden file of network objects")

// compareNetworks compares all objects of a host with a golden file. Values that differ between runs are replaced by names.
func (p harness) compareNetworks() {
	h := p.Lab.Hosts()[0]
	p.eventually("kube-proxy has created the load balancers of the cluster's own Services", func(context.Context) string {
		if len(p.objects(h, hns.LoadBalancer)) == 0 {
			return "the host has no load balancers"
		}
		return ""
	})
	all := map[hns.Kind][]hns.Object{}
	for _, kind := range []hns.Kind{hns.Network, hns.Endpoint, hns.LoadBalancer} {
		all[kind] = slices.DeleteFunc(p.objects(h, kind), isNotCompared)
		slices.SortFunc(all[kind], func(a, b hns.Object) int { return strings.Compare(orderOf(a), orderOf(b)) })
	}
	b, err := json.MarshalIndent(all, "", "  ")
	must(p.t, err)
	text := replaceIdentifiers(string(b)) + "\n"
	golden := filepath.Join("testdata", "networks.golden")
	if *updateNetworks {
		must(p.t, os.WriteFile(golden, []byte(text), 0o644))
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		p.t.Fatalf("%v; run this test with -update-networks and read the file", err)
	}
	if diff := cmp.Diff(string(want), text); diff != "" {
		p.t.Errorf("network objects (-want +got), if intended, run with -update-networks:\n%s", diff)
	}
}

// isNotCompared reports whether an object is the lab's own network, or belongs to a Service with a random address, which are all
// except default/kubernetes.
func isNotCompared(o hns.Object) bool {
	return o["Name"] == hostspec.PodNetworkName || slices.ContainsFunc(append(vipsOf(o), addressesOf(o)...), func(vip string) bool {
		return strings.HasPrefix(vip, "10.96.") && vip != "10.96.0.1"
	})
}

// vipsOf returns the Service addresses of a load balancer.
func vipsOf(o hns.Object) []string {
	var balancer struct{ FrontendVIPs []string }
	decode(o, &balancer)
	return balancer.FrontendVIPs
}

// addressesOf returns the addresses of an endpoint.
func addressesOf(o hns.Object) (addresses []string) {
	var endpoint struct{ IpConfigurations []struct{ IpAddress string } }
	decode(o, &endpoint)
	for _, c := range endpoint.IpConfigurations {
		addresses = append(addresses, c.IpAddress)
	}
	return addresses
}

// orderOf returns a sort key that is the same in each run: the name, then the kind of address.
func orderOf(o hns.Object) string {
	b, _ := json.Marshal(o["IpConfigurations"])
	return fmt.Sprint(o["Name"], string(b))
}

// replaceIdentifiers replaces identifiers and addresses with names that are numbered by their first occurrence.
func replaceIdentifiers(text string) string {
	for _, kind := range []struct{ name, pattern string }{
		{"guid", `(?i)[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`},
		{"mac", `(?i)\b[0-9a-f]{2}(?:[-:][0-9a-f]{2}){5}\b`},
		{"port", `\b[0-9]{5}\b`},
		{"address", `\b10\.\d+\.\d+\.\d+(?:/\d+)?`},
	} {
		names := map[string]string{}
		text = regexp.MustCompile(kind.pattern).ReplaceAllStringFunc(text, func(found string) string {
			key := strings.ToLower(found)
			if names[key] == "" {
				names[key] = fmt.Sprintf("<%s %d>", kind.name, len(names)+1)
			}
			return names[key]
		})
	}
	return text
}
