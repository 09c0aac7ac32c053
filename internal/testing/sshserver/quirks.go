package sshserver

import (
	"context"
	"io"
	"time"
)

// Quirks are peculiarities of SSH servers on Windows and of the shells that they start. A Server has Version, RunsOn, NoProfile and HeldFor, and
// WithQuirks adds the others to a Handler; only the lab's Handler has OverlappedPipes.
type Quirks struct {
	// Version is the version string of the SSH server, such as SSH-2.0-OpenSSH_for_Windows_7.7; empty for another server. Windows Server 2019
	// includes version 7.7, 2022 has 8.1, and 2025 has 9.5.
	Version string
	// StdinEnds is after how many bytes a command reads the end of its input although more was sent, and StdinStalls after how many it reads nothing
	// more; 0 for never. OpenSSH 7.7 for Windows passes input through pipes of 4,096 bytes (PowerShell/Win32-OpenSSH issues 752 and 893), and Ansible
	// requires 7.9 or later (docs.ansible.com, windows_ssh).
	StdinEnds, StdinStalls int64
	// StdinBlocks is the maximum number of bytes that a command reads at a time; 0 for no limit.
	StdinBlocks int
	// PowerShell is the default shell if set: it returns exit code 0 unchanged, and 1 for all others (about_PowerShell_exe, -Command).
	PowerShell bool
	// RunsOn lets commands continue when their connection ends, as Windows has neither signals nor terminals that hang up.
	RunsOn bool
	// Profile is what a startup script of the shell writes before the command's output.
	Profile string
	// NoProfile makes the first connection start in C:\Windows: a user who never logged in has no profile, and OpenSSH then uses that folder as home
	// (contrib/win32/win32compat/pwd.c, get_passwd).
	NoProfile bool
	// HeldFor is how long a scanner holds a file that a transfer has written, starting with the first attempt to rename it, which fails meanwhile.
	HeldFor time.Duration
	// OverlappedPipes gives commands pipes as OpenSSH for Windows does: opened for overlapped calls, with 4,096 bytes in each direction.
	OverlappedPipes bool
}

// WithQuirks returns a Handler whose commands have their quirks.
func WithQuirks(run Handler) Handler {
	return func(ctx context.Context, c Command, stdin io.Reader, stdout, stderr io.Writer) int {
		q := c.Quirks
		_, _ = io.WriteString(stdout, q.Profile) // the client may have stopped reading
		in := &quirkyInput{ctx: ctx, from: stdin, quirks: q, left: max(q.StdinEnds, q.StdinStalls)}
		code := run(ctx, c, in, stdout, stderr)
		if q.PowerShell {
			return min(code, 1)
		}
		return code
	}
}

// quirkyInput is the input of one command.
type quirkyInput struct {
	ctx    context.Context // of the command
	from   io.Reader
	quirks Quirks
	left   int64 // until it ends or stalls
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
		<-in.ctx.Done()
	}
	return 0, io.EOF
}
