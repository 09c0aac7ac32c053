package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/payload"
	"github.com/windows-machine-config/wmco/payload/build"
	"github.com/windows-machine-config/wmco/payload/selfextract"
)

// asProgram, set in the environment, makes the test binary behave as wicd-setup if a program is appended to it, and as WICD otherwise.
const asProgram = "WICD_SETUP_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) == "" {
		os.Exit(m.Run())
	}
	if hasTail() {
		main()
	}
	var input bytes.Buffer
	_, _ = input.ReadFrom(os.Stdin)
	fmt.Printf("arguments %q input %q", os.Args[1:], input.String())
	fmt.Fprint(os.Stderr, "on stderr")
	os.Exit(7)
}

func hasTail() bool {
	data, err := os.ReadFile(os.Args[0])
	if err != nil {
		return false
	}
	_, _, err = selfextract.Find(bytes.NewReader(data), int64(len(data)))
	return err == nil
}

// place writes a self-extracting executable into a new folder. It returns its path and the path of the program inside.
func place(t testing.TB, stub, program []byte) (self, target string) {
	t.Helper()
	written, dir := t.TempDir(), t.TempDir()
	_, err := build.Write(t.Context(), written, build.Set{
		Files: []build.Content{{Path: payload.WICD, Component: "wicd", Version: "devel", Group: payload.Base, Open: build.Bytes(program)}},
		Stub:  build.Bytes(stub),
	})
	if err != nil {
		t.Fatal(err)
	}
	self = filepath.Join(dir, "wicd-1234-setup.exe")
	if err := os.Rename(filepath.Join(written, payload.SetupName), self); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(self, 0o755); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(program)
	return self, filepath.Join(dir, "wicd-"+hex.EncodeToString(sum[:8])+".exe")
}

func mustUnpack(t *testing.T, self string) string {
	t.Helper()
	target, err := unpack(self)
	if err != nil {
		t.Fatal(err)
	}
	return target
}

func mustHold(t *testing.T, name, want string) {
	t.Helper()
	got, err := os.ReadFile(name)
	if err != nil || string(got) != want {
		t.Fatalf("%s holds %.40q (error %v), want %.40q", name, got, err, want)
	}
}

// files returns the names of the other files in the folder of self.
func files(t *testing.T, self string) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(self))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		if entry.Name() != filepath.Base(self) {
			names = append(names, entry.Name())
		}
	}
	return names
}

func TestSetupRunsWICD(t *testing.T) {
	name, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	own, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	self, target := place(t, own, own)
	for _, when := range []string{"unpacked now", "unpacked before"} {
		command := exec.Command(self, "join", "two words", `quo"ted \`, "")
		command.Env = append(os.Environ(), asProgram+"=1")
		command.Stdin = strings.NewReader("a request\n")
		var stdout, stderr bytes.Buffer
		command.Stdout, command.Stderr = &stdout, &stderr
		var exit *exec.ExitError
		if err := command.Run(); !errors.As(err, &exit) || exit.ExitCode() != 7 {
			t.Errorf("%s: error %v, want exit status 7", when, err)
		}
		want := fmt.Sprintf("arguments %q input %q", []string{"join", "two words", `quo"ted \`, ""}, "a request\n")
		if stdout.String() != want || stderr.String() != "on stderr" {
			t.Errorf("%s: stdout is %s, stderr is %s, want %s", when, &stdout, &stderr, want)
		}
		mustHold(t, target, string(own))
	}
}

func TestFailureIsOneLineOfJSONAndExitCodeOne(t *testing.T) {
	name, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	own, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	self, _ := place(t, own, []byte("not a program"))
	command := exec.Command(self, "facts")
	command.Env = append(os.Environ(), asProgram+"=1")
	out, err := command.Output()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 {
		t.Errorf("error is %v, want exit status 1", err)
	}
	var line struct {
		Error struct{ Code, Message string }
	}
	if err := json.Unmarshal(out, &line); err != nil || bytes.Count(out, []byte("\n")) != 1 || !bytes.HasSuffix(out, []byte("\n")) {
		t.Errorf("output %q is not one line of JSON: %v", out, err)
	}
	if line.Error.Code != "SetupFailed" || !strings.HasPrefix(line.Error.Message, "starting WICD: ") {
		t.Errorf("error is %+v", line.Error)
	}
}

func TestUnpackedProgramIsReused(t *testing.T) {
	self, target := place(t, []byte("stub"), []byte("program"))
	if got := mustUnpack(t, self); got != target {
		t.Errorf("unpacked to %s, want %s", got, target)
	}
	mustHold(t, target, "program")
	before, err := os.Stat(target)
	if err != nil {
		t.Fatal(err)
	}
	mustUnpack(t, self)
	after, err := os.Stat(target)
	if err != nil || !os.SameFile(before, after) {
		t.Errorf("the file was written again (error %v)", err)
	}
}

func TestAlteredProgramIsReplaced(t *testing.T) {
	self, target := place(t, []byte("stub"), []byte("program"))
	for _, altered := range []string{"", "prog", "progrbm", "program and more"} {
		if err := os.WriteFile(target, []byte(altered), 0o755); err != nil {
			t.Fatal(err)
		}
		mustUnpack(t, self)
		mustHold(t, target, "program")
	}
}

func TestDamagedSetupLeavesNoFiles(t *testing.T) {
	program := bytes.Repeat([]byte("some text that compresses "), 1000)
	self, target := place(t, []byte("stub"), program)
	whole, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	for i := len("stub"); i < len(whole); i++ {
		damaged := bytes.Clone(whole)
		damaged[i] ^= 0x20
		if err := os.WriteFile(self, damaged, 0o755); err != nil {
			t.Fatal(err)
		}
		got, err := unpack(self)
		if err == nil { // a bit of the frame header without effect, such as a larger window
			mustHold(t, got, string(program))
			os.Remove(target)
		}
		if left := files(t, self); len(left) > 0 {
			t.Fatalf("byte %d of %d damaged (error %v): left %v", i, len(whole), err, left)
		}
	}
}

func TestTruncatedSetupIsRejected(t *testing.T) {
	self, _ := place(t, []byte("stub"), []byte("program"))
	info, err := os.Stat(self)
	if err != nil {
		t.Fatal(err)
	}
	for size := info.Size() - 1; size >= 0; size-- {
		if err := os.Truncate(self, size); err != nil {
			t.Fatal(err)
		}
		if _, err := unpack(self); !errors.Is(err, selfextract.ErrNoTail) {
			t.Errorf("cut after %d bytes: error %v, want ErrNoTail", size, err)
		}
	}
}

func TestPartialFilesOfEarlierRunsAreRemoved(t *testing.T) {
	self, target := place(t, []byte("stub"), []byte("program"))
	old := time.Now().Add(-2 * staleAfter)
	base := filepath.Base(target)
	for name, when := range map[string]time.Time{
		base + ".1.part":                   old,
		"wicd-0000000000000000.exe.1.part": old,
		base + ".2.part":                   time.Now(),
		base + ".part.txt":                 old,
		"other.part":                       old,
	} {
		name = filepath.Join(filepath.Dir(self), name)
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(name, when, when); err != nil {
			t.Fatal(err)
		}
	}
	mustUnpack(t, self)
	want := []string{"other.part", base, base + ".2.part", base + ".part.txt"} // in the order of os.ReadDir
	if got := files(t, self); !slices.Equal(got, want) {
		t.Errorf("files are %v, want %v", got, want)
	}
}

func TestConcurrentUnpackingWorks(t *testing.T) {
	program := bytes.Repeat([]byte("program"), 100_000)
	self, target := place(t, []byte("stub"), program)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if got, err := unpack(self); err != nil || got != target {
				t.Errorf("unpacked to %s, error %v", got, err)
			}
		})
	}
	all.Wait()
	mustHold(t, target, string(program))
	if got := files(t, self); len(got) != 1 {
		t.Errorf("files are %v, want the program only", got)
	}
}

func TestUnreplaceableTargetIsAnError(t *testing.T) {
	self, target := place(t, []byte("stub"), []byte("program"))
	if err := os.MkdirAll(filepath.Join(target, "folder"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := unpack(self); err == nil || !strings.Contains(err.Error(), filepath.Base(target)) {
		t.Errorf("error is %v, want one that names %s", err, filepath.Base(target))
	}
	if got := files(t, self); len(got) != 1 {
		t.Errorf("files are %v, want the folder only", got)
	}
}

// TestRenameWaitsForScanners: security software holds new files for seconds. What another process has unpacked meanwhile is as good.
func TestRenameWaitsForScanners(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		folder := t.TempDir()
		part, target := filepath.Join(folder, "part"), filepath.Join(folder, "target")
		if err := errors.Join(os.WriteFile(part, []byte("program"), 0o600), os.Mkdir(target, 0o700)); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(4*time.Second, func() { _ = os.Remove(target) }) // no file can replace a folder
		program := selfextract.Program{SHA256: sha256.Sum256([]byte("program")), Size: int64(len("program"))}
		if err := rename(part, target, program); err != nil {
			t.Fatal(err)
		}
		mustHold(t, target, "program")
		if err := rename(part, target, program); err != nil { // the part can be neither renamed nor removed
			t.Errorf("the target has the program; error %v", err)
		}
	})
}

func FuzzFailureIsOneLineOfJSON(f *testing.F) {
	for _, message := range []string{"", `open C:\k\x: "denied"`, "line\r\nbreak\tand\x00\x1f", "ungültig \xff", "\u2028 \U0001F600 \x7f"} {
		f.Add(message)
	}
	f.Fuzz(func(t *testing.T, message string) {
		out := failureLine("SetupFailed", errors.New(message))
		var line struct {
			Error struct{ Code, Message string }
		}
		if err := json.Unmarshal([]byte(out), &line); err != nil || strings.Count(out, "\n") != 1 || !utf8.ValidString(out) {
			t.Fatalf("%q is not one line of JSON: %v", out, err)
		}
		want := strings.Map(func(r rune) rune {
			if r < ' ' {
				return ' '
			}
			return r
		}, message)
		if line.Error.Code != "SetupFailed" || line.Error.Message != want {
			t.Errorf("message is %q, want %q", line.Error.Message, want)
		}
	})
}

func TestSecurityBlockIsNotCorruption(t *testing.T) {
	for err, want := range map[error]wicdapi.Code{
		&os.PathError{Op: "fork/exec", Path: "wicd.exe", Err: syscall.Errno(225)}:  wicdapi.CodeBlocked,
		&os.PathError{Op: "fork/exec", Path: "wicd.exe", Err: syscall.Errno(1260)}: wicdapi.CodeBlocked,
		&os.PathError{Op: "fork/exec", Path: "wicd.exe", Err: syscall.Errno(4551)}: wicdapi.CodeBlocked,
		errRemoved: wicdapi.CodeBlocked,
		&os.PathError{Op: "fork/exec", Path: "wicd.exe", Err: syscall.Errno(5)}: wicdapi.CodeSetupFailed,
		errors.New("the program at the end of this executable is corrupt"):      wicdapi.CodeSetupFailed,
	} {
		if got := wicdapi.Code(codeOf(fmt.Errorf("starting WICD: %w", err))); got != want {
			t.Errorf("%v is reported as %s, want %s", err, got, want)
		}
	}
}
