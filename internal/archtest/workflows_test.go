package archtest

import (
	"bytes"
	"errors"
	"go/version"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// workflow has the parts of a GitHub workflow that determine who can change what it builds.
type workflow struct {
	Permissions map[string]string `json:"permissions"`
	Jobs        map[string]struct {
		Permissions map[string]string `json:"permissions"`
		Container   any               `json:"container"`
		Steps       []step            `json:"steps"`
	} `json:"jobs"`
}

type step struct {
	Name string         `json:"name"`
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

// TestWorkflowsPinActions: the tag of an action can be moved to other code, a commit cannot. Programs in a job cannot use its
// token unless a step passes it to them.
func TestWorkflowsPinActions(t *testing.T) {
	inRoot(t)
	pinned := regexp.MustCompile(`^[a-z-]+/[a-z-]+@[0-9a-f]{40}$`)
	for file, w := range workflows(t) {
		if len(w.Permissions) != 1 || w.Permissions["contents"] != "read" {
			t.Errorf("%s: the permissions of all jobs are %v, want contents: read", file, w.Permissions)
		}
		for name, job := range w.Jobs {
			for _, s := range job.Steps {
				if s.Uses != "" && !pinned.MatchString(s.Uses) {
					t.Errorf("%s: job %s uses %s, which is not a commit", file, name, s.Uses)
				}
				if strings.HasPrefix(s.Uses, "actions/checkout@") && s.With["persist-credentials"] != false {
					t.Errorf("%s: job %s leaves its token in the clone", file, name)
				}
			}
		}
	}
}

// TestReleaseUsesOnlyPinnedInputs checks the workflow that publishes.
func TestReleaseUsesOnlyPinnedInputs(t *testing.T) {
	inRoot(t)
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
			t.Errorf("job %s runs in %v, which is not a digest", name, job.Container)
		}
		for _, s := range job.Steps {
			if writes && regexp.MustCompile(`make .*\b(check|test|unit|e2e)`).MatchString(s.Run) {
				t.Errorf("job %s has write permission and runs tests: %s", name, s.Run)
			}
			if strings.HasPrefix(s.Uses, "actions/setup-go@") && s.With["cache"] != false {
				t.Errorf("job %s restores modules from a cache", name)
			}
		}
	}
	if mayWrite != 1 {
		t.Errorf("%d jobs have write permission, want one", mayWrite)
	}
	for _, want := range []string{"mod verify", "actions/attest-build-provenance@", "SIGN=", `diff -r "$RUNNER_TEMP/built" _release`, "needs: [test, build]"} {
		if !strings.Contains(text, want) {
			t.Errorf("the workflow has no %q", want)
		}
	}
}

// inputs returns the inputs of each action that a workflow uses, from its action.yml at that commit. Actions ignore unknown
// inputs.
func inputs() map[string][]string {
	return map[string][]string{
		"actions/checkout@de0fac2e4500dabe0009e67214ff5f5447ce83dd":                {"persist-credentials", "fetch-depth", "ref", "repository", "path"},
		"actions/setup-go@924ae3a1cded613372ab5595356fb5720e22ba16":                {"go-version", "go-version-file", "cache", "cache-dependency-path"},
		"actions/cache@27d5ce7f107fe9357f9df03efb73ab90386fccae":                   {"path", "key", "restore-keys"},
		"actions/upload-artifact@b7c566a772e6b6bfb58ed0dc250532a479d7789f":         {"name", "path", "if-no-files-found", "retention-days"},
		"actions/download-artifact@37930b1c2abaa49bbe596cd826c3c89aef350131":       {"name", "path", "pattern"},
		"actions/attest-build-provenance@a2bbfa25375fe432b6a289bc6b6cd05ecd0c4c32": {"subject-path", "subject-digest", "subject-name", "push-to-registry", "create-storage-record"},
	}
}

func TestActionInputsExist(t *testing.T) {
	inRoot(t)
	known := inputs()
	for file, w := range workflows(t) {
		for name, job := range w.Jobs {
			for _, s := range job.Steps {
				if s.Uses == "" {
					continue
				}
				got, found := known[s.Uses]
				if !found {
					t.Errorf("%s: job %s uses %s, whose inputs are not in this test: read its action.yml", file, name, s.Uses)
				}
				for input := range s.With {
					if found && !slices.Contains(got, input) {
						t.Errorf("%s: job %s passes %s the input %s, which it does not have", file, name, s.Uses, input)
					}
				}
			}
		}
	}
}

// TestPinsAreCheckedNightlyAndBeforeRelease: newer versions and known vulnerabilities appear without a change of the repository.
func TestPinsAreCheckedNightlyAndBeforeRelease(t *testing.T) {
	inRoot(t)
	var nightly []string
	for _, job := range workflows(t)["lab.yaml"].Jobs {
		for _, s := range job.Steps {
			nightly = append(nightly, s.Run)
		}
	}
	for _, target := range []string{"make outdated", "make vulncheck-payload"} {
		if !slices.Contains(nightly, target) {
			t.Errorf("no job of lab.yaml runs %s", target)
		}
		if !strings.Contains(read(t, "RELEASE.md"), "`"+target+"`") {
			t.Errorf("RELEASE.md has no step with %s", target)
		}
	}
}

// TestMakeReturnsExitCodeOfProgram runs the Makefile with a Go command whose programs find something. It shows the exit code of
// go run, too, which is 1 for each failure of a program.
func TestMakeReturnsExitCodeOfProgram(t *testing.T) {
	inRoot(t)
	const fakeGo = `#!/bin/bash
case "$*" in
"build -o bin/ ./hack/outdated") mkdir -p bin && printf '#!/bin/sh\nexit 3\n' >bin/outdated && chmod +x bin/outdated ;;
"run ./payload/build/cmd --programs") echo one.exe && echo two.exe ;;
"tool -modfile=hack/tools/go.mod -n govulncheck") type -p scanner ;;
*) exit 1 ;;
esac
`
	dir := t.TempDir()
	for name, content := range map[string]string{
		"Makefile": read(t, "Makefile"), "go": fakeGo, "scanner": "#!/bin/sh\necho scanned $1 of $2\n[ $2 != one.exe ] || exit 3\n",
	} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o755))
	}
	for target, want := range map[string][]string{
		"outdated":          {"outdated] Error 3"},
		"vulncheck-payload": {"scanned -mode=binary of one.exe", "scanned -mode=binary of two.exe", "vulncheck-payload] Error 3"},
	} {
		command := exec.CommandContext(t.Context(), "make", "-C", dir, target)
		command.Env = slices.DeleteFunc(append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH")), func(v string) bool { return strings.HasPrefix(v, "MAKE") })
		out, err := command.CombinedOutput()
		for _, part := range want {
			if err == nil || !strings.Contains(string(out), part) {
				t.Errorf("make %s (%v) does not print %q:\n%s", target, err, part, out)
			}
		}
	}
}

// TestChangedModulesStopRelease runs the block that compares modules with go.sum, with a go that finds a difference. find -exec and
// -execdir, for example, would succeed whatever the commands return.
func TestChangedModulesStopRelease(t *testing.T) {
	inRoot(t)
	steps := workflows(t)["release.yaml"].Jobs["build"].Steps
	i := slices.IndexFunc(steps, func(s step) bool { return strings.Contains(s.Run, "mod verify") })
	if i < 0 {
		t.Fatal("no block compares the modules with go.sum")
	}
	for status, fails := range map[string]bool{"0": false, "1": true} {
		dir := t.TempDir()
		for name, content := range map[string]string{"go": "#!/bin/sh\nexit " + status + "\n", "go.mod": "module one\n"} {
			must(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o755))
		}
		block := exec.CommandContext(t.Context(), "bash", "-e", "-c", steps[i].Run)
		block.Dir, block.Env = dir, append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
		if out, err := block.CombinedOutput(); (err != nil) != fails {
			t.Errorf("if go mod verify returns %s, the block returns %v: %s", status, err, out)
		}
	}
}

// TestReleaseStartsFromPreviousCatalog runs the block that downloads it, with a gh that has no release, one, or no
// answer.
func TestReleaseStartsFromPreviousCatalog(t *testing.T) {
	inRoot(t)
	const name = "Get the catalog of the last release"
	jobs := workflows(t)["release.yaml"].Jobs
	find := func(job string) string {
		i := slices.IndexFunc(jobs[job].Steps, func(s step) bool { return s.Name == name })
		if i < 0 {
			t.Fatalf("job %s has no step %q", job, name)
		}
		return jobs[job].Steps[i].Run
	}
	block := find("build")
	if block != find("publish") {
		t.Error("the two build jobs download it with different blocks")
	}
	const list, download = `[ "$2" = list ] || exit 2`, `[ "$2" = list ] && echo v0.1.0 && exit; cp "$OLM" "$9"`
	for gh, want := range map[string]string{list: "", download: "schema: olm.package\n", "exit 1": "failed"} {
		dir := t.TempDir()
		archive := filepath.Join(dir, "wmco-0.1.0-olm")
		err := errors.Join(os.MkdirAll(filepath.Join(archive, "catalog"), 0o755),
			os.WriteFile(filepath.Join(archive, "catalog", "catalog.yaml"), []byte("schema: olm.package\n"), 0o600),
			exec.CommandContext(t.Context(), "tar", "-czf", filepath.Join(dir, "olm.tar.gz"), "-C", dir, "wmco-0.1.0-olm").Run(),
			os.WriteFile(filepath.Join(dir, "gh"), []byte("#!/bin/bash\n"+gh+"\n"), 0o755))
		must(t, err)
		variables := filepath.Join(dir, "variables")
		run := exec.CommandContext(t.Context(), "bash", "-e", "-c", block+`
[ ! -s "$GITHUB_ENV" ] || { . "$GITHUB_ENV"; cat "$PREVIOUS"; }`)
		run.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "RUNNER_TEMP="+dir, "GITHUB_ENV="+variables, "GITHUB_REPOSITORY=a/b", "OLM="+filepath.Join(dir, "olm.tar.gz"))
		var failure bytes.Buffer
		run.Stderr = &failure
		got, err := run.Output()
		if err != nil {
			got = []byte("failed")
		}
		if string(got) != want {
			t.Errorf("gh script %q: got %q (%v: %s), want %q", gh, got, err, &failure, want)
		}
	}
}

// TestReleaseGoVersionSatisfiesModules compares the workflow's version of Go with the versions that the modules need: setup-go
// prevents Go from downloading a newer one.
func TestReleaseGoVersionSatisfiesModules(t *testing.T) {
	inRoot(t)
	var used []string
	for _, job := range workflows(t)["release.yaml"].Jobs {
		for _, s := range job.Steps {
			if strings.HasPrefix(s.Uses, "actions/setup-go@") {
				exact, _ := s.With["go-version"].(string)
				used = append(used, exact)
			}
		}
	}
	if len(used) != 2 || used[0] != used[1] || len(strings.Split(used[0], ".")) != 3 {
		t.Fatalf("the versions of Go are %q, want the same patch version in both build jobs", used)
	}
	files, err := exec.CommandContext(t.Context(), "git", "ls-files", "*go.mod").Output()
	must(t, err)
	for file := range strings.Lines(string(files)) {
		file = strings.TrimSpace(file)
		needs := regexp.MustCompile(`(?m)^go (\S+)$`).FindStringSubmatch(read(t, file))
		if needs == nil || version.Compare("go"+needs[1], "go"+used[0]) > 0 {
			t.Errorf("%s needs Go %v, the workflow has %s", file, needs, used[0])
		}
	}
}
