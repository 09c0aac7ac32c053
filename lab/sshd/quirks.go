package sshd

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// Quirks is what OpenSSH for Windows and its shells do that this server otherwise does not.
type Quirks struct {
	ShellQuirks
	// OverlappedPipes gives commands pipes as OpenSSH for Windows does: opened for overlapped calls, with 4,096 bytes in each direction.
	OverlappedPipes bool
}

// ShellQuirks are those that internal/testing/sim has, too; its ShellQuirks can be converted.
type ShellQuirks struct {
	// Version is how the server identifies itself; empty for OpenSSH 8.9 for Windows.
	Version string
	// StdinEnds is after how many bytes a command reads the end of its input although more was sent, and StdinStalls after how many it
	// reads nothing more; 0 for never.
	StdinEnds, StdinStalls int64
	// StdinBlocks is how many bytes of its input a command is given at a time at most; 0 for any number.
	StdinBlocks int
	// PowerShell has exit codes as if it were the default shell: 0, and 1 for all others.
	PowerShell bool
	// RunsOn has commands run on when their connection ends.
	RunsOn bool
	// Profile is what a script at the start of the shell writes before the command's output.
	Profile string
	// NoProfile has the first connection begin in C:\Windows.
	NoProfile bool
}

// ReadQuirks reads a file of quirks; a missing one means none.
func ReadQuirks(path string) (q Quirks, err error) {
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return q, nil
	}
	if err == nil {
		err = json.Unmarshal(raw, &q)
	}
	if err != nil {
		return q, fmt.Errorf("reading the quirks: %w", err)
	}
	return q, nil
}

// input is what a command reads of what was sent to it. Reading stalls until the command has ended.
func (q Quirks) input(from io.Reader, ended <-chan struct{}) io.Reader {
	return &quirkyInput{from: from, ended: ended, quirks: q, left: max(q.StdinEnds, q.StdinStalls)}
}

// quirkyInput is the input of one command.
type quirkyInput struct {
	from   io.Reader
	ended  <-chan struct{}
	quirks Quirks
	left   int64 // until it ends or stalls, where it does
}

// Read implements io.Reader.
func (in *quirkyInput) Read(p []byte) (int, error) {
	q := in.quirks
	if q.StdinBlocks > 0 {
		p = p[:min(len(p), q.StdinBlocks)]
	}
	switch {
	case q.StdinEnds == 0 && q.StdinStalls == 0:
		return in.from.Read(p)
	case in.left > 0:
		n, err := in.from.Read(p[:min(int64(len(p)), in.left)])
		in.left -= int64(n)
		return n, err
	case q.StdinStalls > 0:
		<-in.ended
	}
	return 0, io.EOF
}

// exitCode is the one that the shell ends with when its command ended with code.
func (q Quirks) exitCode(code uint32) uint32 {
	if q.PowerShell {
		return min(code, 1)
	}
	return code
}
