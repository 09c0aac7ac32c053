package cli_test

import (
	"encoding/json"
	"flag"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/cli/clitest"
	"github.com/windows-machine-config/wmco/internal/cli/session"
	"github.com/windows-machine-config/wmco/internal/observe/fleetstatus"
	"github.com/windows-machine-config/wmco/internal/shared/nodestate"
)

var update = flag.Bool("update", false, "write the golden files")

const (
	instances = api.GroupName + "/v1alpha1/windowsinstances"
	configs   = api.GroupName + "/v1alpha1/windowsconfigs"
)

// empty returns a cluster with the operator's kinds and no objects.
func empty(t *testing.T) *clitest.Cluster {
	return clitest.New(t, "/apis/"+instances, "/apis/"+configs, "/api/v1/nodes", "/api/v1/pods", "/api/v1/events", "/api/v1/configmaps", "/api/v1/secrets")
}

func at(ago time.Duration) metav1.Time { return metav1.NewTime(time.Now().Add(-ago)) }

// instance returns an instance whose condition Ready has this reason.
func instance(name, address, reason, message string) *v1alpha1.WindowsInstance {
	i := &v1alpha1.WindowsInstance{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: api.DefaultNamespace, CreationTimestamp: at(48 * time.Hour)}}
	i.Spec.Address, i.Spec.Username, i.Status.Hostname = address, "Administrator", name
	i.Status.HostKey = "ssh-ed25519 of-" + name // identifies its Node
	status := metav1.ConditionFalse
	if reason == api.ReasonReady {
		status, i.Status.NodeRef = metav1.ConditionTrue, &v1alpha1.NodeReference{Name: name}
	}
	i.Status.Conditions = []metav1.Condition{
		{Type: api.ConditionReachable, Status: status, Reason: reason, Message: message, LastTransitionTime: at(2 * time.Hour)},
		{Type: api.ConditionReady, Status: status, Reason: reason, Message: message, LastTransitionTime: at(2 * time.Hour)},
	}
	return i
}

func condition(kind, reason string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: reason, LastTransitionTime: at(2 * time.Hour)}
}

func node(name string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelOSStable: "windows"}, Annotations: map[string]string{
		api.AnnotationVersion: "1.0.0-3f9a2c1", api.AnnotationSSHHostKey: "of-" + name,
	}}}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", LastTransitionTime: at(2 * time.Hour)}}
	n.Status.NodeInfo = corev1.NodeSystemInfo{KubeletVersion: "v1.36.3", OSImage: "Windows Server 2022", ContainerRuntimeVersion: "containerd://2.1.0"}
	n.Spec.PodCIDRs = []string{"10.244.1.0/24"}
	return n
}

func deployment() *appsv1.Deployment {
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: fleetstatus.DeploymentName, Namespace: api.DefaultNamespace}}
	d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "manager", Image: "ghcr.io/windows-machine-config/wmco:v1.1.0"}}
	d.Status.ReadyReplicas = 1
	return d
}

// fleet returns a cluster in the middle of an upgrade, with a host that has a wrong host key.
func fleet(t *testing.T) *clitest.Cluster {
	c := empty(t)
	c.Add(instances, instance("win-1", "10.1.42.1", api.ReasonReady, ""))
	upgrading := instance("win-2", "10.1.42.2", api.ReasonDrainBlocked, "PodDisruptionBudget shop/web allows no disruption of pod shop/web-1")
	upgrading.Status.NodeRef = &v1alpha1.NodeReference{Name: "win-2"}
	upgrading.Status.Maintenance = &v1alpha1.Maintenance{Action: v1alpha1.ActionUpgrade, Step: v1alpha1.MaintenanceDrain, Disruption: v1alpha1.DisruptionDrain,
		Version: "1.1.0-122778d", StartedAt: at(20 * time.Minute), StepStartedAt: at(20 * time.Minute), Message: "1 pod is left"}
	c.Add(instances, upgrading)
	broken := instance("win-3", "10.1.42.3", api.ReasonAuthenticationFailed, "the host does not accept user Administrator; add this line:\nssh-ed25519 AAAA... \x1b[31mred")
	start, end := metav1.NewMicroTime(time.Now().Add(-time.Hour)), metav1.NewMicroTime(time.Now().Add(-time.Hour+1500*time.Millisecond))
	broken.Status.Steps = []v1alpha1.StepStatus{{Name: "Connect", State: v1alpha1.StepFailed, Message: "authentication failed", StartedAt: &start, FinishedAt: &end}, {Name: "Inspect", State: v1alpha1.StepWaiting}}
	c.Add(instances, broken)
	c.Add("v1/nodes", node("win-1"))
	cordoned := node("win-2")
	cordoned.Spec.Unschedulable, cordoned.Annotations[api.AnnotationCordoned] = true, "Upgrade"
	cordoned.Annotations[api.AnnotationServices] = nodestate.FormatServices([]nodestate.Service{
		{Name: "containerd", State: api.ServiceRunning}, {Name: "kubelet", State: api.ServiceCrashLoop}, {Name: "kube-proxy", State: api.ServiceWaiting, WaitsFor: "hybrid-overlay-node"},
	})
	c.Add("v1/nodes", cordoned)
	config := &v1alpha1.WindowsConfig{ObjectMeta: metav1.ObjectMeta{Name: api.WindowsConfigName}}
	config.Spec.Rollout.MaxUnavailable = &intstr.IntOrString{IntVal: 1}
	config.Status.Rollout = &v1alpha1.RolloutStatus{Version: "1.1.0-122778d", MaxUnavailable: 1, Nodes: 2}
	config.Status.Nodes, config.Status.UpdatedNodes = 2, 1
	c.Add(configs, config)
	c.Add("apps/v1/deployments", deployment())
	c.Add("v1/events", &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: "e1", Namespace: api.DefaultNamespace}, InvolvedObject: corev1.ObjectReference{Kind: "WindowsInstance", Name: "win-3"},
		Type: "Warning", Reason: api.ReasonAuthenticationFailed, Message: "the host does not accept the key", LastTimestamp: at(15 * time.Minute), Count: 7,
	})
	return c
}

func TestOutputs(t *testing.T) {
	for name, args := range map[string][]string{
		"status": {"status"}, "status-wide": {"status", "-o", "wide"}, "status-name": {"status", "-o", "name"},
		"describe-broken": {"describe", "win-3"}, "describe-upgrading": {"describe", "10.1.42.2"}, "version": {"version"},
		"help": {"--help"}, "describe-yaml": {"describe", "win-1", "-o", "yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			r := fleet(t).Run(t, "", args...)
			if r.Code != session.CodeOK || r.Err != "" {
				t.Fatalf("exit code %d: %s", r.Code, r.Err)
			}
			if strings.Contains(r.Out, "\x1b") {
				t.Error("the output has control characters")
			}
			golden(t, name+".golden", regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)`).ReplaceAllString(r.Out, "<time>"))
		})
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	name = filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s is not as expected (run go test -update); got:\n%s", name, got)
	}
}

func TestStatusMakesFewRequests(t *testing.T) {
	c := fleet(t)
	c.Run(t, "", "status")
	if n := len(c.Requests()); n > 6 {
		t.Errorf("status makes %d requests: %v", n, c.Requests())
	}
}

func TestStatusJSONIsFleet(t *testing.T) {
	var f fleetstatus.Fleet
	r := fleet(t).Run(t, "", "status", "-o", "json")
	if err := json.Unmarshal([]byte(r.Out), &f); err != nil || len(f.Hosts) != 3 || f.Version != fleetstatus.Version {
		t.Errorf("%v: %s", err, r.Out)
	}
}

// TestFailuresPrintOneLine expects one clear line and an exit code for each problem.
func TestFailuresPrintOneLine(t *testing.T) {
	for name, test := range map[string]struct {
		cluster func(*testing.T) *clitest.Cluster
		args    []string
		code    int
		wantErr string
	}{
		"no kinds": {func(t *testing.T) *clitest.Cluster { return clitest.New(t, "/api/v1/nodes") }, []string{"status"}, session.CodeNotInstalled, "does not serve windowsinstances"},
		"no right": {func(t *testing.T) *clitest.Cluster { c := fleet(t); c.Deny("GET /apis/" + api.GroupName); return c }, []string{"status"}, session.CodeForbidden,
			"missing permission: list windowsinstances"},
		"no host":         {fleet, []string{"describe", "win-9"}, session.CodeNotFound, `no host "win-9"`},
		"no argument":     {fleet, []string{"describe"}, session.CodeUsage, "requires one host"},
		"two arguments":   {fleet, []string{"status", "win-1"}, session.CodeUsage, "takes no argument"},
		"unknown flag":    {fleet, []string{"status", "--fast"}, session.CodeUsage, "unknown flag"},
		"unknown command": {fleet, []string{"stauts"}, session.CodeUsage, "unknown command"},
		"unknown format":  {fleet, []string{"status", "-o", "xml"}, session.CodeUsage, "use one of json"},
		"no server":       {fleet, []string{"status", "--server", "http://127.0.0.1:1"}, session.CodeUnreachable, "cannot reach the API server"},
		"no context":      {fleet, []string{"status", "--context", "other"}, session.CodeUnreachable, `context "other" does not exist`},
	} {
		t.Run(name, func(t *testing.T) {
			r := test.cluster(t).Run(t, "", test.args...)
			if r.Code != test.code || !strings.Contains(r.Err, test.wantErr) || strings.Count(r.Err, "\n") != 1 || r.Out != "" {
				t.Errorf("exit code %d, want %d; stderr %q, want ...%s...; output %q", r.Code, test.code, r.Err, test.wantErr, r.Out)
			}
		})
	}
}

func TestStatusListsMissingPermissions(t *testing.T) {
	c := fleet(t)
	c.Deny("GET /api/v1/nodes")
	r := c.Run(t, "", "status")
	if r.Code != session.CodeOK || !strings.Contains(r.Out, "missing permission: list nodes") || !strings.Contains(r.Out, "win-3") {
		t.Errorf("exit code %d: %s%s", r.Code, r.Out, r.Err)
	}
}

func TestIncompleteListsAreReported(t *testing.T) {
	c := fleet(t)
	c.Handle("/api/v1/pods", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"kind": "PodList", "apiVersion": "v1", "metadata": {"continue": "next"}, "items": []}`)
	}))
	for _, command := range []string{"status", "check"} {
		if r := c.Run(t, "", command); !strings.Contains(r.Out, "only the first 5000 were read") {
			t.Errorf("%s does not report the incomplete list of pods: %s%s", command, r.Out, r.Err)
		}
	}
}
