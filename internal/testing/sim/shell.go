package sim

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/windows-machine-config/wmco/internal/node/daemon"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/internal/testing/sshserver"
	"github.com/windows-machine-config/wmco/payload"
	"github.com/windows-machine-config/wmco/payload/compress"
	"github.com/windows-machine-config/wmco/payload/selfextract"
)

// shell runs commands that arrive over SSH, like cmd.exe. The only programs that it supports are WICD, with any content, and wicd-setup.
type shell struct {
	host       *Host
	home, root string
	quirks     Quirks
}

// windowsFolder is the folder of Windows.
const windowsFolder = `C:\Windows`

func (s *shell) local(name string) string { return hostapi.Disk{Root: s.root}.Local(name) }

// RunCommand runs a command line that arrived over another SSH server, with the streams of this process, on a new simulated computer whose drives are
// in an existing folder: each command may be in another process.
func RunCommand(ctx context.Context, o WindowsOptions, user, line string) int {
	o.drawQuirks()
	w := NewWindows(o)
	defer w.PowerOff()
	s := &shell{host: &Host{windows: w}, home: `C:\Users\` + user, root: o.Root, quirks: o.Quirks}
	return sshserver.WithQuirks(s.exec)(ctx, sshserver.Command{Line: line, User: user, Quirks: o.Quirks.Shell}, os.Stdin, os.Stdout, os.Stderr)
}

// exec implements sshserver.Handler.
func (s *shell) exec(ctx context.Context, c sshserver.Command, stdin io.Reader, stdout, stderr io.Writer) int {
	if c.Dir == s.local(windowsFolder) {
		at := *s
		at.home = windowsFolder
		s = &at
	}
	program, args, _ := strings.Cut(strings.TrimSpace(c.Line), " ")
	name := s.path(program)
	info, err := os.Stat(s.local(name))
	if err != nil || !info.Mode().IsRegular() {
		fmt.Fprintf(stderr, "'%s' is not recognized as an internal or external command,\r\noperable program or batch file.\r\n", program)
		return 1
	}
	if q := s.quirks.Files; q.Refusal != 0 && q.distrusts(s.local(name)) {
		fmt.Fprintln(stderr, refusalText(q.Refusal))
		return int(q.Refusal)
	}
	name, err = s.unpack(name)
	if err != nil {
		return wicdapi.NewSession(stdin, stdout).End(nil, &wicdapi.Error{Code: wicdapi.CodeSetupFailed, Message: err.Error()})
	}
	h := s.host.windows.Host()
	return daemon.Main(ctx, daemon.Call{
		Path: name, Args: strings.Fields(args), Stdin: stdin, Stdout: stdout, Stderr: stderr,
		Host:    func() (hostapi.Host, error) { return h, nil },
		Program: func() (io.ReadCloser, error) { return os.Open(s.local(name)) },
		Serve: func(func(context.Context) uint32) error {
			return errors.New("the service manager did not start this process")
		},
	})
}

// path returns the full Windows path of a program, which may be relative to the home folder. Double backslashes become single ones.
func (s *shell) path(program string) string {
	name := strings.ReplaceAll(strings.Trim(program, `"`), `\\`, `\`)
	if strings.Contains(name, ":") {
		return name
	}
	return s.home + `\` + strings.TrimPrefix(name, `.\`)
}

// unpack does what wicd-setup does: it writes the program inside into its own folder. It returns the name of any other program
// unchanged.
func (s *shell) unpack(name string) (string, error) {
	f, err := os.Open(s.local(name))
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	program, compressed, err := selfextract.Find(f, info.Size())
	if errors.Is(err, selfextract.ErrNoTail) && !strings.HasSuffix(name, "-setup.exe") {
		return name, nil
	}
	if err != nil {
		return "", fmt.Errorf("unpacking %s: %w", name, err)
	}
	unpacked := s.home + `\wicd-` + hex.EncodeToString(program.SHA256[:8]) + ".exe"
	if sum, err := hashOf(s.local(unpacked)); err == nil && sum == hex.EncodeToString(program.SHA256[:]) {
		return unpacked, nil
	}
	inside := payload.File{Path: name, SHA256: hex.EncodeToString(program.SHA256[:]), Size: program.Size}
	content, err := payload.Unpack(compressed, inside, compress.Dictionary{})
	if err != nil {
		return "", err
	}
	_, err = hostapi.Disk{Root: s.root}.WriteFile(unpacked, string(content))
	return unpacked, err
}

func hashOf(local string) (string, error) {
	f, err := os.Open(local)
	if err != nil {
		return "", err
	}
	defer f.Close()
	hash := sha256.New()
	if _, err := io.Copy(hash, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}

// WICD is the Program of WICD's service, with the real code.
func WICD(ctx context.Context, p Process) uint32 {
	args := strings.Fields(strings.TrimPrefix(p.Command, executableOf(p.Command)))
	return uint32(daemon.Main(ctx, daemon.Call{
		Args: args, Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: io.Discard,
		Host:    func() (hostapi.Host, error) { return p.Host, nil },
		Program: func() (io.ReadCloser, error) { return nil, errors.ErrUnsupported },
		Serve: func(run func(context.Context) uint32) error {
			run(ctx)
			return nil
		},
	}))
}
