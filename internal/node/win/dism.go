package win

import (
	"io"

	"github.com/windows-machine-config/wmco/internal/node/win/wua"
)

// dismCommand is the first argument of a process that calls DISM for its parent.
const dismCommand = "dism"

// Child does the work of a process that Host started from the same program, for calls that may hang: of DISM, and of the Windows Update Agent. Each
// program that uses Host must pass its arguments before it does anything else, and exit with code if it is such a process.
func Child(args []string, stdin io.Reader, stdout, stderr io.Writer) (code int, isChild bool) {
	if len(args) == 0 {
		return 0, false
	}
	switch args[0] {
	case dismCommand:
		return callDISM(args[1:], stdin, stdout), true
	case wua.Command:
		return wua.Answer(args[1:], stdin, stdout, stderr), true
	}
	return 0, false
}
