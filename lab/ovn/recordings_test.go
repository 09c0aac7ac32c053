package ovn

import (
	"encoding/json"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// The recordings say what OVN-Kubernetes' own programs did: states after steps. The files in testdata have of them what the stand-in
// must do the same way, as configurations, actions and annotations. This test keeps the two equal where the recordings are.
//
// Left out: 14-upstream-node-odd, which ran without a cluster manager; of 13-upstream-node the requests to the Host Network Service, which
// are those of another program on Windows hosts; events (there were none) and logs.
const recordingsVariable = "WMCO_OVN_RECORDINGS"

func updates() bool {
	return flag.Lookup("update") != nil && flag.Lookup("update").Value.String() == "true"
}

func TestMain(m *testing.M) {
	flag.Bool("update", false, "write testdata from the recordings")
	flag.Parse()
	os.Exit(m.Run())
}

// recordings is the folder of the recordings; a test without them is skipped.
func recordings(t *testing.T) string {
	t.Helper()
	folder := os.Getenv(recordingsVariable)
	if folder == "" {
		folder = "../../../shared/data/ovn"
	}
	if _, err := os.Stat(folder); err != nil {
		t.Skipf("SKIPPED: set %s to the folder of the recordings: %v", recordingsVariable, err)
	}
	return folder
}

// A recording is a file of states.
type recording struct {
	FlagsOrConfig configured
	Steps         []struct {
		Do            string
		FlagsOrConfig configured
		Exit          *struct {
			Code    int
			Message string
		}
		Nodes []struct {
			Name                string
			Labels, Annotations map[string]string
		}
	}
}

type configured struct {
	Conf           string   `json:"ovnkube.conf"`
	Flags          []string `json:"flags"`
	ClusterManager *configured
}

// A story is what testdata has of a recording.
type story struct {
	Steps []*step
}

// A step has the actions of others, and what Nodes have afterwards.
type step struct {
	Do string `json:"do"`
	// Start starts the cluster manager, the running one ends. Stop ends it.
	Start *startOptions `json:"start,omitempty"`
	Stop  bool          `json:"stop,omitempty"`
	// Delete removes Nodes, Register creates some, with annotations that they have from the beginning.
	Delete   []string   `json:"delete,omitempty"`
	Register []nodeData `json:"register,omitempty"`
	// Label sets kubernetes.io/os; Annotate writes annotations, or removes those that are null.
	Label    map[string]string             `json:"label,omitempty"`
	Annotate map[string]map[string]*string `json:"annotate,omitempty"`
	// Nodes are the cluster manager's annotations of the Nodes that changed.
	Nodes map[string]map[string]string `json:"nodes,omitempty"`
	// Exit is how the cluster manager ended, with the values in its message.
	Exit *exit `json:"exit,omitempty"`
}

type startOptions struct {
	Conf  []string `json:"conf,omitempty"`
	Flags []string `json:"flags,omitempty"`
}

type nodeData struct {
	Name        string            `json:"name"`
	OS          string            `json:"os"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type exit struct {
	Code   int      `json:"code"`
	Values []string `json:"values,omitempty"`
}

// managed are the annotations that the cluster manager writes.
func managed() []string {
	return []string{SubnetAnnotation, NodeSubnetsAnnotation, NodeIDAnnotation, TransitAnnotation}
}

func onlyManaged(annotations map[string]string) map[string]string {
	own := map[string]string{}
	for _, key := range managed() {
		if value, ok := annotations[key]; ok {
			own[key] = value
		}
	}
	return own
}

// usedKeys are the lines of ovnkube.conf that matter here.
var usedKeys = regexp.MustCompile(`^(\[|cluster-subnets|service-cidrs|no-hostsubnet-nodes|enabled|hybrid-overlay|v[46]-)`)

func (c configured) start() *startOptions {
	if c.ClusterManager != nil {
		return c.ClusterManager.start()
	}
	o := &startOptions{}
	if c.Conf == "" {
		o.Flags = c.Flags
	}
	for line := range strings.Lines(c.Conf) {
		if line = strings.TrimSpace(line); !usedKeys.MatchString(line) {
			continue
		}
		if strings.HasPrefix(line, "[") && len(o.Conf) > 0 && strings.HasPrefix(o.Conf[len(o.Conf)-1], "[") {
			o.Conf = o.Conf[:len(o.Conf)-1]
		}
		o.Conf = append(o.Conf, line)
	}
	return o
}

func (c configured) isSet() bool { return c.Conf != "" || len(c.Flags) > 0 || c.ClusterManager != nil }

// values are what differs between messages of one kind: numbers, ranges and address families.
func values(message string) (all []string) {
	for _, v := range regexp.MustCompile(`[0-9a-f:.]*[0-9]+[0-9a-f:./]*|IPv[46]|dual-stack`).FindAllString(message, -1) {
		if v == "dual-stack" {
			all = append(all, "IPv4 and IPv6")
			continue
		}
		all = append(all, v)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

var (
	withAnnotation = regexp.MustCompile(`^Node (\S+) registers with the annotation '(.*)':`)
	removedByAdmin = regexp.MustCompile(`removes (.*) of (.*)$|^the annotations? (?:(k8s\S+) )?of (.*?) (?:is|are) removed`)
	changedTo      = regexp.MustCompile(`^the annotation of (\S+) is changed to (\S+)$`)
	word           = regexp.MustCompile(`[a-z0-9./-]+-[a-z0-9./-]+`)
)

// story derives actions from states.
func (r recording) story() story {
	var s story
	before := map[string]map[string]string{}
	labels := map[string]string{}
	current := r.FlagsOrConfig
	for i, recorded := range r.Steps {
		st := &step{Do: recorded.Do, Nodes: map[string]map[string]string{}, Annotate: map[string]map[string]*string{}, Label: map[string]string{}}
		each := !r.FlagsOrConfig.isSet() // 08 and 09: each step begins with an empty cluster
		if each {
			st.Delete = slices.Sorted(maps.Keys(before))
			clear(before)
		}
		if recorded.FlagsOrConfig.isSet() {
			current = recorded.FlagsOrConfig
		}
		if i == 0 || each || strings.Contains(recorded.Do, "cluster manager starts") {
			st.Start = current.start()
		}
		st.Stop = recorded.Do == "the cluster manager is stopped"
		if recorded.Exit != nil {
			st.Exit = &exit{recorded.Exit.Code, values(recorded.Exit.Message)}
			if recorded.Exit.Code == 2 {
				st.Exit.Values = nil // the message of a panic
			}
		}
		after := map[string]map[string]string{}
		for _, n := range recorded.Nodes {
			after[n.Name] = n.Annotations
			os := n.Labels[corev1.LabelOSStable]
			if _, existed := before[n.Name]; !existed {
				st.Register = append(st.Register, nodeData{n.Name, os, st.initial(n.Name, n.Annotations)})
			} else if labels[n.Name] != os {
				st.Label[n.Name] = os
			}
			labels[n.Name] = os
		}
		for name, annotations := range before {
			if after[name] == nil {
				st.Delete = append(st.Delete, name)
			} else {
				st.writes(name, annotations, after[name])
			}
		}
		slices.Sort(st.Delete)
		// They registered in the order in which the step names them.
		slices.SortStableFunc(st.Register, func(a, b nodeData) int { return strings.Index(st.Do, a.Name) - strings.Index(st.Do, b.Name) })
		st.removals()
		for name, annotations := range after {
			if own := onlyManaged(annotations); before[name] == nil || !maps.Equal(own, onlyManaged(before[name])) {
				st.Nodes[name] = own
			}
		}
		before = after
		s.Steps = append(s.Steps, st)
	}
	return s
}

// initial are the annotations with which a Node registers.
func (st *step) initial(name string, annotations map[string]string) map[string]string {
	own := maps.Clone(annotations)
	maps.DeleteFunc(own, func(key, _ string) bool { return slices.Contains(managed(), key) })
	if found := withAnnotation.FindStringSubmatch(st.Do); found != nil && found[1] == name {
		own[SubnetAnnotation] = found[2]
	}
	return own
}

// writes are what others wrote on a Node: everything that is not the cluster manager's.
func (st *step) writes(name string, before, after map[string]string) {
	changes := map[string]*string{}
	for key, value := range after {
		if old, had := before[key]; !slices.Contains(managed(), key) && (!had || old != value) {
			changes[key] = &value
		}
	}
	if found := changedTo.FindStringSubmatch(st.Do); found != nil && found[1] == name {
		changes[SubnetAnnotation] = &found[2]
	}
	if len(changes) > 0 {
		st.Annotate[name] = changes
	}
}

// removals are the cluster manager's annotations that others removed, as the step says.
func (st *step) removals() {
	found := removedByAdmin.FindStringSubmatch(st.Do)
	if found == nil {
		return
	}
	keys, nodes := found[1]+found[3], found[2]+found[4]
	for _, name := range word.FindAllString(nodes, -1) {
		st.Annotate[name] = map[string]*string{}
		for _, key := range word.FindAllString(keys, -1) {
			st.Annotate[name]["k8s.ovn.org/"+strings.TrimPrefix(key, "k8s.ovn.org/")] = nil
		}
		if keys == "" {
			st.Annotate[name][SubnetAnnotation] = nil
		}
	}
}

// text is a story with a line for each step.
func (s story) text() []byte {
	var lines []string
	for _, st := range s.Steps {
		line, err := json.Marshal(st)
		if err != nil {
			panic(err)
		}
		lines = append(lines, string(line))
	}
	return []byte("[\n" + strings.Join(lines, ",\n") + "\n]\n")
}

// stories are the names of the files that have Nodes and a cluster manager.
func stories() []string {
	return []string{
		"01-openshift", "02-openshift-port-9898", "03-host-prefix-written", "04-plain-flags", "05-openshift-off-and-on", "06-two-ranges",
		"07-exhausted", "08-dual-stack", "09-starts", "10-subnet-there-already", "11-linux-annotations", "13-upstream-node",
	}
}

func TestTestdataIsWhatWasRecorded(t *testing.T) {
	folder := recordings(t)
	for _, name := range stories() {
		var r recording
		readJSON(t, filepath.Join(folder, name+".json"), &r)
		compare(t, name, r.story().text())
	}
}

func readJSON(t *testing.T, path string, into any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// compare compares a file of testdata with what it must be, or writes it.
func compare(t *testing.T, name string, want []byte) {
	t.Helper()
	path := filepath.Join("testdata", name+".json")
	if updates() {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != string(want) {
		t.Errorf("%s is not what was recorded (%v); run this test with -update", path, err)
	}
}
