package story

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

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/windows-machine-config/wmco/lab/cluster/ovn"
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
		folder = "../../../../../shared/data/ovn"
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

// usedKeys are the lines of ovnkube.conf that matter here.
var usedKeys = regexp.MustCompile(`^(\[|cluster-subnets|service-cidrs|no-hostsubnet-nodes|enabled|hybrid-overlay|v[46]-)`)

func (c configured) start() *Start {
	if c.ClusterManager != nil {
		return c.ClusterManager.start()
	}
	o := &Start{}
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
func (r recording) steps() (steps []*Step) {
	before := map[string]map[string]string{}
	labels := map[string]string{}
	current := r.FlagsOrConfig
	for i, recorded := range r.Steps {
		st := &Step{Do: recorded.Do, Nodes: map[string]map[string]string{}, Annotate: map[string]map[string]*string{}, Label: map[string]string{}}
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
			st.Exit = &Exit{recorded.Exit.Code, values(recorded.Exit.Message)}
			if recorded.Exit.Code == 2 {
				st.Exit.Values = nil // the message of a panic
			}
		}
		after := map[string]map[string]string{}
		for _, n := range recorded.Nodes {
			after[n.Name] = n.Annotations
			os := n.Labels[corev1.LabelOSStable]
			if _, existed := before[n.Name]; !existed {
				st.Register = append(st.Register, Node{n.Name, os, st.initial(n.Name, n.Annotations)})
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
		slices.SortStableFunc(st.Register, func(a, b Node) int { return strings.Index(st.Do, a.Name) - strings.Index(st.Do, b.Name) })
		st.removals()
		for name, annotations := range after {
			if own := OnlyManaged(annotations); before[name] == nil || !maps.Equal(own, OnlyManaged(before[name])) {
				st.Nodes[name] = own
			}
		}
		before = after
		steps = append(steps, st)
	}
	return steps
}

// initial are the annotations with which a Node registers.
func (st *Step) initial(name string, annotations map[string]string) map[string]string {
	own := maps.Clone(annotations)
	maps.DeleteFunc(own, func(key, _ string) bool { return slices.Contains(Managed(), key) })
	if found := withAnnotation.FindStringSubmatch(st.Do); found != nil && found[1] == name {
		own[ovn.SubnetAnnotation] = found[2]
	}
	return own
}

// writes are what others wrote on a Node: everything that is not the cluster manager's.
func (st *Step) writes(name string, before, after map[string]string) {
	changes := map[string]*string{}
	for key, value := range after {
		if old, previous := before[key]; !slices.Contains(Managed(), key) && (!previous || old != value) {
			changes[key] = &value
		}
	}
	if found := changedTo.FindStringSubmatch(st.Do); found != nil && found[1] == name {
		changes[ovn.SubnetAnnotation] = &found[2]
	}
	if len(changes) > 0 {
		st.Annotate[name] = changes
	}
}

// removals are the cluster manager's annotations that others removed in the step.
func (st *Step) removals() {
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
			st.Annotate[name][ovn.SubnetAnnotation] = nil
		}
	}
}

func TestTestdataMatchesRecordings(t *testing.T) {
	folder := recordings(t)
	for _, name := range Names() {
		var r recording
		readJSON(t, filepath.Join(folder, name+".json"), &r)
		compare(t, name, r.steps())
	}
}

func TestTestdataIsWhatTheApproverWasRecordedToDo(t *testing.T) {
	var r struct {
		Steps []struct {
			Requests []struct {
				Note     string
				Identity struct {
					User   string
					Groups []string
				}
				Subject *struct {
					Organizations []string
					CommonName    string
				}
				Spec struct {
					SignerName        string
					Usages            []certificatesv1.KeyUsage
					ExpirationSeconds *int32
				}
				Result string
			}
		}
	}
	readJSON(t, filepath.Join(recordings(t), "12-approver.json"), &r)
	var cases []CertificateCase
	for _, q := range r.Steps[0].Requests { // the second step is that nothing is approved without the program
		if q.Result == "not created" { // the API server refused it
			continue
		}
		cases = append(cases, CertificateCase{
			q.Note, q.Identity.User, q.Identity.Groups, q.Subject.Organizations, q.Subject.CommonName,
			q.Spec.SignerName, q.Spec.Usages, q.Spec.ExpirationSeconds, ovn.Verdict(q.Result),
		})
	}
	compare(t, "12-approver", cases)
}

func TestTestdataIsWhatTheWebhookWasRecordedToDo(t *testing.T) {
	var r struct {
		Steps []struct {
			Decisions []struct {
				Node, OS          string
				AnnotationsBefore map[string]string
				Identity          struct {
					User   string
					Groups []string
				}
				Resource, RefusedBy string
				Patch               map[string]any
				Admitted            bool
			}
		}
	}
	readJSON(t, filepath.Join(recordings(t), "12-webhook.json"), &r)
	var cases []WriteCase
	for i, d := range r.Steps[0].Decisions {
		// The webhook is not called for nodes, nor after another refusal.
		if d.Resource != "nodes/status" || d.RefusedBy != "" && d.RefusedBy != "webhook" {
			continue
		}
		c := WriteCase{d.Node, d.OS, d.AnnotationsBefore, d.Identity.User, d.Identity.Groups, d.Patch, [3]bool{}}
		for j := range c.Admitted {
			c.Admitted[j] = r.Steps[j].Decisions[i].Admitted
		}
		cases = append(cases, c)
	}
	compare(t, "12-webhook", cases)
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

// compare compares a file of testdata, which has a line for each element of a list, with what it must be, or writes it.
func compare[T any](t *testing.T, name string, list []T) {
	t.Helper()
	var lines []string
	for _, v := range list {
		line, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, string(line))
	}
	want, path := "[\n"+strings.Join(lines, ",\n")+"\n]\n", filepath.Join("testdata", name+".json")
	if updates() {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != want {
		t.Errorf("%s is not what was recorded (%v); run this test with -update", path, err)
	}
}
