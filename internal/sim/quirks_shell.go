package sim

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
)

// ShellQuirks are those of the SSH server and of the shell that it starts.
type ShellQuirks struct {
	// Version is how the SSH server identifies itself, SSH-2.0-OpenSSH_for_Windows_7.7; empty for another server. Windows Server 2019 comes
	// with version 7.7, 2022 with 8.1, and 2025 with 9.5.
	Version string
	// StdinEnds is after how many bytes a command reads the end of its input although more was sent, and StdinStalls after how many it
	// reads nothing more; 0 for never. OpenSSH 7.7 for Windows hands its input on by pipes of 4,096 bytes
	// (PowerShell/Win32-OpenSSH issues 752 and 893), and Ansible asks for 7.9 or later (docs.ansible.com, windows_ssh).
	StdinEnds, StdinStalls int64
	// StdinBlocks is how many bytes of its input a command reads at a time at most; 0 for any number.
	StdinBlocks int
	// PowerShell has it be the default shell: of exit codes, it passes on 0, and 1 for all others (about_PowerShell_exe, -Command).
	PowerShell bool
	// RunsOn has commands run on when their connection ends, as Windows has neither signals nor terminals that hang up.
	RunsOn bool
	// Profile is what a script at the start of the shell writes before the command's output.
	Profile string
	// NoProfile has the first connection begin in C:\Windows: a user who never logged in has no profile, and OpenSSH takes that folder for
	// the home of such a one (contrib/win32/win32compat/pwd.c, get_passwd).
	NoProfile bool
}

// oldOpenSSH is the one of Windows Server 2019.
const oldOpenSSH = "SSH-2.0-OpenSSH_for_Windows_7.7"

func shellByChance(r *rand.Rand) ShellQuirks {
	sometimes := func() bool { return r.IntN(3) == 0 }
	q := ShellQuirks{
		Version:    []string{oldOpenSSH, "SSH-2.0-OpenSSH_for_Windows_8.1", "SSH-2.0-OpenSSH_for_Windows_9.5"}[r.IntN(3)],
		PowerShell: sometimes(), RunsOn: sometimes(), NoProfile: sometimes(),
	}
	if sometimes() {
		q.Profile = "Welcome to " + fmt.Sprint(r.IntN(100)) + "\r\n{\"not\":\"an answer\"}\r\n"
	}
	if sometimes() {
		q.StdinBlocks = 1 + r.IntN(4096)
	}
	switch {
	case q.Version == oldOpenSSH && sometimes():
		q.StdinStalls = 4096
	case sometimes():
		q.StdinEnds = 1 + r.Int64N(8192)
	}
	return q
}

// input is what a command reads of what was sent to it.
func (q ShellQuirks) input(ctx context.Context, stdin io.Reader) io.Reader {
	in := &quirkyInput{ctx: ctx, from: stdin, quirks: q}
	in.left = max(q.StdinEnds, q.StdinStalls)
	return in
}

// quirkyInput is the input of one command.
type quirkyInput struct {
	ctx    context.Context // of the command
	from   io.Reader
	quirks ShellQuirks
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
		<-in.ctx.Done()
	}
	return 0, io.EOF
}

// exitCode is the one that the shell ends with when its command ended with code.
func (q ShellQuirks) exitCode(code int) int {
	if q.PowerShell {
		return min(code, 1)
	}
	return code
}
