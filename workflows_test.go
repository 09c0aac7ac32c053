package wmco_test

import (
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// workflow is what of a workflow of GitHub decides who can change what it makes.
type workflow struct {
	Permissions map[string]string `json:"permissions"`
	Jobs        map[string]struct {
		Permissions map[string]string `json:"permissions"`
		Container   any               `json:"container"`
		Steps       []step            `json:"steps"`
	} `json:"jobs"`
}

type step struct {
	Uses string         `json:"uses"`
	Run  string         `json:"run"`
	With map[string]any `json:"with"`
}

func workflows(t *testing.T) map[string]workflow {
	t.Helper()
	files, err := filepath.Glob(".github/workflows/*")
	if err != nil || len(files) < 4 {
		t.Fatal(files, err)
	}
	all := map[string]workflow{}
	for _, file := range files {
		var w workflow
		if err := yaml.Unmarshal([]byte(read(t, file)), &w); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all[filepath.Base(file)] = w
	}
	return all
}

// TestWorkflowsUseWhatWasLookedAt: a tag of an action can be moved to other code, a commit cannot. What runs in a job cannot use its token
// unless a step hands it over.
func TestWorkflowsUseWhatWasLookedAt(t *testing.T) {
	pinned := regexp.MustCompile(`^[a-z-]+/[a-z-]+@[0-9a-f]{40}$`)
	for file, w := range workflows(t) {
		if len(w.Permissions) != 1 || w.Permissions["contents"] != "read" {
			t.Errorf("%s: the permissions of all jobs are %v, want contents: read", file, w.Permissions)
		}
		for name, job := range w.Jobs {
			for _, s := range job.Steps {
				if s.Uses != "" && !pinned.MatchString(s.Uses) {
					t.Errorf("%s: job %s uses %s, which is no commit", file, name, s.Uses)
				}
				if strings.HasPrefix(s.Uses, "actions/checkout@") && s.With["persist-credentials"] != false {
					t.Errorf("%s: job %s leaves its token in the clone", file, name)
				}
			}
		}
	}
}

// TestAReleaseIsMadeOfNothingThatOthersCouldChange looks at the workflow that publishes.
func TestAReleaseIsMadeOfNothingThatOthersCouldChange(t *testing.T) {
	text := read(t, ".github/workflows/release.yaml")
	for _, never := range []string{"actions/cache", "apt-get", "pull_request", "restore-keys", "workflow_run"} {
		if strings.Contains(text, never) {
			t.Errorf("the workflow has %q", never)
		}
	}
	mayWrite := 0
	for name, job := range workflows(t)["release.yaml"].Jobs {
		writes := slices.Contains(slices.Collect(maps.Values(job.Permissions)), "write")
		if writes {
			mayWrite++
		}
		if image, _ := job.Container.(string); job.Container != nil && (writes || name != "test") && !strings.Contains(image, "@sha256:") {
			t.Errorf("job %s runs in %v, which is no digest", name, job.Container)
		}
		for _, s := range job.Steps {
			if writes && regexp.MustCompile(`make .*\b(check|test|unit|e2e)`).MatchString(s.Run) {
				t.Errorf("job %s may write, and runs tests: %s", name, s.Run)
			}
			if strings.HasPrefix(s.Uses, "actions/setup-go@") && s.With["cache"] != false {
				t.Errorf("job %s restores modules from a cache", name)
			}
		}
	}
	if mayWrite != 1 {
		t.Errorf("%d jobs may write, want one", mayWrite)
	}
	for _, want := range []string{"go mod verify", "actions/attest-build-provenance@", "SIGN=", "diff -r _built _release", "needs: [test, build]"} {
		if !strings.Contains(text, want) {
			t.Errorf("the workflow has no %q", want)
		}
	}
}
