package archtest

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestWindowsWorkflowTestsWindowsSSHServer checks the workflow that runs the program on Windows: with Windows' own SSH server and both
// of its shells, with the whole join last, because it can disconnect the runner, and with all diagnostics of a failure uploaded.
func TestWindowsWorkflowTestsWindowsSSHServer(t *testing.T) {
	inRoot(t)
	const file = ".github/workflows/windows.yaml"
	var w struct {
		Jobs map[string]struct {
			Container any `json:"container"`
			Strategy  struct {
				Matrix map[string][]string `json:"matrix"`
			} `json:"strategy"`
			Steps []step `json:"steps"`
		} `json:"jobs"`
	}
	must(t, yaml.Unmarshal([]byte(read(t, file)), &w))
	if image, _ := w.Jobs["build"].Container.(string); !regexp.MustCompile(`^golang:\d+\.\d+\.\d+-`).MatchString(image) {
		t.Errorf("the programs are built in %q, which is no patch version of Go", image)
	}
	job := w.Jobs["acceptance"]
	if m := job.Strategy.Matrix; len(m["windows"]) < 2 || !slices.Equal(m["shell"], []string{"cmd", "powershell"}) {
		t.Errorf("the matrix is %v", m)
	}
	at := func(what string) int {
		t.Helper()
		i := slices.IndexFunc(job.Steps, func(s step) bool { return strings.Contains(s.Run, what) })
		if i < 0 {
			t.Fatalf("%s: no step has %q", file, what)
		}
		return i
	}
	if server, first, join := at("Start-Service sshd"), at(`wmco-acceptance.exe --login-allowed --updates-allowed --out .`), at("--join"); server > first || first > join || join > at("excludedportrange") {
		t.Errorf("the order is: server %d, run %d, join %d, collection %d", server, first, join, at("excludedportrange"))
	}
	uploaded := ""
	for _, s := range job.Steps {
		if path, _ := s.With["path"].(string); strings.HasPrefix(s.Uses, "actions/upload-artifact@") {
			uploaded += path
		}
	}
	for _, want := range []string{"report.json", "wmco-acceptance.zip", "whole-join", "windows"} {
		if !slices.Contains(strings.Fields(uploaded), want) {
			t.Errorf("%s is not uploaded", want)
		}
	}
}
