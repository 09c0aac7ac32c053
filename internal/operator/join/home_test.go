package join_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/windows-machine-config/wmco/internal/operator/join"
	"github.com/windows-machine-config/wmco/internal/operator/remote"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
)

// otherHomeHost is a host whose shell does not start in the home folder, where SFTP puts files.
type otherHomeHost struct {
	noFiles
	home  string // with a trailing backslash; empty if SFTP does not report it
	files map[string]bool
	ran   []string
}

func (h *otherHomeHost) Put(_ context.Context, name string, r io.Reader, _ int64) error {
	_, err := io.Copy(io.Discard, r)
	h.files[name] = true
	return err
}

func (h *otherHomeHost) Close() error { return nil }

func (h *otherHomeHost) Files(_ context.Context, use func(wicdapi.Files) error) error {
	if h.home == "" {
		return errors.New("no SFTP")
	}
	return use(h)
}

func (h *otherHomeHost) Write(string, []byte) error                { return errors.New("nobody writes") }
func (h *otherHomeHost) Exists(name string) (bool, error)          { return h.files[name], nil }
func (h *otherHomeHost) Path(name string) (path string, err error) { return h.home + name, nil }

func (h *otherHomeHost) Run(_ context.Context, command string, stdin io.Reader, stdout io.Writer) error {
	h.ran = append(h.ran, command)
	if h.home == "" || !strings.HasPrefix(strings.ReplaceAll(command, `\\`, `\`), h.home) {
		return &remote.ExitError{Status: 1, Stderr: "is not recognized as the name of a cmdlet, function, script file, or operable program."}
	}
	s := wicdapi.NewSession(stdin, stdout)
	if strings.HasSuffix(command, " "+wicdapi.CommandRestart) {
		var r wicdapi.RestartRequest
		if err := s.Request(&r); err != nil {
			return err
		}
		s.End(wicdapi.RestartResult{BootID: "7", Restarting: true}, nil)
		return nil
	}
	s.End(wicdapi.Facts{Program: hashOf("WICD"), Host: wicdapi.HostFacts{Hostname: "win-1", BootID: "7"}}, nil)
	return nil
}

// TestChangedShellFolderIsHandled covers PowerShell with Set-Location in a profile, and cmd.exe with AutoRun "cd /d D:\".
func TestChangedShellFolderIsHandled(t *testing.T) {
	p, manifest := payloadOfWICD(t)
	for name, test := range map[string]struct{ home, wantErr string }{
		"folder without quotes":       {`C:\Users\Administrator\`, ""},                                     // https://github.com/PowerShell/Win32-OpenSSH/issues/2430
		"folder with a space":         {`C:\Users\Jane Doe\`, `the program is at C:\Users\Jane Doe\wicd-`}, // https://github.com/microsoft/vscode-remote-release/issues/644
		"folder with a shell command": {`C:\Users\a&calc\`, "remove the command that changes the folder (Set-Location in a PowerShell profile, or AutoRun of cmd.exe)"},
		"relative folder":             {`..\`, "changes the folder"},
		"unknown folder":              {"", "is not recognized"},
	} {
		t.Run(name, func(t *testing.T) {
			host := &otherHomeHost{home: test.home, files: map[string]bool{}}
			visit := &join.Visit{Host: reached{host}, Payload: p, Content: manifest, Observer: unobserved{}, Now: time.Now}
			err := visit.Restart(t.Context(), "7")
			if test.wantErr == "" {
				last := host.ran[len(host.ran)-1]
				if err != nil || !strings.HasPrefix(last, `C:\\Users\\Administrator\\wicd-`) || !strings.HasSuffix(last, ".exe "+wicdapi.CommandRestart) {
					t.Errorf("commands %q (%v)", host.ran, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), test.wantErr) {
				t.Errorf("%v does not contain %q", err, test.wantErr)
			}
			if slices.ContainsFunc(host.ran, func(c string) bool { return !strings.HasPrefix(c, `.\\wicd-`) }) {
				t.Errorf("commands %q", host.ran)
			}
		})
	}
}
