package bugreports

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/windows-machine-config/wmco/internal/operator/join"
	"github.com/windows-machine-config/wmco/internal/operator/remote"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/payload"
	payloads "github.com/windows-machine-config/wmco/payload/build"
)

// sessionReports are reports about SSH servers on Windows.
func sessionReports() []report {
	return []report{{
		link: "https://github.com/PowerShell/Win32-OpenSSH/issues/1220", input: "a profile that prints, with PowerShell as DefaultShell", want: "names profile and DefaultShell",
		outcome: func(t *testing.T) string {
			err := onHost(t, open(), greeting("Welcome to SRV01\r\n"), func(h *remote.Host) error { return h.Put(t.Context(), "x", strings.NewReader("1"), 1) })
			return saying(err, "names profile and DefaultShell", "profile", "DefaultShell", "Welcome to SRV01")
		},
	}, {
		link: "https://github.com/PowerShell/Win32-OpenSSH/issues/800", input: "a profile whose first line is empty", want: "names profile and DefaultShell",
		outcome: func(t *testing.T) string {
			err := onHost(t, open(), greeting("\r\n"+"Welcome\r\n"), func(h *remote.Host) error { return h.Put(t.Context(), "x", strings.NewReader("1"), 1) })
			return saying(err, "names profile and DefaultShell", "profile", "DefaultShell")
		},
	}, {
		link: "https://github.com/PowerShell/Win32-OpenSSH/issues/2430", input: "a profile of PowerShell with Set-Location", want: "restarted by full name",
		outcome: inAnotherFolder(`C:\Users\Administrator\`),
	}, {
		link: "https://github.com/microsoft/vscode-remote-release/issues/644", input: "a folder with a space that is not where the shell begins", want: "says where the program is",
		outcome: inAnotherFolder(`C:\Users\Jane Doe\`),
	}, {
		link: "https://github.com/kubernetes/kubernetes/issues/122417", input: "a policy for applications that refuses the programs", want: "says what to allow",
		outcome: func(t *testing.T) string {
			err := restart(t, awayHost{home: `C:\Users\Administrator\`, files: map[string]bool{}, refuses: 1260}) // ERROR_ACCESS_DISABLED_BY_POLICY
			if blocked := (*join.Blocked)(nil); !errors.As(err, &blocked) {
				return fmt.Sprint(err)
			}
			return saying(err, "says what to allow", "AppLocker", "wicd-*.exe", `C:\k`)
		},
	}}
}

func open() *ssh.ServerConfig { return &ssh.ServerConfig{NoClientAuth: true} }

// saying returns text if an error contains all parts, or else the error.
func saying(err error, text string, parts ...string) string {
	for _, part := range parts {
		if err == nil || !strings.Contains(err.Error(), part) {
			return fmt.Sprint(err)
		}
	}
	return text
}

// onHost connects to a host with this SSH server configuration.
func onHost(t *testing.T, config *ssh.ServerConfig, serve func(ssh.NewChannel), use func(*remote.Host) error) error {
	t.Helper()
	signer, err := ssh.NewSignerFromKey(ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)))
	if err != nil {
		t.Fatal(err)
	}
	config.AddHostKey(signer)
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		_, channels, requests, err := ssh.NewServerConn(c, config)
		if err != nil {
			return
		}
		go ssh.DiscardRequests(requests)
		for offered := range channels {
			serve(offered)
		}
	}()
	port := l.Addr().(*net.TCPAddr).Port
	h, err := remote.Dial(t.Context(), remote.Target{Address: "127.0.0.1", Port: port, User: "Administrator", Key: signer}, remote.Options{})
	if err != nil {
		return err
	}
	defer h.Close()
	return use(h)
}

// greeting is a host that prints text before SFTP begins.
func greeting(says string) func(ssh.NewChannel) {
	return func(offered ssh.NewChannel) {
		channel, requests, err := offered.Accept()
		if err != nil {
			return
		}
		for r := range requests {
			_ = r.Reply(true, nil)
			if r.Type == "subsystem" {
				_, _ = io.WriteString(channel, says)
				go func() { _, _ = io.Copy(io.Discard, channel) }()
			}
		}
	}
}

// awayHost is a host whose shell does not start in the home folder, to which SFTP writes files.
type awayHost struct {
	home    string // with a trailing backslash
	files   map[string]bool
	refuses int // the error with which Windows refuses to start programs; 0 for none
}

// Connect implements join.Connector.
func (h awayHost) Connect(context.Context) (join.Host, error) { return h, nil }

// Put implements join.Host.
func (h awayHost) Put(_ context.Context, name string, r io.Reader, _ int64) error {
	_, err := io.Copy(io.Discard, r)
	h.files[name] = true
	return err
}

// Files implements join.Host.
func (h awayHost) Files(_ context.Context, use func(wicdapi.Files) error) error { return use(h) }

// Write implements wicdapi.Files.
func (awayHost) Write(string, []byte) error { return errors.New("nobody writes") }

// Exists implements wicdapi.Files.
func (h awayHost) Exists(name string) (bool, error) { return h.files[name], nil }

// Path implements wicdapi.Files.
func (h awayHost) Path(name string) (string, error) { return h.home + name, nil }

// Server implements join.Host.
func (awayHost) Server() (string, netip.Addr) { return "SSH-2.0-OpenSSH_for_Windows_9.5", netip.Addr{} }

// Close implements join.Host.
func (awayHost) Close() error { return nil }

// Run implements join.Host.
func (h awayHost) Run(_ context.Context, command string, stdin io.Reader, stdout io.Writer) error {
	if h.refuses != 0 {
		return &remote.ExitError{Status: h.refuses}
	}
	if !strings.HasPrefix(strings.ReplaceAll(command, `\\`, `\`), h.home) || strings.Contains(h.home, " ") {
		return &remote.ExitError{Status: 1, Stderr: "is not recognized as the name of a cmdlet, function, script file, or operable program."}
	}
	s := wicdapi.NewSession(stdin, stdout)
	if strings.HasSuffix(command, " "+wicdapi.CommandRestart) {
		err := s.Request(&wicdapi.RestartRequest{})
		s.End(wicdapi.RestartResult{BootID: "7", Restarting: true}, nil)
		return err
	}
	s.End(wicdapi.Facts{Program: fmt.Sprintf("%x", sha256.Sum256([]byte("WICD"))), Host: wicdapi.HostFacts{Hostname: "win-1", BootID: "7"}}, nil)
	return nil
}

// unobserved ignores progress.
type unobserved struct{}

func (unobserved) Progress(join.Progress) {}
func (unobserved) Altered([]string)       {}

// inAnotherFolder reports whether a host whose shell starts in another folder restarts.
func inAnotherFolder(home string) func(*testing.T) string {
	return func(t *testing.T) string {
		err := restart(t, awayHost{home: home, files: map[string]bool{}})
		if err == nil {
			return "restarted by full name"
		}
		return saying(err, "says where the program is", "the program is at "+home+"wicd-", "Set-Location", "AutoRun")
	}
}

// restart restarts a host that does not have WICD yet.
func restart(t *testing.T, host awayHost) error {
	t.Helper()
	folder := t.TempDir()
	manifest, err := payloads.Write(t.Context(), folder, payloads.Set{
		Files: []payloads.Content{{Path: payload.WICD, Component: "wicd", Version: "devel", Group: payload.Base, Open: payloads.Bytes([]byte("WICD"))}},
		Stub:  payloads.Bytes([]byte("stub")),
	})
	if err != nil {
		t.Fatal(err)
	}
	p, err := payload.Open(folder)
	if err != nil {
		t.Fatal(err)
	}
	visit := &join.Visit{Host: host, Payload: p, Content: manifest, Observer: unobserved{}, Now: time.Now}
	return visit.Restart(t.Context(), "7")
}
