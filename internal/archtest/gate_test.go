package archtest

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestRunReportsStepDurations runs steps with hack/run.sh as the Makefile does: some that pass, one that fails, one that takes too
// long.
func TestRunReportsStepDurations(t *testing.T) {
	inRoot(t)
	for _, test := range []struct {
		name    string
		targets []string
		limit   string // minutes
		status  int
		want    []string
		absent  string // must not be in the output
	}{
		{"all pass", []string{"quick", "--", "later"}, "", 0, []string{"quick             | here I am", "quick passed", "later passed"}, "FAILED"},
		{"tests fail", []string{"quick", "broken", "--", "later"}, "", 2,
			[]string{"quick passed", "broken FAILED", "what failed in broken:\n--- FAIL: TestBad (1.00s)\n    bad_test.go:7: it is bad\nFAIL\n\nstep"}, "later"},
		{"something else fails", []string{"missing"}, "", 2, []string{"missing FAILED", "what failed in missing:\nno such thing\n"}, ""},
		{"one takes too long", []string{"quick", "slow", "--", "later"}, "0.05", 124,
			[]string{"STOPPED: the run did not finish within 0.05 minutes. Running steps: slow", "quick passed", "slow was running"}, "later"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			command := exec.Command(filepath.Join(linkedRun(t), "run.sh"), test.targets...)
			command.Env = append(os.Environ(), "WMCO_RUN=", "WMCO_SPEED=1", "WMCO_LIMIT="+test.limit)
			out, err := command.CombinedOutput()
			status := 0
			if exit := (&exec.ExitError{}); errors.As(err, &exit) {
				status = exit.ExitCode()
			} else if err != nil {
				t.Fatal(err)
			}
			if status != test.status {
				t.Errorf("exit status %d, want %d", status, test.status)
			}
			reported := string(out) + outcomes(string(out))
			for _, part := range test.want {
				if !strings.Contains(reported, part) {
					t.Errorf("missing in the output: %q", part)
				}
			}
			if test.absent != "" && strings.Contains(reported, test.absent) {
				t.Errorf("unexpected output: %q", test.absent)
			}
			if t.Failed() {
				t.Logf("output:\n%s", out)
			}
		})
	}
}

// linkedRun returns a folder with the scripts, below one with a Makefile whose steps are known.
func linkedRun(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	hack := filepath.Join(dir, "hack")
	must(t, os.Mkdir(hack, 0o700))
	for _, name := range []string{"run.sh", "step.sh", "failures.awk"} {
		script, err := filepath.Abs(filepath.Join("hack", name))
		must(t, err)
		// A copy fails to start ("text file busy") while a test that forks concurrently holds its descriptor open.
		must(t, os.Symlink(script, filepath.Join(hack, name)))
	}
	const makefile = `
quick:
	@hack/step.sh quick 10 echo here I am
later:
	@hack/step.sh later 10 true
slow:
	@hack/step.sh slow 10 sleep 60
broken:
	@hack/step.sh broken 10 bash -c 'cat output; exit 1'
missing:
	@hack/step.sh missing 10 bash -c 'echo no such thing; exit 1'
`
	const output = `=== RUN   TestGood
=== PAUSE TestGood
=== RUN   TestBad
=== CONT  TestGood
    good_test.go:3: it is good
=== NAME  TestBad
    bad_test.go:7: it is bad
the log of a whole cluster
--- PASS: TestGood (1.00s)
--- FAIL: TestBad (1.00s)
FAIL
`
	must(t, os.WriteFile(filepath.Join(dir, "output"), []byte(output), 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "Makefile"), []byte(makefile), 0o600))
	return hack
}

// TestCoreTestsExist checks that each test that the Makefile names for make e2e-core exists: go test silently ignores missing ones.
func TestCoreTestsExist(t *testing.T) {
	inRoot(t)
	core := regexp.MustCompile(`(?m)^CORE := \^Test\((.*)\)\$\$$`).FindStringSubmatch(read(t, "Makefile"))
	if core == nil {
		t.Fatal("the Makefile has no line CORE := ^Test(...)$$")
	}
	for name := range strings.SplitSeq(core[1], "|") {
		if !hasFunction(t, "lab/suites/e2e", "Test"+name) {
			t.Errorf("lab/suites/e2e has no Test%s", name)
		}
	}
}

// TestEachLabStepIsInShard: if a step of make e2e is in no shard, neither of the two machines that share it runs the
// step.
func TestEachLabStepIsInShard(t *testing.T) {
	inRoot(t)
	makefile := read(t, "Makefile")
	var shards []string
	for _, line := range regexp.MustCompile(`(?m)^E2E_\d := (.*)$`).FindAllStringSubmatch(makefile, -1) {
		shards = append(shards, strings.Fields(line[1])...)
	}
	elsewhere := []string{"e2e-build", "e2e-build-core", "e2e-core", "e2e-core-tests", "e2e-more-tests", "e2e-ovn", "e2e-ovn-tests"}
	for _, target := range regexp.MustCompile(`(?m)^(e2e-[a-z-]+):`).FindAllStringSubmatch(makefile, -1) {
		if !slices.Contains(elsewhere, target[1]) && !slices.Contains(shards, target[1]) {
			t.Errorf("%s is in no shard", target[1])
		}
	}
	for i, step := range shards {
		if slices.Contains(shards[:i], step) {
			t.Errorf("%s is in a shard twice", step)
		}
	}
	if len(shards) == 0 {
		t.Error("the Makefile has no shards")
	}
}

// TestEachLabTestIsRun: go test runs only the packages that a step names, so a forgotten one would not run.
func TestEachLabTestIsRun(t *testing.T) {
	inRoot(t)
	makefile := read(t, "Makefile")
	seen := map[string]bool{}
	err := filepath.WalkDir("lab", func(file string, _ os.DirEntry, err error) error {
		dir, isTest := filepath.Dir(file), strings.HasSuffix(file, "_test.go")
		if err != nil || !isTest || seen[dir] {
			return err
		}
		seen[dir] = true
		name := strings.TrimPrefix(dir, "lab/")
		named := name
		for above := name; above != "."; above = filepath.Dir(above) {
			named += "|" + above + `/\.\.\.`
		}
		run := regexp.MustCompile(`(?m) \./(?:` + named + `)(?:[ ';]|$)|for m in (?:[^ ;]+ )*` + name + `[ ;]`)
		if dir != "lab" && !run.MatchString(makefile) {
			t.Errorf("no step of the Makefile runs the tests of %s", dir)
		}
		return nil
	})
	if err != nil || len(seen) < 20 {
		t.Errorf("%d packages of the lab have tests (%v)", len(seen), err)
	}
}

// outcomes returns the first and the last column of the table, as in "quick passed".
func outcomes(output string) (lines string) {
	for line := range strings.Lines(output) {
		if fields := strings.Fields(line); len(fields) >= 5 {
			lines += fields[0] + " " + strings.Join(fields[4:], " ") + "\n"
		}
	}
	return lines
}

// TestMakeRejectsOVNTestsWithoutPrograms: their tests would be skipped, and make would pass without having run one.
func TestMakeRejectsOVNTestsWithoutPrograms(t *testing.T) {
	inRoot(t)
	for _, args := range [][]string{{}, {"OVNKUBE=/bin/true"}, {"OVNKUBE_IDENTITY=/bin/true"}} {
		command := exec.Command("make", append([]string{"-n", "e2e-ovn"}, args...)...)
		command.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "WMCO_OVNKUBE") || strings.HasPrefix(v, "MAKE") })
		if out, err := command.CombinedOutput(); err == nil || !strings.Contains(string(out), "make e2e-ovn needs") {
			t.Errorf("make e2e-ovn %q: %v\n%s", args, err, out)
		}
	}
}
