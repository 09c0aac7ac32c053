package win

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
)

// OpenSSH for Windows runs a command with pipes that are opened for overlapped calls and hold 4 KiB (contrib/win32/win32compat/fileio.c,
// fileio_pipe). The shell inherits them, too, and passes them on.
const (
	sshPipeSize = 4 << 10
	stdioSize   = 64 << 20
)

// Roles of the test program that use such pipes: WICD, wicd-setup, which starts WICD with its own streams, and the shell, which also writes after its
// command has ended.
const (
	asStdio   = "WICD_TEST_STDIO"
	asWICD    = "wicd"
	asEchoing = "echo"
	asSetup   = "setup"
	asShell   = "shell"
	shellBye  = "the shell is done\n"
)

// converseOverStdio runs the first role of a chain: each role starts the next.
func converseOverStdio(chain string) int {
	role, next, _ := strings.Cut(chain, ">")
	switch role {
	case asWICD:
		return converseAsWICD()
	case asEchoing:
		return echoAll()
	}
	self, err := os.Executable()
	if err != nil || os.Setenv(asStdio, next) != nil {
		return 1
	}
	process, err := os.StartProcess(self, []string{self}, &os.ProcAttr{Files: []*os.File{os.Stdin, os.Stdout, os.Stderr}})
	if err != nil {
		return 1
	}
	state, err := process.Wait()
	if err != nil || state.ExitCode() != 0 {
		return 1
	}
	if role == asShell {
		return writeAsShell()
	}
	return 0
}

// converseAsWICD reads its whole input and then writes as much, followed by the hash of the input.
func converseAsWICD() int {
	hash := sha256.New()
	if n, err := io.Copy(hash, os.Stdin); err != nil || n != stdioSize {
		fmt.Fprintf(os.Stderr, "read %d bytes: %v\n", n, err)
		return 1
	}
	line := bytes.Repeat([]byte("x"), 64<<10)
	for range stdioSize / len(line) {
		if _, err := os.Stdout.Write(line); err != nil {
			return 1
		}
	}
	if _, err := fmt.Printf("\n%x\n", hash.Sum(nil)); err != nil {
		return 1
	}
	return 0
}

// echoAll writes what it reads, followed by its hash: input and output alternate, as in the command that receives content.
func echoAll() int {
	hash := sha256.New()
	if n, err := io.Copy(os.Stdout, io.TeeReader(os.Stdin, hash)); err != nil || n != stdioSize {
		fmt.Fprintf(os.Stderr, "echoed %d bytes: %v\n", n, err)
		return 1
	}
	if _, err := fmt.Printf("\n%x\n", hash.Sum(nil)); err != nil {
		return 1
	}
	return 0
}

// writeAsShell writes like a program that does not use overlapped calls.
func writeAsShell() int {
	stdout, err := windows.GetStdHandle(windows.STD_OUTPUT_HANDLE)
	if err != nil {
		return 1
	}
	var written uint32
	if err := windows.WriteFile(stdout, []byte(shellBye), &written, nil); err != nil {
		return 1
	}
	return 0
}

func TestCommandsRunOverOpenSSHPipes(t *testing.T) {
	for _, chain := range []string{
		asWICD, asSetup + ">" + asWICD, asShell + ">" + asWICD, asShell + ">" + asSetup + ">" + asWICD, asEchoing, asShell + ">" + asSetup + ">" + asEchoing,
	} {
		t.Run(chain, func(t *testing.T) { converseOverPipes(t, chain) })
	}
}

func converseOverPipes(t *testing.T, chain string) {
	toStdin, stdin := sshPipe(t, windows.PIPE_ACCESS_OUTBOUND, windows.GENERIC_READ)
	fromStdout, stdout := sshPipe(t, windows.PIPE_ACCESS_INBOUND, windows.GENERIC_WRITE)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	process, err := startWithHandles(self, append(os.Environ(), asStdio+"="+chain), stdin, stdout)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = windows.CloseHandle(stdin), windows.CloseHandle(stdout)
	late := time.AfterFunc(time.Minute, func() { _ = process.Kill() })
	defer late.Stop()
	sent := sha256.New()
	fed := make(chan error, 1)
	go func() {
		_, err := io.Copy(toStdin, io.TeeReader(io.LimitReader(numbers{}, stdioSize), sent))
		fed <- errors.Join(err, toStdin.Close())
	}()
	answer, err := io.ReadAll(fromStdout)
	if err != nil && !errors.Is(err, windows.ERROR_BROKEN_PIPE) {
		t.Errorf("reading the response: %v", err)
	}
	state, err := process.Wait()
	if err != nil || state.ExitCode() != 0 {
		t.Fatalf("the call returned %v, %v, after %d bytes of the response", state, err, len(answer))
	}
	if err := <-fed; err != nil {
		t.Errorf("sending: %v", err)
	}
	want := fmt.Sprintf("\n%x\n", sent.Sum(nil))
	if strings.HasPrefix(chain, asShell) {
		want += shellBye
	}
	if got := answer[min(len(answer), stdioSize):]; string(got) != want {
		t.Errorf("after %d bytes, the response ends with %q; want %q", min(len(answer), stdioSize), got, want)
	}
}

// numbers is an endless reader of bytes that are not all the same.
type numbers struct{}

func (numbers) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(i * 7)
	}
	return len(p), nil
}

// sshPipe creates a pipe. It returns this process's end, and the handle of the command's end.
func sshPipe(t *testing.T, serverAccess, clientAccess uint32) (*os.File, windows.Handle) {
	t.Helper()
	name := windows.StringToUTF16Ptr(fmt.Sprintf(`\\.\pipe\wicd-test-%d-%d`, os.Getpid(), time.Now().UnixNano()))
	server, err := windows.CreateNamedPipe(name, serverAccess|windows.FILE_FLAG_OVERLAPPED, windows.PIPE_TYPE_BYTE|windows.PIPE_WAIT, 1, sshPipeSize, sshPipeSize, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	inherited := windows.SecurityAttributes{InheritHandle: 1}
	inherited.Length = uint32(unsafe.Sizeof(inherited))
	client, err := windows.CreateFile(name, clientAccess, 0, &inherited, windows.OPEN_EXISTING, windows.FILE_FLAG_OVERLAPPED, 0)
	if err != nil {
		t.Fatal(err)
	}
	file := os.NewFile(uintptr(server), "pipe")
	t.Cleanup(func() { _ = file.Close() })
	return file, client
}

// startWithHandles starts a program with exactly these handles as its streams.
func startWithHandles(program string, environment []string, stdin, stdout windows.Handle) (*os.Process, error) {
	attributes := &syscall.ProcAttr{
		Env: environment, Files: []uintptr{uintptr(stdin), uintptr(stdout), uintptr(windows.Stderr)},
	}
	pid, handle, err := syscall.StartProcess(program, []string{program}, attributes)
	if err != nil {
		return nil, err
	}
	defer func() { _ = syscall.CloseHandle(syscall.Handle(handle)) }()
	return os.FindProcess(pid)
}
