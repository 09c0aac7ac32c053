package replace_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/cli/clitest"
	"github.com/windows-machine-config/wmco/internal/cli/session"
)

const (
	machineAPI  = "machine.openshift.io/v1beta1"
	machineSets = "/apis/" + machineAPI + "/namespaces/openshift-machine-api/machinesets/"
)

// lab is a cluster with MachineSets old and new, whose Machines appear and disappear at once. It answers every third change of a MachineSet with a
// conflict, as if another client had changed it.
type lab struct {
	*clitest.Cluster
	t       *testing.T
	changes int
	born    int
	// versions are those of Windows on the nodes of the MachineSets.
	versions map[string]string
	// deleted are the Machines that were deleted.
	deleted []string
	// restores is the MachineSet whose replicas another client resets after they were changed.
	restores string
}

func newLab(t *testing.T, replicas int) *lab {
	t.Helper()
	l := &lab{t: t, versions: map[string]string{"old": "10.0.20348.4000", "new": "10.0.26100.7000"}}
	l.Cluster = clitest.New(t, "/apis/"+api.GroupName+"/v1alpha1/windowsinstances", "/apis/"+api.GroupName+"/v1alpha1/windowsconfigs",
		"/api/v1/nodes", "/api/v1/pods", "/api/v1/events", "/apis/"+machineAPI+"/machines")
	l.set("old", replicas, "")
	l.set("new", 0, "")
	l.Handle("/apis/"+machineAPI+"/", l)
	l.follow()
	return l
}

// set adds a MachineSet for Windows, with further content of its metadata or spec.
func (l *lab) set(name string, replicas int, more string) {
	l.t.Helper()
	o := &unstructured.Unstructured{}
	manifest := fmt.Sprintf("apiVersion: %s\nkind: MachineSet\nmetadata: {name: %s, namespace: openshift-machine-api}\n"+
		"spec: {replicas: %d, template: {metadata: {labels: {machine.openshift.io/os-id: Windows}}}}\n", machineAPI, name, replicas)
	if err := yaml.Unmarshal([]byte(manifest), &o.Object); err != nil {
		l.t.Fatal(err)
	}
	if err := yaml.Unmarshal([]byte(more), &o.Object); err != nil {
		l.t.Fatal(err)
	}
	o.SetUID(types.UID("uid-" + name))
	l.Add(machineAPI+"/machinesets", o)
}

// ServeHTTP implements http.Handler. It rejects changes of old versions of an object, as the API server does.
func (l *lab) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPatch {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		var patch metav1.PartialObjectMetadata
		_ = json.Unmarshal(body, &patch)
		version := l.Object(r.URL.Path).GetResourceVersion()
		l.changes++
		if patch.ResourceVersion != version || l.changes%3 == 0 {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusConflict)
			_ = json.NewEncoder(w).Encode(metav1.Status{Status: "Failure", Code: http.StatusConflict, Reason: metav1.StatusReasonConflict, Message: "the object has been modified"})
			return
		}
	}
	l.Objects().ServeHTTP(w, r)
	if r.Method == http.MethodPatch {
		o := l.Object(r.URL.Path)
		version, _ := strconv.Atoi(o.GetResourceVersion())
		o.SetResourceVersion(strconv.Itoa(version + 1))
		if path.Base(r.URL.Path) == l.restores {
			replicas := map[string]int64{"old": 2, "new": 0}[l.restores]
			if err := unstructured.SetNestedField(o.(*unstructured.Unstructured).Object, replicas, "spec", "replicas"); err != nil {
				l.t.Error(err)
			}
		}
		l.follow()
	}
}

// machines returns the Machines of a MachineSet.
func (l *lab) machines(set string) (all []*unstructured.Unstructured) {
	for i := range l.born {
		if o := l.Object(machinePath(fmt.Sprintf("%s-%d", set, i+1))); o != nil {
			text, _ := json.Marshal(o)
			m := &unstructured.Unstructured{}
			if err := json.Unmarshal(text, m); err != nil {
				l.t.Error(err)
			}
			all = append(all, m)
		}
	}
	return all
}

func machinePath(name string) string {
	return "/apis/" + machineAPI + "/namespaces/openshift-machine-api/machines/" + name
}

// follow creates and deletes Machines with their nodes.
func (l *lab) follow() {
	for name := range l.versions {
		set := l.Object(machineSets + name).(*unstructured.Unstructured)
		replicas, _, _ := unstructured.NestedFieldNoCopy(set.Object, "spec", "replicas")
		want, _ := strconv.Atoi(fmt.Sprint(replicas))
		for len(l.machines(name)) < want {
			l.create(name)
		}
		for machines := l.machines(name); len(machines) > want; machines = l.machines(name) {
			chosen := machines[len(machines)-1]
			for _, m := range machines {
				if m.GetAnnotations()["machine.openshift.io/delete-machine"] != "" {
					chosen = m
				}
			}
			l.remove(machinePath(chosen.GetName()))
			l.remove("/apis/" + api.GroupName + "/v1alpha1/namespaces/" + api.DefaultNamespace + "/windowsinstances/" + chosen.GetName())
			l.remove("/api/v1/nodes/" + chosen.GetName())
			l.deleted = append(l.deleted, chosen.GetName())
		}
	}
}

func (l *lab) remove(name string) {
	l.Objects().ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodDelete, name, nil))
}

func (l *lab) create(set string) {
	l.born++
	name := fmt.Sprintf("%s-%d", set, l.born)
	m := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"phase": "Running", "nodeRef": map[string]any{"name": name}}}}
	m.SetAPIVersion(machineAPI)
	m.SetKind("Machine")
	m.SetNamespace("openshift-machine-api")
	m.SetName(name)
	yes := true
	m.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: machineAPI, Kind: "MachineSet", Name: set, UID: types.UID("uid-" + set), Controller: &yes}})
	l.Add(machineAPI+"/machines", m)

	i := &v1alpha1.WindowsInstance{ObjectMeta: metav1.ObjectMeta{
		Name: name, Namespace: api.DefaultNamespace, Annotations: map[string]string{api.AnnotationMachine: "openshift-machine-api/" + name},
	}}
	i.Status.Hostname, i.Status.NodeRef = name, &v1alpha1.NodeReference{Name: name, UID: types.UID("uid-" + name)}
	i.Status.Conditions = []metav1.Condition{{Type: api.ConditionConfigured, Status: metav1.ConditionTrue}}
	l.Add(api.GroupName+"/v1alpha1/windowsinstances", i)

	build := strings.Join(strings.Split(l.versions[set], ".")[:3], ".")
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{
		corev1.LabelOSStable: "windows", corev1.LabelWindowsBuild: build,
	}}}
	n.Status.NodeInfo.KernelVersion = l.versions[set]
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(time.Now().Add(-time.Hour))}}
	l.Add("v1/nodes", n)
}

// pod adds a pod of a ReplicaSet to a node.
func (l *lab) pod(name, node string, change ...func(*corev1.Pod)) {
	yes := true
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "shop", OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web", UID: "1", Controller: &yes}}}}
	p.Spec.NodeName = node
	p.Spec.Containers = []corev1.Container{{Name: "web", Image: "registry.example/web:ltsc2022"}}
	for _, c := range change {
		c(p)
	}
	p.Name += "-" + node
	l.Add("v1/pods", p)
}

func (l *lab) total() string {
	return l.Object(machineSets + "new").GetAnnotations()[api.AnnotationReplaces]
}

func TestMachinesAreReplaced(t *testing.T) {
	l := newLab(t, 2)
	l.pod("web-1", "old-1")
	if r := l.Run(t, "", "replace", "old", "--with", "new", "--machines", "1", "--yes"); r.Code != session.CodeOK ||
		!strings.Contains(r.Out, "MachineSet old has 1 Machine, MachineSet new has 1 Machine") || !strings.Contains(r.Out, "and deletes Machine old-1") {
		t.Fatalf("exit code %d: %s%s", r.Code, r.Out, r.Err)
	}
	if got, want := l.total(), "old/2"; got != want {
		t.Errorf("annotation %s: got %q, want %q", api.AnnotationReplaces, got, want)
	}
	r := l.Run(t, "y\n", "replace", "old", "--with", "new")
	if r.Code != session.CodeOK || !strings.Contains(r.Err, "Replace 1 of 1 Machine of MachineSet old with those of MachineSet new, one at a time, so that both have 2 in the end?") {
		t.Fatalf("exit code %d: %s%s", r.Code, r.Out, r.Err)
	}
	if got := fmt.Sprint(l.deleted, len(l.machines("new"))); got != "[old-1 old-2] 2" {
		t.Errorf("deleted Machines and number of new ones: got %s, want [old-1 old-2] 2", got)
	}
	if got := l.total(); got != "" {
		t.Errorf("annotation %s is %q in the end", api.AnnotationReplaces, got)
	}
}

// TestPodsWithoutAnotherPlaceKeepMachines expects that a Machine is not removed if pods of it would be lost.
func TestPodsWithoutAnotherPlaceKeepMachines(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*corev1.Pod)
		want   string // of stderr; empty if the Machine is removed
	}{
		"movable":              {func(*corev1.Pod) {}, ""},
		"pinned":               {func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{corev1.LabelWindowsBuild: "10.0.20348"} }, "no other node that takes pods matches"},
		"without a controller": {func(p *corev1.Pod) { p.OwnerReferences = nil }, "shop/web-old-1 (no controller recreates it)"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, 2) // the other old node is no place: it is replaced next
			l.pod("web", "old-1", test.change)
			l.pod("web", "old-2", test.change)
			l.pod("daemon", "old-1", func(p *corev1.Pod) {
				p.OwnerReferences[0].APIVersion, p.OwnerReferences[0].Kind, p.Spec.NodeSelector = "apps/v1", "DaemonSet", map[string]string{"no": "where"}
			})
			l.pod("finished", "old-1", func(p *corev1.Pod) { p.OwnerReferences, p.Status.Phase = nil, corev1.PodSucceeded })
			l.pod("static", "old-1", func(p *corev1.Pod) {
				p.OwnerReferences, p.Annotations = nil, map[string]string{corev1.MirrorPodAnnotationKey: "x"}
			})
			l.pod("ending", "old-1", func(p *corev1.Pod) {
				now := metav1.Now()
				p.OwnerReferences, p.DeletionTimestamp = nil, &now
			})
			r := l.Run(t, "", "replace", "old", "--with", "new", "--yes")
			if test.want == "" {
				if r.Code != session.CodeOK || len(l.deleted) != 2 {
					t.Errorf("exit code %d, deleted %v: %s%s", r.Code, l.deleted, r.Out, r.Err)
				}
				return
			}
			if r.Code != session.CodeFindings || !strings.Contains(r.Err, test.want) || len(l.deleted) > 0 {
				t.Errorf("exit code %d, deleted %v; stderr %q, want ...%s...", r.Code, l.deleted, r.Err, test.want)
			}
		})
	}
}

// TestInterruptionAtTheEndIsCompleted runs the command again after all Machines have been replaced, but before it could remove its annotation.
func TestInterruptionAtTheEndIsCompleted(t *testing.T) {
	l := newLab(t, 0)
	l.set("new", 2, "")
	l.annotate(api.AnnotationReplaces, "old/2")
	l.follow()
	if r := l.Run(t, "", "replace", "old", "--with", "new"); r.Code != session.CodeOK {
		t.Fatalf("exit code %d: %s%s", r.Code, r.Out, r.Err)
	}
	if got := l.total(); got != "" || len(l.deleted) > 0 {
		t.Errorf("annotation %s is %q, deleted %v", api.AnnotationReplaces, got, l.deleted)
	}
}

func TestDryRunChangesNothing(t *testing.T) {
	l := newLab(t, 2)
	l.pod("web", "old-1", func(p *corev1.Pod) { p.OwnerReferences = nil })
	r := l.Run(t, "", "replace", "old", "--with", "new", "--dry-run")
	if r.Code != session.CodeOK || l.changes > 0 {
		t.Fatalf("exit code %d, %d changes: %s", r.Code, l.changes, r.Err)
	}
	const want = `From          MachineSet old with 2 Machines, then 0
To            MachineSet new with 0 Machines, then 2
Note          which pods find another node is known once MachineSet new has a node; see also kubectl windows generations
MACHINE  NODE   WINDOWS                           KEPT BY
old-1    old-1  10.0.20348 (Windows Server 2022)  shop/web-old-1 (no controller recreates it)
old-2    old-2  10.0.20348 (Windows Server 2022)  -
`
	if r.Out != want {
		t.Errorf("got:\n%s\nwant:\n%s", r.Out, want)
	}
}

func TestInvalidReplacementsAreRejected(t *testing.T) {
	for name, test := range map[string]struct {
		change  func(*lab)
		args    string
		code    int
		wantErr string
	}{
		"no other MachineSet":      {nil, "replace old", session.CodeUsage, "--with is required"},
		"the same":                 {nil, "replace old --with old", session.CodeUsage, "name another one"},
		"no argument":              {nil, "replace --with new", session.CodeUsage, "takes one argument"},
		"negative":                 {nil, "replace old --with new --machines -1", session.CodeUsage, "must not be negative"},
		"not found":                {nil, "replace old --with other", session.CodeNotFound, `MachineSet "other" not found`},
		"not confirmed":            {nil, "replace old --with new", session.CodeUsage, "use --yes"},
		"no Machines":              {nil, "replace new --with old", session.CodeFailed, "MachineSet new has no Machines"},
		"for Linux":                {func(l *lab) { l.set("new", 0, "spec: {replicas: 0}") }, "replace old --with new", session.CodeFailed, "Windows is required"},
		"scaled by the autoscaler": {func(l *lab) { l.annotate("machine.openshift.io/cluster-api-autoscaler-node-group-min-size", "0") }, "replace old --with new", session.CodeFailed, "delete its MachineAutoscaler first"},
		"managed by Cluster API": {func(l *lab) {
			l.set("new", 0, "spec: {authoritativeAPI: ClusterAPI, template: {metadata: {labels: {machine.openshift.io/os-id: Windows}}}}")
		}, "replace old --with new", session.CodeFailed, "spec.authoritativeAPI is"},
		"replaces another one":  {func(l *lab) { l.annotate(api.AnnotationReplaces, "older/3") }, "replace old --with new", session.CodeFailed, `replaces MachineSet "older"`},
		"an invalid annotation": {func(l *lab) { l.annotate(api.AnnotationReplaces, "old/many") }, "replace old --with new", session.CodeFailed, `is "old/many"; the name of a MachineSet and a number are required`},
		"scaled meanwhile":      {func(l *lab) { l.set("old", 3, ""); l.annotate(api.AnnotationReplaces, "old/1") }, "replace old --with new", session.CodeUsage, "both MachineSets have 3 Machines in total, and should have 1 according to annotation"},
		"is replacing itself": {func(l *lab) {
			l.Object(machineSets + "old").SetAnnotations(map[string]string{api.AnnotationReplaces: "older/2"})
		}, "replace old --with new", session.CodeFailed, "MachineSet old itself replaces another one"},
		"other record and total": {func(l *lab) { l.annotate(api.AnnotationReplaces, "older/3") }, "replace old --with new --total 2", session.CodeFailed, `replaces MachineSet "older"`},
		"being migrated":         {func(l *lab) { l.set("new", 0, "status: {authoritativeAPI: Migrating}") }, "replace old --with new", session.CodeFailed, "status.authoritativeAPI is"},
		"no time":                {nil, "replace old --with new --timeout 5m", session.CodeUsage, "more than --soak, 10m0s, is required"},
		"config is forbidden":    {func(l *lab) { l.Deny("GET /apis/" + api.GroupName + "/v1alpha1/windowsconfigs") }, "replace old --with new --yes", session.CodeForbidden, "missing permission"},
		"forbidden":              {func(l *lab) { l.Deny("GET " + path.Clean(machineSets)) }, "replace old --with new", session.CodeForbidden, "missing permission"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, 2)
			if test.change != nil {
				test.change(l)
			}
			r := l.Run(t, "", strings.Fields(test.args)...)
			if r.Code != test.code || !strings.Contains(r.Err, test.wantErr) || l.changes > 0 {
				t.Errorf("exit code %d, want %d; %d changes; stderr %q, want ...%s...", r.Code, test.code, l.changes, r.Err, test.wantErr)
			}
		})
	}
}

// annotate annotates MachineSet new.
func (l *lab) annotate(key, value string) {
	set := l.Object(machineSets + "new")
	set.SetAnnotations(map[string]string{key: value})
}

// TestOtherWritersEndReplacement expects the command to end when another client scales the MachineSets, instead of competing with it.
func TestOtherWritersEndReplacement(t *testing.T) {
	for name, replicas := range map[string]string{"the old one is restored": "old", "the new one is restored": "new"} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, 2)
			l.restores = replicas
			r := l.Run(t, "", "replace", "old", "--with", "new", "--yes")
			if r.Code != session.CodeFailed || !strings.Contains(r.Err, "another client has scaled the MachineSets") || len(l.deleted) > 1 {
				t.Errorf("exit code %d, deleted %v; stderr %q", r.Code, l.deleted, r.Err)
			}
		})
	}
}

// TestPausedRolloutsRemoveNothing expects the command to wait while rollouts are paused.
func TestPausedRolloutsRemoveNothing(t *testing.T) {
	l := newLab(t, 1)
	config := &v1alpha1.WindowsConfig{ObjectMeta: metav1.ObjectMeta{Name: api.WindowsConfigName}}
	config.Spec.Rollout.Paused = true
	l.Add(api.GroupName+"/v1alpha1/windowsconfigs", client.Object(config))
	r := l.Run(t, "", "replace", "old", "--with", "new", "--yes", "--soak", "0s", "--timeout", "1s")
	if r.Code != session.CodeTimeout || !strings.Contains(r.Err, "spec.rollout.paused of WindowsConfig is true") || len(l.deleted) > 0 {
		t.Errorf("exit code %d, deleted %v; stderr %q", r.Code, l.deleted, r.Err)
	}
}
