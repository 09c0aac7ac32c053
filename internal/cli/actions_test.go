package cli_test

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/cli/clitest"
	"github.com/windows-machine-config/wmco/internal/cli/session"
)

const ours = "/namespaces/" + api.DefaultNamespace + "/"

func instancePath(name string) string {
	return "/apis/" + api.GroupName + "/v1alpha1" + ours + "windowsinstances/" + name
}

// has reports whether an object, as JSON, contains text.
func has(t *testing.T, c *clitest.Cluster, path, text string) bool {
	t.Helper()
	data, err := json.Marshal(c.Object(path))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Contains(string(data), text)
}

// clusterWithActions returns a cluster with a failed host, a leaving host, a host of a Machine, and an entry.
func clusterWithActions(t *testing.T) *clitest.Cluster {
	c := fleet(t)
	failed := instance("win-4", "10.1.42.4", api.ReasonReady, "")
	failed.Status.Failure = &v1alpha1.Failure{Action: v1alpha1.ActionUpgrade, Version: "1.1.0-122778d", Message: "the kubelet stopped", At: at(0)}
	c.Add(instances, failed)
	leaving := instance("win-5", "10.1.42.5", api.ReasonConnectionTimeout, "")
	leaving.DeletionTimestamp, leaving.Finalizers = new(metav1.Time), []string{api.Finalizer}
	*leaving.DeletionTimestamp = at(0)
	c.Add(instances, leaving)
	fromMachine := instance("win-6", "10.1.42.6", api.ReasonReady, "")
	fromMachine.Annotations = map[string]string{api.AnnotationMachine: "openshift-machine-api/win-6"}
	c.Add(instances, fromMachine)
	entry := instance("10.1.42.7", "10.1.42.7", api.ReasonReady, "")
	entry.Labels = map[string]string{api.LabelSource: api.SourceConfigMap}
	c.Add(instances, entry)
	c.Add("v1/configmaps", &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: api.InstancesConfigMap, Namespace: api.DefaultNamespace},
		Data: map[string]string{"10.1.42.7": "username=Administrator", "10.1.42.8": "username=x"}})
	return c
}

func TestActionsChangeObjects(t *testing.T) {
	const (
		entries = "/api/v1" + ours + "configmaps/" + api.InstancesConfigMap
		config  = "/apis/" + configs + "/cluster"
	)
	for name, test := range map[string]struct {
		args  []string
		input string
		path  string
		text  string // expected in the object afterwards; with ! in front, must be absent
	}{
		"pause":              {args: []string{"pause", "win-1"}, path: instancePath("win-1"), text: `"paused":true`},
		"pause by address":   {args: []string{"pause", "10.1.42.2"}, path: instancePath("win-2"), text: `"paused":true`},
		"pause all":          {args: []string{"pause", "--all"}, path: config, text: `"paused":true`},
		"resume all":         {args: []string{"resume", "--all"}, path: config, text: `!"paused":true`},
		"retry":              {args: []string{"retry", "win-4"}, path: instancePath("win-4"), text: `"` + api.AnnotationRetry + `":"true"`},
		"reboot, confirmed":  {args: []string{"reboot", "win-1"}, input: "y\n", path: "/api/v1/nodes/win-1", text: api.AnnotationReboot},
		"search for updates": {args: []string{"updates", "--search", "win-1"}, path: "/api/v1/nodes/win-1", text: api.AnnotationSearchUpdates},
		"reboot with --yes":  {args: []string{"reboot", "win-1", "-y"}, path: "/api/v1/nodes/win-1", text: api.AnnotationReboot},
		"release":            {args: []string{"release", "win-5", "-y"}, path: instancePath("win-5"), text: `"` + api.AnnotationRelease + `":"true"`},
		"add an entry":       {args: []string{"add", "10.1.42.9", "--wait=false"}, path: entries, text: `"10.1.42.9":"username=Administrator"`},
		"entries stay":       {args: []string{"add", "10.1.42.9", "-u", "x", "--wait=false"}, path: entries, text: `"10.1.42.8":"username=x"`},
		"add an instance":    {args: []string{"add", "10.1.42.9", "--port", "2222", "--name", "win-9", "--wait=false"}, path: instancePath("win-9"), text: `"port":2222`},
		"remove an entry":    {args: []string{"remove", "10.1.42.7", "-y", "--wait=false"}, path: entries, text: "!10.1.42.7"},
		"remove an instance": {args: []string{"remove", "win-1", "-y"}, path: instancePath("win-1"), text: "!win-1"},
	} {
		t.Run(name, func(t *testing.T) {
			c := clusterWithActions(t)
			r := c.Run(t, test.input, test.args...)
			if r.Code != session.CodeOK || r.Out == "" {
				t.Fatalf("exit code %d: %s%s", r.Code, r.Out, r.Err)
			}
			text, absent := strings.CutPrefix(test.text, "!")
			if has(t, c, test.path, text) == absent {
				data, _ := json.Marshal(c.Object(test.path))
				t.Errorf("the object is %s, want %s", data, test.text)
			}
		})
	}
}

func TestInvalidActionsAreRejected(t *testing.T) {
	for name, test := range map[string]struct {
		args    []string
		input   string
		code    int
		wantErr string
	}{
		"nothing to pause":    {[]string{"pause"}, "", session.CodeUsage, "requires either hosts or --all"},
		"host and all":        {[]string{"resume", "win-1", "--all"}, "", session.CodeUsage, "requires either hosts or --all"},
		"nothing failed":      {[]string{"retry", "win-1"}, "", session.CodeFailed, "host win-1 has no failed action"},
		"no node":             {[]string{"reboot", "win-3", "-y"}, "", session.CodeFailed, "no Node yet"},
		"not leaving":         {[]string{"release", "win-1", "-y"}, "", session.CodeFailed, "kubectl windows remove win-1 first"},
		"refused":             {[]string{"reboot", "win-1"}, "n\n", session.CodeFailed, "not confirmed"},
		"no answer":           {[]string{"reboot", "win-1"}, "", session.CodeUsage, "--yes"},
		"known host":          {[]string{"add", "10.1.42.1", "--wait=false"}, "", session.CodeFailed, "host 10.1.42.1 already exists"},
		"of a Machine":        {[]string{"remove", "win-6", "-y"}, "", session.CodeFailed, "scale down its MachineSet"},
		"unknown":             {[]string{"remove", "win-9", "-y"}, "", session.CodeNotFound, `no host "win-9"`},
		"two names":           {[]string{"add", "10.1.42.9", "10.1.42.10", "--name", "x"}, "", session.CodeUsage, "only one"},
		"it does not join":    {[]string{"add", "10.1.42.8", "--timeout", "10ms"}, "", session.CodeTimeout, "timed out after 10ms"},
		"it does not leave":   {[]string{"remove", "win-5", "-y", "--timeout", "10ms"}, "", session.CodeTimeout, "win-5 is Leaving"},
		"reboot, not allowed": {[]string{"reboot", "win-1", "-y"}, "", session.CodeForbidden, "missing permission: patch"},
	} {
		t.Run(name, func(t *testing.T) {
			c := clusterWithActions(t)
			if name == "reboot, not allowed" {
				c.Deny("PATCH /api/v1/nodes")
			}
			r := c.Run(t, test.input, test.args...)
			if r.Code != test.code || !strings.Contains(r.Err, test.wantErr) {
				t.Errorf("exit code %d, want %d; stderr %q, want ...%s...", r.Code, test.code, r.Err, test.wantErr)
			}
		})
	}
}
