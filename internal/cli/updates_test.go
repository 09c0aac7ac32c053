package cli_test

import (
	"encoding/json"
	"net/http"
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

// reportOf returns the report of a host with one pending update and a failed installation.
func reportOf(now time.Time) windowsupdate.Report {
	return windowsupdate.Report{
		Read: now.Add(-10 * time.Hour), Searched: now.Add(-20 * time.Hour), Server: "wsus.example.com", NoSearches: true, Total: 41,
		Pending: []windowsupdate.Update{{
			Title: "2026-11 Cumulative Update (KB5070000)", KBs: []string{"KB5070000"}, Class: windowsupdate.Security, Severity: "Critical",
			Restart: windowsupdate.RestartAlways, Downloaded: true, Deadline: time.Date(2026, 12, 24, 0, 0, 0, 0, time.UTC),
		}, {
			Title: "2024-08 Cumulative Update (KB5041160)", KBs: []string{"KB5041160"}, Class: windowsupdate.Security, Severity: "Critical", Restart: windowsupdate.RestartAlways,
		}},
		History: []windowsupdate.Operation{
			{Date: now.Add(-240 * time.Hour), Title: "2026-11 Cumulative Update (KB5070000)", KB: "KB5070000", Class: windowsupdate.Security,
				Result: windowsupdate.ResultFailed, Code: 0x80070070},
			{Date: now.Add(-72 * time.Hour), Title: "2026-10 Cumulative Update (KB5068787)", KB: "KB5068787", Class: windowsupdate.Security, Result: windowsupdate.ResultSucceeded},
		},
	}
}

func updatesCluster(t *testing.T, now time.Time) *clitest.Cluster {
	t.Helper()
	c := clitest.New(t)
	c.Add(instances, &v1alpha1.WindowsInstance{ObjectMeta: metav1.ObjectMeta{Namespace: "wmco", Name: "another"}})
	for name, summary := range map[string]string{
		"win-1": reportOf(now).Summary(nil).Format(), "win-2": windowsupdate.Report{Read: now, Disabled: true}.Summary(nil).Format(), "win-3": "", "win-4": `{"evil":"` + "\x1b" + `"}`,
	} {
		node := &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelOSStable: "windows"}, Annotations: map[string]string{}},
			Status:     corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{KernelVersion: "10.0.20348.4405"}},
		}
		if summary != "" {
			node.Annotations[api.AnnotationWindowsUpdates] = summary
		}
		if name == "win-2" {
			node.Status.Conditions = []corev1.NodeCondition{{
				Type: api.ConditionUpdatesOverdue, Status: corev1.ConditionTrue, Reason: api.ReasonUpdateServiceDisabled, Message: "service wuauserv is disabled",
			}}
		}
		c.Add("v1/nodes", node)
	}
	serve := func(node string, text []byte) {
		c.Handle("/api/v1/nodes/"+node+"/proxy/logs/", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !strings.HasSuffix(r.URL.Path, "/logs/wicd/windows-updates.json") || text == nil {
				http.NotFound(w, r)
				return
			}
			_, _ = w.Write(text)
		}))
	}
	text, err := json.Marshal(reportOf(now))
	if err != nil {
		t.Fatal(err)
	}
	serve("win-1", text)
	serve("win-3", nil)
	serve("win-4", []byte(`{"read":"\u001b[31m"}`))
	return c
}

func TestUpdatesOfAllNodesAreShown(t *testing.T) {
	c := updatesCluster(t, time.Now())
	r := c.Run(t, "", "updates")
	if r.Code != session.CodeOK || r.Err != "" {
		t.Fatalf("exit code %d: %s", r.Code, r.Err)
	}
	golden(t, "updates.golden", r.Out)
	r = c.Run(t, "", "updates", "-o", "json")
	var all []struct {
		Node, Windows, Overdue, Message string
		Updates                         *windowsupdate.Summary
	}
	if err := json.Unmarshal([]byte(r.Out), &all); err != nil || len(all) != 4 {
		t.Fatalf("the output is %s, %v", r.Out, err)
	}
	if u := all[0]; u.Windows != "20348.4405" || u.Updates == nil || u.Updates.KB != "KB5068787" || *u.Updates.Total != 41 {
		t.Errorf("of the first node, the output has %+v", u)
	}
	if strings.Contains(r.Out, "\x1b") || all[3].Updates != nil || !strings.Contains(all[3].Message, "is invalid") {
		t.Errorf("of a node with an invalid summary, the output has %+v", all[3])
	}
}

func TestSearchNeedsPolicy(t *testing.T) {
	c := updatesCluster(t, time.Now())
	config := &v1alpha1.WindowsConfig{ObjectMeta: metav1.ObjectMeta{Name: api.WindowsConfigName}}
	config.Spec.WindowsUpdates.Policy = v1alpha1.UpdatesUnmanaged
	c.Add(configs, config)
	if r := c.Run(t, "", "updates", "--search", "another"); r.Code != session.CodeFailed || !strings.Contains(r.Err, "Unmanaged") {
		t.Errorf("exit code %d and %q", r.Code, r.Err)
	}
}

func TestUpdatesOfOneNodeAreListed(t *testing.T) {
	now := time.Now()
	c := updatesCluster(t, now)
	r := c.Run(t, "", "updates", "win-1")
	if r.Code != session.CodeOK || r.Err != "" {
		t.Fatalf("exit code %d: %s", r.Code, r.Err)
	}
	dates := strings.NewReplacer(now.Add(-240*time.Hour).UTC().Format(time.DateOnly), "date - 10d", now.Add(-72*time.Hour).UTC().Format(time.DateOnly), "date -  3d")
	golden(t, "updates-node.golden", dates.Replace(r.Out))
	for node, want := range map[string]string{
		"win-3": "has reported no updates", "win-4": "use the version of kubectl windows that the operator has", "": "the name of a host is empty",
	} {
		if r := c.Run(t, "", "updates", node); r.Code == session.CodeOK || !strings.Contains(r.Err, want) || strings.Contains(r.Err, "\x1b") {
			t.Errorf("of node %q, exit code %d and %q, want %q", node, r.Code, r.Err, want)
		}
	}
	config := &v1alpha1.WindowsConfig{ObjectMeta: metav1.ObjectMeta{Name: api.WindowsConfigName}}
	config.Spec.WindowsUpdates = v1alpha1.WindowsUpdatesSpec{Policy: v1alpha1.UpdatesInstall, Approved: []string{"KB5041160"}}
	c.Add(configs, config)
	r = c.Run(t, "", "updates", "win-1")
	golden(t, "updates-node-install.golden", dates.Replace(r.Out))
	for _, args := range [][]string{{"updates", "win-1", "win-2"}, {"updates", "--search"}} {
		if r := c.Run(t, "", args...); r.Code != session.CodeUsage || !strings.Contains(r.Err, "--search") {
			t.Errorf("%q: exit code %d and %q", args, r.Code, r.Err)
		}
	}
}
