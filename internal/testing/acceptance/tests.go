package acceptance

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"
)

// testsTimeout limits a test program. It is below the time of the line that first needs it (probeTimeout). One of the tests waits for services that
// Windows restarts; eight minutes were not enough on Wine on a busy machine.
const testsTimeout = 12 * time.Minute

// The program with the contract tests that lines name. Its test cleanUpArgument removes what an interrupted run of tests left; with cleanUpOnly in
// the environment, it does nothing else.
const (
	contractTests   = "win"
	testSuffix      = ".test"
	testsFolder     = "tests"
	cleanUpFolder   = "cleanup"
	cleanUpArgument = "-test.run=^TestKilledRunLeftoversAreRemoved$"
	cleanUpOnly     = "WICD_TEST_CLEAN_UP"
)

// TestResult is the result of one test.
type TestResult struct {
	// Name starts with the name of the test program: win/TestX/Case.
	Name string `json:"name"`
	// Result is passed, failed or skipped.
	Result string `json:"result"`
	// Output is the output of a test that did not pass.
	Output string `json:"output,omitempty"`
}

const (
	passedTest  = "passed"
	failedTest  = "failed"
	skippedTest = "skipped"
)

// runTests runs all test programs and stores their results. A failing program is not an error.
func (s *session) runTests(ctx context.Context) error {
	s.tests = []TestResult{}
	folder, err := s.folder(ctx, testsFolder) // removed after the changes of the tests are undone
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(s.Programs)) {
		name, isTest := strings.CutSuffix(name, testSuffix)
		if !isTest {
			continue
		}
		var output []byte
		var failure error
		err := s.change(change{kindTests, name}, func() error {
			output, failure = s.runTestsOf(ctx, name, folder, "-test.v", "-test.timeout="+testsTimeout.String())
			return nil
		})
		if err != nil {
			return err
		}
		results := parseTests(name, output)
		if failure != nil && !slices.ContainsFunc(results, func(r TestResult) bool { return r.Result == failedTest }) {
			results = append(results, TestResult{Name: name, Result: failedTest, Output: fmt.Sprintf("%v\n%s", failure, tail(output))})
		}
		s.tests = append(s.tests, results...)
	}
	return nil
}

// runTestsOf runs a test program in a folder and returns its output.
func (s *session) runTestsOf(ctx context.Context, name, folder string, arguments ...string) ([]byte, error) {
	packed, known := s.Programs[name+testSuffix]
	if !known {
		return nil, fmt.Errorf("this program does not contain the tests of %s: use the one that was interrupted", name)
	}
	program := s.Host.Disk.Local(folder + `\` + name + testSuffix + ".exe")
	if err := unpack(program, packed); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, testsTimeout+time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, program, arguments...)
	command.Dir = s.Host.Disk.Local(folder)
	command.Env = append(os.Environ(), "TMP="+command.Dir, "TEMP="+command.Dir)
	if slices.Contains(arguments, cleanUpArgument) {
		command.Env = append(command.Env, cleanUpOnly+"=1")
	}
	return outputOf(command)
}

// releaseTimeout is how long other programs may hold the output of a program that has ended or was killed.
const releaseTimeout = 10 * time.Second

// outputOf runs a program to its end. Its children may hold its output longer: a killed process that is not gone yet is no failure.
func outputOf(command *exec.Cmd) ([]byte, error) {
	command.WaitDelay = cmp.Or(command.WaitDelay, releaseTimeout)
	output, err := command.CombinedOutput()
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil // the program itself succeeded
	}
	return output, err
}

// cleanUpAfterTests removes what an interrupted test program left. A program that ended left nothing. It runs in its own folder, because services of
// the tests may still run from theirs.
func (s *session) cleanUpAfterTests(ctx context.Context, name string) error {
	folder, err := s.folder(ctx, cleanUpFolder)
	if err != nil {
		return err
	}
	output, err := s.runTestsOf(ctx, name, folder, cleanUpArgument)
	if err != nil {
		return fmt.Errorf("%w: %s", err, tail(output))
	}
	if err := s.removeFolder(ctx, folder); err != nil {
		return err
	}
	return s.journal.remove(change{kindFolder, cleanUpFolder})
}

func unpack(name string, packed []byte) error {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return fmt.Errorf("unpacking %s: %w", name, err)
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o700)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	return errors.Join(err, f.Close())
}

// tail returns the end of an output.
func tail(output []byte) []byte { return bytes.TrimSpace(output[max(0, len(output)-maxSeen):]) }

// parseTests parses the output of a test program that ran with -test.v.
func parseTests(program string, output []byte) (results []TestResult) {
	begin := regexp.MustCompile(`^=== (?:RUN|CONT|NAME) +(\S+)$`)
	end := regexp.MustCompile(`^ *--- (PASS|FAIL|SKIP): (\S+) \(`)
	verdicts := map[string]string{"PASS": passedTest, "FAIL": failedTest, "SKIP": skippedTest}
	reported := map[string]string{}
	current := ""
	lines := bufio.NewScanner(bytes.NewReader(output))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := strings.TrimSuffix(lines.Text(), "\r")
		if m := begin.FindStringSubmatch(line); m != nil {
			current = m[1]
		} else if m := end.FindStringSubmatch(line); m != nil {
			r := TestResult{Name: program + "/" + m[2], Result: verdicts[m[1]]}
			if r.Result != passedTest {
				r.Output = reported[m[2]]
			}
			results = append(results, r)
		} else if len(reported[current]) < maxSeen {
			reported[current] += line + "\n"
		}
	}
	return results
}

// testsResult returns the result of a line whose claim holds if these tests pass.
func testsResult(results []TestResult, names []string) (string, error) {
	for _, name := range names {
		i := slices.IndexFunc(results, func(r TestResult) bool { return r.Name == contractTests+"/"+name })
		switch {
		case i < 0:
			return "", untriedErrorf("test %s did not run", name)
		case results[i].Result == skippedTest:
			return "", untriedErrorf("test %s: %s", name, strings.TrimSpace(results[i].Output))
		case results[i].Result == failedTest:
			return "", fmt.Errorf("test %s: %s", name, strings.TrimSpace(results[i].Output))
		}
	}
	return fmt.Sprintf("%d tests passed", len(names)), nil
}
