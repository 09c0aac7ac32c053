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

// The recordings contain the states after each step of OVN-Kubernetes' own programs. The files in testdata contain the part
// that the stand-in must reproduce: configurations, actions and annotations. Where the recordings are available, these tests
// keep the two in sync.
//
// testdata does not contain 14-upstream-node-odd, which ran without a cluster manager, the requests to the Host Network Service in
// 13-upstream-node, which another program sends on Windows hosts, nor logs.
const recordingsVariable = "WMCO_OVN_RECORDINGS"

func updates() bool {
	return flag.Lookup("update") != nil && flag.Lookup("update").Value.String() == "true"
}

func TestMain(m *testing.M) {
	flag.Bool("update", false, "write testdata from the recordings")
	flag.Parse()
	os.Exit(m.Run())
}

// recordings returns the folder of the recordings. It skips the test without them.
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

// A recording is the content of a file with recorded states.
type recording struct {
	FlagsOrConfig configuration
	Steps         []struct {
		Do            string
		FlagsOrConfig configuration
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

type configuration struct {
	Conf           string   `json:"ovnkube.conf"`
	Flags          []string `json:"flags"`
	ClusterManager *configuration
}

// usedKeys matches the lines of ovnkube.conf that the stand-in supports.
var usedKeys = regexp.MustCompile(`^(\[|cluster-subnets|service-cidrs|no-hostsubnet-nodes|enabled|hybrid-overlay|v[46]-)`)

func (c configuration) start() *Start {
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

func (c configuration) isSet() bool {
	return c.Conf != "" || len(c.Flags) > 0 || c.ClusterManager != nil
}

// values returns the numbers, ranges and address families in a message.
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

// steps derives the actions of each step from the states before and after it.
func (r recording) steps() (steps []*Step) {
	before := map[string]map[string]string{}
	labels := map[string]string{}
	current := r.FlagsOrConfig
	for i, recorded := range r.Steps {
		st := &Step{Do: recorded.Do, Nodes: map[string]map[string]string{}, Annotate: map[string]map[string]*string{}, Label: map[string]string{}}
		isFresh := !r.FlagsOrConfig.isSet() // each step of 08 and 09 starts with an empty cluster
		if isFresh {
			st.Delete = slices.Sorted(maps.Keys(before))
			clear(before)
		}
		if recorded.FlagsOrConfig.isSet() {
			current = recorded.FlagsOrConfig
		}
		if i == 0 || isFresh || strings.Contains(recorded.Do, "cluster manager starts") {
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
				st.addWrites(name, annotations, after[name])
			}
		}
		slices.Sort(st.Delete)
		// The description of the step lists Nodes in the order of their registration.
		slices.SortStableFunc(st.Register, func(a, b Node) int { return strings.Index(st.Do, a.Name) - strings.Index(st.Do, b.Name) })
		st.addRemovals()
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

// initial returns the annotations with which a Node registers.
func (st *Step) initial(name string, annotations map[string]string) map[string]string {
	own := maps.Clone(annotations)
	maps.DeleteFunc(own, func(key, _ string) bool { return slices.Contains(Managed(), key) })
	if found := withAnnotation.FindStringSubmatch(st.Do); found != nil && found[1] == name {
		own[ovn.SubnetAnnotation] = found[2]
	}
	return own
}

// addWrites adds the annotations that were written on a Node, except those that the cluster manager wrote.
func (st *Step) addWrites(name string, before, after map[string]string) {
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

// addRemovals adds the removals of the cluster manager's annotations, which the description of the step lists.
func (st *Step) addRemovals() {
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

func TestTestdataMatchesApproverRecording(t *testing.T) {
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
	for _, q := range r.Steps[0].Requests { // the second step shows that nothing is approved without the approver
		if q.Result == "not created" { // rejected by the API server
			continue
		}
		cases = append(cases, CertificateCase{
			q.Note, q.Identity.User, q.Identity.Groups, q.Subject.Organizations, q.Subject.CommonName,
			q.Spec.SignerName, q.Spec.Usages, q.Spec.ExpirationSeconds, ovn.Verdict(q.Result),
		})
	}
	compare(t, "12-approver", cases)
}

func TestTestdataMatchesWebhookRecording(t *testing.T) {
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
		// The API server does not call the webhook for nodes without subresource, nor if it rejects the request itself.
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

// compare compares a file of testdata with a list, of which each element is on a line, or writes the file.
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
		t.Errorf("%s differs from the recording (error %v); run this test with -update", path, err)
	}
}
