package win

import (
	"bufio"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/windows"

	"github.com/windows-machine-config/wmco/internal/node/hostapi"
)

func TestContainedProcessesEndWithParent(t *testing.T) {
	t.Setenv(asContained, "1")
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	parent := exec.Command(program)
	output, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = parent.Process.Kill() }()
	line, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	id, err := strconv.ParseUint(strings.TrimSpace(line), 10, 32)
	if err != nil {
		t.Fatalf("output %q", line)
	}
	child, err := windows.OpenProcess(windows.SYNCHRONIZE|windows.PROCESS_TERMINATE, false, uint32(id))
	if err != nil {
		t.Fatal(err)
	}
	defer windows.CloseHandle(child)
	if event, err := windows.WaitForSingleObject(child, 0); event != uint32(windows.WAIT_TIMEOUT) {
		t.Fatalf("the child process does not run: %d, %v", event, err)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	event, err := windows.WaitForSingleObject(child, uint32((10 * time.Second).Milliseconds()))
	if event != windows.WAIT_OBJECT_0 {
		t.Errorf("the child process outlives its parent: %d, %v", event, err)
		_ = windows.TerminateProcess(child, 1)
	}
}

func TestServiceExitsWithProgramExitCode(t *testing.T) {
	s, _ := mustServe(t, "ends")
	_ = s.Start(t.Context(), testName) // it may have exited before it is seen running
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		found := mustFind(t, testName)
		if found.State == hostapi.Stopped && found.ExitCode == endsWith {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("it is %s with exit code %d, want %d", found.State, found.ExitCode, endsWith)
		}
	}
}
