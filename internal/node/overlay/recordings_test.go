package overlay

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"testing"
)

// recording contains what OVN-Kubernetes' own programs wrote to Nodes.
type recording struct {
	Recording, ClusterSubnets, HybridSubnets string
	Steps                                    []struct {
		Do      string
		Changed []recordedNode
		Gone    []string
	}
}

type recordedNode struct {
	Name, OS, Subnet, LinuxSubnets, MAC string
	IPs                                 []string
}

// node returns the Node. If only OVN-Kubernetes' cluster manager ran, no program has written the address of a router, and a made-up one is used.
func (r recordedNode) node(allRun bool) Node {
	n := Node{Name: r.Name, Windows: r.OS == "windows", Subnet: r.Subnet, LinuxSubnets: r.LinuxSubnets, RouterMAC: r.MAC, InternalIPs: r.IPs}
	if n.RouterMAC == "" && !allRun {
		n.RouterMAC = "0a:58:0a:80:00:03"
	}
	return n
}

func recordings(t *testing.T) []recording {
	t.Helper()
	text, err := os.ReadFile("testdata/ovn-kubernetes.json")
	if err != nil {
		t.Fatal(err)
	}
	var all struct{ Recordings []recording }
	if err := json.Unmarshal(text, &all); err != nil || len(all.Recordings) != 6 {
		t.Fatalf("%d recordings: %v", len(all.Recordings), err)
	}
	return all.Recordings
}

// complete reports whether other nodes must have a route to a Node.
func (r recordedNode) complete(n Node) bool {
	return n.RouterMAC != "" && len(r.IPs) > 0 && (n.Windows && r.Subnet != "" && r.Subnet != "abc" || !n.Windows && r.LinuxSubnets != "")
}

// TestWindowsNodesReachAllNodesOfOVNKubernetes replays what OVN-Kubernetes wrote, and decides on each Windows node after each step.
func TestWindowsNodesReachAllNodesOfOVNKubernetes(t *testing.T) {
	for _, r := range recordings(t) {
		t.Run(r.Recording, func(t *testing.T) {
			var s Settings
			var err, errHybrid error
			s.Ranges.Cluster, err = parseRanges(r.ClusterSubnets)
			s.Ranges.Hybrid, errHybrid = parseRanges(r.HybridSubnets)
			if err != nil || errHybrid != nil {
				t.Fatal(err, errHybrid)
			}
			allRun := r.Recording[:2] > "12" // including hybrid-overlay-node and the program of Linux nodes
			nodes, held, decided := map[string]recordedNode{}, map[string]holders{}, 0
			for i, step := range r.Steps {
				for _, n := range step.Changed {
					nodes[n.Name] = n
				}
				for _, name := range step.Gone {
					delete(nodes, name)
				}
				decided += checkStep(t, s, fmt.Sprintf("step %d (%s)", i, step.Do), nodes, held, allRun)
			}
			if decided < 10 {
				t.Errorf("only %d decisions were checked", decided)
			}
		})
	}
}

// checkStep decides on each Windows node. held contains the holders that each of them has stored.
func checkStep(t *testing.T, s Settings, step string, nodes map[string]recordedNode, held map[string]holders, allRun bool) (decided int) {
	t.Helper()
	var all []Node
	var reachable []string
	for _, name := range slices.Sorted(maps.Keys(nodes)) {
		n := nodes[name].node(allRun)
		all = append(all, n)
		if nodes[name].complete(n) {
			reachable = append(reachable, name)
		}
	}
	for _, own := range all {
		if _, _, err := own.prefix(); !own.Windows || err != nil {
			continue
		}
		d := s.decide(own, all, held[own.Name])
		held[own.Name] = d.holders
		decided++
		want := slices.DeleteFunc(slices.Clone(reachable), func(name string) bool { return name == own.Name })
		if got := d.names(); !slices.Equal(got, want) {
			t.Errorf("%s: %s has routes to %v, want %v; refused %s", step, own.Name, got, want, reports(d.refused))
		}
		if second := len(s.Ranges.Hybrid) > 1 && !s.Ranges.Hybrid[0].Overlaps(own.subnet(t)); (d.own != nil) != second {
			t.Errorf("%s: %s has its own problem %v, in the second range: %t", step, own.Name, d.own, second)
		}
	}
	return decided
}

// subnet returns the subnet in the Node's annotations.
func (n Node) subnet(t *testing.T) netip.Prefix {
	t.Helper()
	p, _, err := n.prefix()
	if err != nil {
		t.Fatal(err)
	}
	return p
}
