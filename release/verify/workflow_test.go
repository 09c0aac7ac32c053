package verify_test

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// skipMarker is the comment that excludes a block from the dry run; the reason follows it.
const skipMarker = "# not in the dry run: "

// workflow has the parts of a GitHub workflow that the dry run follows.
type workflow struct {
	Env  map[string]string `yaml:"env"`
	Jobs map[string]job    `yaml:"jobs"`
}

type job struct {
	Needs []string          `yaml:"needs"`
	Env   map[string]string `yaml:"env"`
	Steps []step            `yaml:"steps"`
}

type step struct {
	Name string            `yaml:"name"`
	ID   string            `yaml:"id"`
	If   string            `yaml:"if"`
	Uses string            `yaml:"uses"`
	Run  yaml.Node         `yaml:"run"`
	With map[string]string `yaml:"with"`
	Env  map[string]string `yaml:"env"`
}

func (s step) String() string {
	first, _, _ := strings.Cut(s.Run.Value, "\n")
	for _, name := range []string{s.Name, s.Uses, first} {
		if name != "" {
			return name
		}
	}
	return "an empty step"
}

func readWorkflow(t *testing.T, name string) (w workflow) {
	t.Helper()
	text, err := os.ReadFile(name)
	must(t, err)
	must(t, yaml.Unmarshal(text, &w))
	return w
}

// order returns the names of the jobs, each after those that it needs.
func (w workflow) order(t *testing.T) (names []string) {
	t.Helper()
	for len(names) < len(w.Jobs) {
		before := len(names)
		for _, name := range slices.Sorted(maps.Keys(w.Jobs)) {
			ready := !slices.ContainsFunc(w.Jobs[name].Needs, func(need string) bool { return !slices.Contains(names, need) })
			if ready && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
		if len(names) == before {
			t.Fatalf("the jobs other than %q need jobs that do not exist, or each other", names)
		}
	}
	return names
}

// run is a job on its own machine: a folder with the clone, and a home.
type run struct {
	*runner
	clone, home, temp string
	job               job
	outputs           map[string]string // "steps.<id>.outputs.<name>"
	variables         []string          // set by blocks for those after them
}

// runner runs jobs in place of GitHub.
type runner struct {
	workflow workflow
	// values are the values of expressions, as in github.actor.
	values map[string]string
	// env has the variables of all steps.
	env []string
	// artifacts is the folder of files that jobs pass to each other, by name.
	artifacts string
	// attest is called with the inputs of an attestation step.
	attest func(t *testing.T, clone string, with map[string]string)
}

// runJob runs the steps of a job in a clone.
func (r *runner) runJob(t *testing.T, name, clone string) {
	t.Helper()
	current := &run{runner: r, clone: clone, home: t.TempDir(), temp: t.TempDir(), job: r.workflow.Jobs[name], outputs: map[string]string{}}
	for _, s := range current.job.Steps {
		t.Logf("%s: %s", name, s)
		if s.If != "" && s.If != "always()" {
			t.Fatalf("the dry run does not know the condition %q", s.If)
		}
		if s.Uses != "" {
			current.use(t, s)
			continue
		}
		if _, reason, found := strings.Cut(s.Run.LineComment, skipMarker); found {
			t.Logf("SKIPPED: %s: %s", s.Run.Value, reason)
			continue
		}
		current.runBlock(t, s)
		if t.Failed() {
			t.FailNow()
		}
	}
}

// expand evaluates the expressions of a text. Expressions that the dry run does not know fail the test.
func (r *run) expand(t *testing.T, text string) string {
	t.Helper()
	return regexp.MustCompile(`\$\{\{ *([^}]*?) *\}\}`).ReplaceAllStringFunc(text, func(expression string) string {
		key := strings.Trim(expression, "${} ")
		for _, known := range []map[string]string{r.values, r.outputs, {"runner.temp": r.temp, "github.workspace": r.clone}} {
			if value, found := known[key]; found {
				return value
			}
		}
		t.Fatalf("the dry run does not know the expression %s", expression)
		return ""
	})
}

// runBlock runs a block as GitHub does: bash stops at the first failing command, text in GITHUB_OUTPUT becomes the outputs of the step, and
// text in GITHUB_ENV becomes variables of later blocks.
func (r *run) runBlock(t *testing.T, s step) {
	t.Helper()
	script, output, variables := filepath.Join(r.temp, "block.sh"), filepath.Join(r.temp, "output"), filepath.Join(r.temp, "variables")
	for name, content := range map[string]string{script: r.expand(t, s.Run.Value), output: "", variables: ""} {
		must(t, os.WriteFile(name, []byte(content), 0o600))
	}
	command := exec.CommandContext(t.Context(), "bash", "-e", script)
	command.Dir = r.clone
	command.Env = append(slices.Clone(r.env), "HOME="+r.home, "RUNNER_TEMP="+r.temp, "GITHUB_WORKSPACE="+r.clone, "GITHUB_OUTPUT="+output, "GITHUB_ENV="+variables)
	command.Env = append(command.Env, r.variables...)
	for _, variables := range []map[string]string{r.workflow.Env, r.job.Env, s.Env} {
		for _, name := range slices.Sorted(maps.Keys(variables)) {
			command.Env = append(command.Env, name+"="+r.expand(t, variables[name]))
		}
	}
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", s, err, out[max(0, len(out)-8000):])
	}
	for _, line := range linesOf(t, output) {
		name, value, _ := strings.Cut(line, "=")
		r.outputs[fmt.Sprintf("steps.%s.outputs.%s", s.ID, name)] = value
	}
	r.variables = append(r.variables, linesOf(t, variables)...)
}

func linesOf(t *testing.T, file string) (lines []string) {
	t.Helper()
	text, err := os.ReadFile(file)
	must(t, err)
	for line := range strings.Lines(string(text)) {
		lines = append(lines, strings.TrimSpace(line))
	}
	return lines
}

// use simulates an action.
func (r *run) use(t *testing.T, s step) {
	t.Helper()
	with := map[string]string{}
	for name, value := range s.With {
		with[name] = r.expand(t, value)
	}
	action, _, _ := strings.Cut(s.Uses, "@")
	switch action {
	case "actions/checkout", "actions/setup-go": // the clone and Go exist already
	case "actions/upload-artifact":
		mustCopy(t, filepath.Join(r.clone, with["path"]), filepath.Join(r.artifacts, with["name"]))
	case "actions/download-artifact":
		to := with["path"]
		if !filepath.IsAbs(to) {
			to = filepath.Join(r.clone, to)
		}
		mustCopy(t, filepath.Join(r.artifacts, with["name"]), to)
	case "actions/attest-build-provenance":
		if _, err := os.Stat(filepath.Join(r.home, ".docker", "config.json")); with["push-to-registry"] == "true" && err != nil {
			t.Errorf("the action reads registry credentials from this file only: %v", err)
		}
		r.attest(t, r.clone, with)
	default:
		t.Fatalf("the dry run does not know the action %s", action)
	}
}

func mustCopy(t *testing.T, from, to string) {
	t.Helper()
	must(t, os.CopyFS(to, os.DirFS(from)))
}

// command runs a program in a folder and returns what it prints.
func command(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), name, args...)
	c.Dir, c.Env = dir, env
	var stderr bytes.Buffer
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, out, stderr.Bytes())
	}
	return strings.TrimSpace(string(out))
}
