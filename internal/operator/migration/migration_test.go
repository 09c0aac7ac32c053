package migration

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files")

const (
	original = "10.20.1-0a1b2c3"
	ours     = "1.2.0-k1.34-3f9a2c1"
)

// good returns a cluster without blockers.
func good() Cluster {
	return Cluster{
		Namespace: "windows", Entries: []string{"10.1.42.1"}, Key: "hash",
		Nodes: []Node{{Name: "win-1", Addresses: []string{"10.1.42.1", "win-1"}, Version: original, DesiredVersion: original, Named: true, KeyHash: "hash", Ready: true}},
	}
}

func TestReport(t *testing.T) {
	everything := good()
	everything.Operator = &Operator{
		Name: "windows/windows-machine-config-operator", Manager: "ClusterServiceVersion windows-machine-config-operator.v10.20.1",
		Environment: map[string]string{"SERVICES_LOG_FILE_SIZE": "50M", "SERVICES_LOG_FLUSH_INTERVAL": "10s", "ARGS": "--debugLogging"},
	}
	everything.KubernetesFault, everything.KeyFault = "the oldest kubelet of this operator is v1.33.13", ""
	everything.EntryFaults = map[string]string{"10.1.42.9": "the value is empty"}
	everything.Machines = []string{"openshift-machine-api/winworker-1"}
	everything.Leftovers = []string{"Secret windows/windows-instance-config-daemon"}
	everything.Unread = map[string]string{"Nodes": "forbidden"}
	everything.Nodes = append(everything.Nodes,
		Node{Name: "win-2", Addresses: []string{"10.1.42.2"}, Version: original, DesiredVersion: "10.20.2-1111111", Named: true},
		Node{Name: "win-3", Version: original, DesiredVersion: original, RebootDue: true, Ready: true, Cordoned: true, KeyHash: "other"},
		Node{Name: "win-4", Addresses: []string{"10.1.42.4"}, Version: original, Ready: true, HostKey: "ssh-ed25519 AAAA"},
		Node{Name: "win-5", Version: ours}, Node{Name: "win-6"})
	for name, c := range map[string]Cluster{"good": good(), "everything": everything, "empty": {Namespace: "windows"}} {
		var b bytes.Buffer
		if err := Write(&b, Assess(c)); err != nil {
			t.Fatal(err)
		}
		golden := filepath.Join("testdata", name+".txt")
		if *update {
			if err := os.WriteFile(golden, b.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), b.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestBlocks(t *testing.T) {
	for about, change := range map[string]func(*Cluster){
		"Deployment ns/original":           func(c *Cluster) { c.Operator = &Operator{Name: "ns/original"} },
		"Kubernetes":                       func(c *Cluster) { c.KubernetesFault = "too old" },
		"Pod network":                      func(c *Cluster) { c.NetworkFault = "no overlay" },
		"Secret windows/cloud-private-key": func(c *Cluster) { c.Key, c.KeyFault = "", "it does not exist" },
		"ConfigMap windows/windows-instances": func(c *Cluster) {
			c.EntryFaults = map[string]string{"x": "wrong"}
		},
		"Node win-1": func(c *Cluster) { c.Nodes[0].Upgrading = true },
	} {
		c := good()
		if found := Assess(c); Blocked(found) {
			t.Fatalf("a good cluster is blocked: %v", found)
		}
		change(&c)
		var blocks []string
		for _, f := range Assess(c) {
			if f.Level == Blocks {
				blocks = append(blocks, f.About)
			}
		}
		if strings.Join(blocks, ",") != about {
			t.Errorf("%q blocks, want %q", blocks, about)
		}
	}
}

func TestNodeWithoutEntryBlocks(t *testing.T) {
	c := good()
	c.Entries = []string{"10.1.42.100"}
	if !Blocked(Assess(c)) {
		t.Error("it does not block")
	}
	c.Nodes[0].Named = false // of a Machine
	if Blocked(Assess(c)) {
		t.Error("a node of a Machine blocks")
	}
}
