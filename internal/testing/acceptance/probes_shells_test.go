package acceptance

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestShellThatChangesDataIsReported uses scripts in place of the shells, which start the test binary.
func TestShellThatChangesDataIsReported(t *testing.T) {
	const (
		// begin sets $p to the program and $a to its arguments.
		begin      = "#!/bin/sh\nline=$2; p=${line%% *}; p=./${p##*\\\\}; a=${line#* }\n"
		cmd        = begin + "exec $p $a\n"
		powerShell = begin + "$p $a || exit 1\n"
	)
	for name, test := range map[string]struct {
		cmd, powerShell string
		want            Verdict
		wantSeen        []string
	}{
		"nothing": {cmd, powerShell, Confirmed, []string{
			"cmd.exe: data unchanged, and exit code 7 arrives as 7", "PowerShell: data unchanged, and exit code 7 arrives as 1",
		}},
		"no PowerShell": {cmd, "", Untried, []string{"there is no PowerShell", "cmd.exe: data unchanged"}},
		"arguments":     {cmd, begin + "$p $a more || exit 1\n", Refuted, []string{`PowerShell changed the command line to "echo|one|--two=3|more"`}},
		"the input is cut": {cmd, begin + "head -c 4096 | $p $a || exit 1\n", Refuted, []string{
			"PowerShell: 1048641 bytes of output, which begin with", "cmd.exe: data unchanged",
		}},
		"the input is missing":       {cmd, begin + "$p $a < /dev/null || exit 1\n", Refuted, []string{"PowerShell: 1048641 bytes of output"}},
		"the output gets line ends":  {cmd, begin + "{ $p $a || e=1; echo; } ; exit ${e:-0}\n", Refuted, []string{"PowerShell: 1048642 bytes of output"}},
		"a failure succeeds":         {cmd, begin + "$p $a || true\n", Refuted, []string{"PowerShell: exit code 7 arrives as 0"}},
		"cmd.exe returns other code": {powerShell, powerShell, Refuted, []string{"cmd.exe: exit code 7 arrives as 1"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newComputer(t)
			m := c.machine()
			var err error
			if m.Program, err = os.Executable(); err != nil {
				t.Fatal(err)
			}
			for i, script := range []string{test.cmd, test.powerShell} {
				if script == "" {
					continue
				}
				path := m.Host.Disk.Local(shells()[i].path)
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(script), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			r, err := Run(t.Context(), m, Options{Only: []string{"shells"}, Out: io.Discard})
			if err != nil || len(r.Lines) != 1 || r.Lines[0].Verdict != test.want {
				t.Fatalf("got %+v, %v, want %s", r.Lines, err, test.want)
			}
			for _, want := range test.wantSeen {
				if !strings.Contains(r.Lines[0].Seen, want) {
					t.Errorf("missing %q in: %s", want, r.Lines[0].Seen)
				}
			}
		})
	}
}
