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

// testsTimeout is how long a program of tests may take, within the time of the line that first needs it (probeTimeout). One of them waits for
// services that Windows restarts. On Wine, on a busy machine, eight minutes were not enough.
const testsTimeout = 12 * time.Minute

// The program with the contracts, whose tests lines name; the test of cleanUpArgument removes what a run of tests left that was cut, and cleanUpOnly
// in the environment makes it do nothing else.
const (
	contractTests   = "win"
	testSuffix      = ".test"
	testsFolder     = "tests"
	cleanUpFolder   = "cleanup"
	cleanUpArgument = "-test.run=^TestWhatACutRunLeavesIsRemoved$"
	cleanUpOnly     = "WICD_TEST_CLEAN_UP"
)

// TestResult is what one test found.
type TestResult struct {
	// Name begins with the program of the test: win/TestX/Case.
	Name string `json:"name"`
	// Result is passed, failed or skipped.
	Result string `json:"result"`
	// Output is what a test said that did not pass.
	Output string `json:"output,omitempty"`
}

const (
	passedTest  = "passed"
	failedTest  = "failed"
	skippedTest = "skipped"
)

// runTests runs all programs of tests, and keeps their results. A program that fails is no error.
func (s *session) runTests(ctx context.Context) error {
	s.tests = []TestResult{}
	folder, err := s.folder(ctx, testsFolder) // it goes after what the tests changed
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

// runTestsOf runs a program of tests in a folder and returns its output.
func (s *session) runTestsOf(ctx context.Context, name, folder string, arguments ...string) ([]byte, error) {
	packed, known := s.Programs[name+testSuffix]
	if !known {
		return nil, fmt.Errorf("this program has no tests of %s: use the one that was cut", name)
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

// releasedWithin is how long other programs may hold the output of one that has ended or was killed.
const releasedWithin = 10 * time.Second

// outputOf runs a program to its end. What it started may have its output longer: a killed process that has not gone yet is no failure.
func outputOf(command *exec.Cmd) ([]byte, error) {
	command.WaitDelay = cmp.Or(command.WaitDelay, releasedWithin)
	output, err := command.CombinedOutput()
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil // the program itself succeeded
	}
	return output, err
}

// cleanUpAfterTests removes what a program of tests left that was cut. One that ended left nothing. It runs in a folder of its own: services
// of the tests may still run in theirs.
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

// tail is the end of an output.
func tail(output []byte) []byte { return bytes.TrimSpace(output[max(0, len(output)-maxSeen):]) }

// parseTests reads the output of a program of tests that was started with -test.v.
func parseTests(program string, output []byte) (results []TestResult) {
	begin := regexp.MustCompile(`^=== (?:RUN|CONT|NAME) +(\S+)$`)
	end := regexp.MustCompile(`^ *--- (PASS|FAIL|SKIP): (\S+) \(`)
	verdicts := map[string]string{"PASS": passedTest, "FAIL": failedTest, "SKIP": skippedTest}
	said := map[string]string{}
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
				r.Output = said[m[2]]
			}
			results = append(results, r)
		} else if len(said[current]) < maxSeen {
			said[current] += line + "\n"
		}
	}
	return results
}

// judgeTests is the outcome of a line whose claim holds when these tests pass.
func judgeTests(results []TestResult, names []string) (string, error) {
	for _, name := range names {
		i := slices.IndexFunc(results, func(r TestResult) bool { return r.Name == contractTests+"/"+name })
		switch {
		case i < 0:
			return "", untriedf("test %s did not run", name)
		case results[i].Result == skippedTest:
			return "", untriedf("test %s: %s", name, strings.TrimSpace(results[i].Output))
		case results[i].Result == failedTest:
			return "", fmt.Errorf("test %s: %s", name, strings.TrimSpace(results[i].Output))
		}
	}
	return fmt.Sprintf("%d tests passed", len(names)), nil
}
