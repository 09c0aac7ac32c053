//go:build !windows

package sshd

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

// This does not compile if the simulation has other quirks of shells.
var _ = ShellQuirks(sim.ShellQuirks{})

func shellQuirks(q ShellQuirks) Quirks { return Quirks{ShellQuirks: q} }

func TestCommandsHaveTheQuirksOfShells(t *testing.T) {
	const input = "0123456789"
	for name, test := range map[string]struct {
		quirks ShellQuirks
		line   string
		want   string
		code   int
	}{
		"none":         {ShellQuirks{}, "cat; exit 7", input, 7},
		"input ends":   {ShellQuirks{StdinEnds: 4}, "cat", "0123", 0},
		"input stalls": {ShellQuirks{StdinStalls: 4}, "head -c4; exit 3", "0123", 3},
		"blocks":       {ShellQuirks{StdinBlocks: 3}, "cat", input, 0},
		"PowerShell":   {ShellQuirks{PowerShell: true}, "exit 7", "", 1},
		"success":      {ShellQuirks{PowerShell: true}, "exit 0", "", 0},
		"a profile":    {ShellQuirks{Profile: "Welcome\r\n"}, "echo x", "Welcome\r\nx\n", 0},
	} {
		t.Run(name, func(t *testing.T) {
			s := mustSession(t, mustServeWith(t, shellQuirks(test.quirks)).mustDial(t))
			s.Stdin = strings.NewReader(input)
			out, err := s.Output(test.line)
			var exit *ssh.ExitError
			code := 0
			if errors.As(err, &exit) {
				code = exit.ExitStatus()
			}
			if string(out) != test.want || code != test.code {
				t.Errorf("got %q and %v; want %q and exit status %d", out, err, test.want, test.code)
			}
		})
	}
}

func TestTheServerIdentifiesItselfAsAnother(t *testing.T) {
	const version = "SSH-2.0-OpenSSH_for_Windows_7.7"
	if got := mustServeWith(t, shellQuirks(ShellQuirks{Version: version})).mustDial(t).ServerVersion(); string(got) != version {
		t.Errorf("got %s, want %s", got, version)
	}
}

func TestCommandsRunOnWithoutTheirConnection(t *testing.T) {
	f := mustServeWith(t, shellQuirks(ShellQuirks{RunsOn: true}))
	c := f.mustDial(t)
	s := mustSession(t, c)
	out, err := s.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start("echo started; cat; echo done >ended"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, len("started\n"))); err != nil {
		t.Fatal(err)
	}
	c.Close()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if text, err := os.ReadFile(filepath.Join(f.home, "ended")); err == nil && bytes.Equal(text, []byte("done\n")) {
			return
		}
	}
	t.Error("the command ended with its connection")
}

func TestFirstConnectionStartsInSystemFolder(t *testing.T) {
	f := mustServeWith(t, shellQuirks(ShellQuirks{NoProfile: true}))
	for i, want := range []string{systemFolder, f.home, f.home} {
		out, err := mustSession(t, f.mustDial(t)).Output("pwd")
		if got := strings.TrimSpace(string(out)); err != nil || got != want {
			t.Errorf("connection %d begins in %q, %v; want %q", i+1, got, err, want)
		}
	}
}

func TestQuirksAreReadFromFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "quirks.json")
	if q, err := ReadQuirks(file); err != nil || q != (Quirks{}) {
		t.Errorf("without a file, they are %+v, %v", q, err)
	}
	if err := os.WriteFile(file, []byte(`{"StdinEnds":4,"OverlappedPipes":true}`), 0o600); err != nil {
		t.Fatal(err)
	}
	want := Quirks{ShellQuirks{StdinEnds: 4}, true}
	if q, err := ReadQuirks(file); err != nil || q != want {
		t.Errorf("got %+v, %v; want %+v", q, err, want)
	}
	if err := os.WriteFile(file, []byte(`{`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadQuirks(file); err == nil {
		t.Error("a damaged file is read")
	}
}
