// Wicd-setup installs WICD, the daemon of a Windows node, on a new host. Its executable
// ends with the compressed WICD (package selfextract). It unpacks WICD into its own
// folder, under a name that contains WICD's hash, and runs it with its own arguments,
// input and output. Calling it is the same as calling WICD.
//
// It is sent to every new host, so it avoids packages that would make it large.
package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
)

func main() {
	exit, err := run()
	if err != nil {
		os.Stdout.WriteString(failureLine(codeOf(err), err))
		os.Exit(1)
	}
	os.Exit(exit)
}

// run unpacks WICD unless it exists and runs it. It returns WICD's exit code.
func run() (int, error) {
	self, err := os.Executable()
	if err != nil {
		return 0, fmt.Errorf("finding the executable: %w", err)
	}
	wicd, err := unpack(self)
	if err != nil {
		return 0, fmt.Errorf("unpacking WICD: %w", err)
	}
	process, err := os.StartProcess(wicd, append([]string{wicd}, os.Args[1:]...), &os.ProcAttr{
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = errRemoved
	}
	if err != nil {
		return 0, fmt.Errorf("starting WICD: %w", err)
	}
	state, err := process.Wait()
	if err != nil {
		return 0, fmt.Errorf("waiting for WICD: %w", err)
	}
	return state.ExitCode(), nil
}

// errRemoved means that something on the host, such as a virus scanner, removes WICD.
var errRemoved = errors.New("it was removed right after it was unpacked")

// codeOf returns the operator's code for a failure: either the host blocks WICD, or WICD could not be unpacked.
func codeOf(err error) string {
	const virusInfected, disabledByPolicy, integrityPolicy = 225, 1260, 4551
	var errno syscall.Errno
	if errors.Is(err, errRemoved) || errors.As(err, &errno) && (errno == virusInfected || errno == disabledByPolicy || errno == integrityPolicy) {
		return "Blocked"
	}
	return "SetupFailed"
}

// failureLine renders err as the line that the operator expects from WICD. It does not use encoding/json, which would make the program a tenth
// larger.
func failureLine(code string, err error) string {
	var message strings.Builder
	for _, r := range err.Error() { // invalid UTF-8 bytes arrive as U+FFFD
		switch {
		case r == '"' || r == '\\':
			message.WriteByte('\\')
			message.WriteRune(r)
		case r < ' ':
			message.WriteByte(' ')
		default:
			message.WriteRune(r)
		}
	}
	return `{"error":{"code":"` + code + `","message":"` + message.String() + "\"}}\n"
}
