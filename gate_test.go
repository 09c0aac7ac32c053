package wmco_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestARunSaysWhatItsStepsTook runs steps by hack/run.sh as the Makefile does: some that pass, one that fails, one that takes too long.
func TestARunSaysWhatItsStepsTook(t *testing.T) {
	for _, test := range []struct {
		name    string
		targets []string
		limit   string // minutes
		status  int
		says    []string
		silent  string // what must not be said
	}{
		{"all pass", []string{"quick", "--", "later"}, "", 0, []string{"quick             | here I am", "quick passed", "later passed"}, "FAILED"},
		{"one fails", []string{"quick", "broken", "--", "later"}, "", 2,
			[]string{"quick passed", "broken FAILED", "what failed in broken:", "--- FAIL: TestOfSomething"}, "later"},
		{"one takes too long", []string{"quick", "slow", "--", "later"}, "0.05", 124,
			[]string{"STOPPED: the run was not done after 0.05 minutes. Running were: slow", "quick passed", "slow was running"}, "later"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			command := exec.Command(filepath.Join(copyOfRun(t), "run.sh"), test.targets...)
			command.Env = append(os.Environ(), "WMCO_RUN=", "WMCO_SPEED=1", "WMCO_LIMIT="+test.limit)
			out, err := command.CombinedOutput()
			status := 0
			if exit := (&exec.ExitError{}); errors.As(err, &exit) {
				status = exit.ExitCode()
			} else if err != nil {
				t.Fatal(err)
			}
			if status != test.status {
				t.Errorf("the status is %d, want %d", status, test.status)
			}
			said := string(out) + outcomes(string(out))
			for _, part := range test.says {
				if !strings.Contains(said, part) {
					t.Errorf("it does not say %q", part)
				}
			}
			if test.silent != "" && strings.Contains(said, test.silent) {
				t.Errorf("it says %q", test.silent)
			}
			if t.Failed() {
				t.Logf("it says:\n%s", out)
			}
		})
	}
}

// copyOfRun is a folder with the scripts, below one with a Makefile whose steps are known.
func copyOfRun(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	hack := filepath.Join(dir, "hack")
	if err := os.Mkdir(hack, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"run.sh", "step.sh"} {
		script, err := os.ReadFile(filepath.Join("hack", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(hack, name), script, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	const makefile = `
quick:
	@hack/step.sh quick 10 echo here I am
later:
	@hack/step.sh later 10 true
slow:
	@hack/step.sh slow 10 sleep 60
broken:
	@hack/step.sh broken 10 bash -c 'echo "--- FAIL: TestOfSomething (1.00s)"; echo much else; exit 1'
`
	if err := os.WriteFile(filepath.Join(dir, "Makefile"), []byte(makefile), 0o600); err != nil {
		t.Fatal(err)
	}
	return hack
}

// outcomes are the first and the last column of the table, as in "quick passed".
func outcomes(output string) (lines string) {
	for line := range strings.Lines(output) {
		if fields := strings.Fields(line); len(fields) >= 5 {
			lines += fields[0] + " " + strings.Join(fields[4:], " ") + "\n"
		}
	}
	return lines
}
