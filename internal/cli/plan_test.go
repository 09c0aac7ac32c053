package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/cli/clitest"
	"github.com/windows-machine-config/wmco/internal/cli/session"
	"github.com/windows-machine-config/wmco/internal/shared/windowsupdate"
)

// upgrading returns a fleet whose content is on every host: one host upgrades, one follows, one is paused.
func upgrading(t *testing.T) *clitest.Cluster {
	c := fleet(t)
	for _, name := range []string{"win-1", "win-4", "win-5"} {
		i := instance(name, "10.1.42."+name[4:], api.ReasonReady, "")
		i.Status.Conditions = append(i.Status.Conditions, condition(api.ConditionConfigured, api.ReasonConfigured))
		i.Status.Payload = v1alpha1.PayloadStatus{Staged: "122778d0a3e1", Desired: "122778d0a3e1"}
		i.Spec.Paused = name == "win-5"
		c.Add(instances, i)
		c.Add("v1/nodes", node(name))
	}
	return c
}

func TestPlans(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.yaml")
	const text = "apiVersion: " + api.GroupName + "/v1alpha1\nkind: WindowsConfig\nmetadata: {name: cluster}\nspec:\n  rollout: {maxUnavailable: 2}\n  taint: os=windows:NoSchedule\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, args := range map[string][]string{
		"plan": {"plan"}, "plan-remove": {"plan", "--remove", "win-1"}, "plan-upgrade": {"plan", "--upgrade", "--disruption", "Restart", "--each", "1m"},
		"plan-file": {"plan", "-f", file}, "plan-json": {"plan", "-o", "json"},
	} {
		t.Run(name, func(t *testing.T) {
			r := upgrading(t).Run(t, "", args...)
			if r.Code != session.CodeOK {
				t.Fatalf("exit code %d: %s", r.Code, r.Err)
			}
			golden(t, name+".golden", r.Out)
		})
	}
}

// TestPlanInstallsUpdatesInRings plans with the file that docs/windows-updates.md describes, while the rollout is paused.
func TestPlanInstallsUpdatesInRings(t *testing.T) {
	file := filepath.Join(t.TempDir(), "windowsconfig.yaml")
	const text = "apiVersion: " + api.GroupName + "/v1alpha1\nkind: WindowsConfig\nmetadata: {name: cluster}\nspec:\n  rollout: {paused: false}\n  windowsUpdates:\n    policy: Install\n" +
		"    rings:\n    - {name: early, nodeSelector: {matchLabels: {updates: early}}}\n    - {name: late, nodeSelector: {matchLabels: {updates: late}}, deferDays: 7}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c := empty(t)
	config := &v1alpha1.WindowsConfig{ObjectMeta: metav1.ObjectMeta{Name: api.WindowsConfigName}}
	config.Spec.Rollout.Paused, config.Spec.WindowsUpdates.Policy = true, v1alpha1.UpdatesInstall
	config.Status.Rollout = &v1alpha1.RolloutStatus{Version: "1.0.0-3f9a2c1"}
	c.Add(configs, config)
	published := time.Date(2026, 1, 13, 18, 0, 0, 0, time.UTC)
	for name, ring := range map[string]string{"win-1": "late", "win-2": "early", "win-3": ""} {
		i := instance(name, "10.1.42."+name[4:], api.ReasonReady, "")
		i.Status.Conditions = append(i.Status.Conditions, condition(api.ConditionConfigured, api.ReasonConfigured))
		c.Add(instances, i)
		n := node(name)
		n.Labels = map[string]string{corev1.LabelOSStable: "windows", "updates": ring}
		n.Annotations[api.AnnotationWindowsUpdates] = windowsupdate.Summary{Offers: []windowsupdate.Offer{{KB: "KB5070001", Published: published}}}.Format()
		c.Add("v1/nodes", n)
	}
	r := c.Run(t, "", "plan", "-f", file)
	if r.Code != session.CodeOK {
		t.Fatalf("exit code %d: %s", r.Code, r.Err)
	}
	golden(t, "plan-updates.golden", r.Out)
}

func TestInvalidPlansAreRejected(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	for name, test := range map[string]struct {
		args    []string
		code    int
		wantErr string
	}{
		"no file":       {[]string{"-f", "missing"}, session.CodeUsage, "no such file"},
		"not YAML":      {[]string{"-f", file("a", "{")}, session.CodeUsage, "is not a WindowsConfig"},
		"unknown field": {[]string{"-f", file("b", "kind: WindowsConfig\nspec: {rolout: {}}")}, session.CodeUsage, "rolout"},
		"another kind":  {[]string{"-f", file("c", "kind: Node\nmetadata: {name: cluster}")}, session.CodeUsage, "want WindowsConfig"},
		"unknown host":  {[]string{"--remove", "win-9"}, session.CodeNotFound, "win-9"},
		"no disruption": {[]string{"--disruption", "Some"}, session.CodeUsage, "use one of"},
		"no right":      {nil, session.CodeForbidden, "missing permission: list nodes"},
	} {
		t.Run(name, func(t *testing.T) {
			c := upgrading(t)
			if name == "no right" {
				c.Deny("GET /api/v1/nodes")
			}
			r := c.Run(t, "", append([]string{"plan"}, test.args...)...)
			if r.Code != test.code || !strings.Contains(r.Err, test.wantErr) {
				t.Errorf("exit code %d, want %d; stderr %q, want ...%s...", r.Code, test.code, r.Err, test.wantErr)
			}
		})
	}
}
