//go:build linux

package lab_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/operator/join"
	"github.com/windows-machine-config/wmco/internal/operator/remote"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/internal/testing/sshserver"
	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/testenv"
	"github.com/windows-machine-config/wmco/payload"
)

// contactTimeout is the timeout for a contact, which takes seconds on an idle machine.
const contactTimeout = 3 * time.Minute

// contacts makes first contacts with a host that has no WICD yet, with a payload of WICD and another program.
type contacts struct {
	host    *lab.Host
	key     ssh.Signer
	payload *payload.Payload
}

func newContacts(t *testing.T, o lab.Options) contacts {
	t.Helper()
	key, _, err := sshserver.NewKey()
	must(t, err)
	o.Hosts, o.WithoutControlPlane, o.AuthorizedKeys = []string{"win-1"}, true, ssh.MarshalAuthorizedKey(key.PublicKey())
	c := contacts{host: lab.Start(t, o).Hosts()[0], key: key}
	if c.payload, err = testenv.PayloadOf(t.Context(), "", filepath.Join(t.TempDir(), "payload"), os.Stderr, "wicd", "host-local"); err != nil {
		t.Fatal(err)
	}
	return c
}

// reachedHost adapts a remote.Host to the interface that package join requires.
type reachedHost struct{ *remote.Host }

func (h reachedHost) Files(ctx context.Context, use func(wicdapi.Files) error) error {
	return h.Host.Files(ctx, func(f *remote.Files) error { return use(f) })
}

// Connect implements join.Connector.
func (c contacts) Connect(ctx context.Context) (join.Host, error) {
	h, err := remote.Dial(ctx, remote.Target{Address: c.host.Address(), Port: 22, User: testenv.User, Key: c.key}, remote.Options{Grace: 10 * time.Second})
	return reachedHost{h}, err
}

func (c contacts) visit(o join.Observer) *join.Visit {
	return &join.Visit{Host: c, Payload: c.payload, Content: c.payload.Manifest, Observer: o, Now: time.Now}
}

// discard is an Observer that discards all progress.
type discard struct{}

func (discard) Progress(join.Progress) {}
func (discard) Altered([]string)       {}

// cuttingObserver is an Observer that cuts all connections of the host when the first transfer begins.
type cuttingObserver struct {
	discard
	host *lab.Host
	cut  *sync.Once
}

func (c cuttingObserver) Progress(p join.Progress) {
	if p.Step == join.StepTransfer && p.State == v1alpha1.StepRunning {
		c.cut.Do(func() { _ = c.host.CutConnections() })
	}
}

// freeSlot takes a slot without a limit.
func freeSlot() (io.Closer, error) { return io.NopCloser(nil), nil }

// stageAndLeave sends all content to the host, and removes everything from it. If retries is true, it retries failed contacts,
// as the operator does.
func (c contacts) stageAndLeave(t *testing.T, o join.Observer, retries bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), lab.Timeout(contactTimeout))
	defer cancel()
	err := c.visit(o).Stage(ctx, join.Transfer{TakeSlot: freeSlot})
	for ; err != nil && retries && ctx.Err() == nil; err = c.visit(o).Stage(ctx, join.Transfer{TakeSlot: freeSlot}) {
		t.Logf("retrying: %v", err)
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
	if err != nil {
		t.Fatalf("staging: %v", err)
	}
	for _, f := range c.payload.Manifest.Files {
		if info, err := c.host.Stat(`C:\k\store\` + f.SHA256); err != nil || info.Size() != f.Size {
			t.Errorf("%s in the store: got %v (%v), want %d bytes", f.Path, info, err, f.Size)
		}
	}
	if _, err := c.visit(discard{}).Leave(ctx, "cluster"); err != nil {
		t.Fatalf("leaving: %v", err)
	}
	// The program that removes everything stays in the home folder, because it is running.
	for folder, names := range map[string]string{`C:\users\` + testenv.User: "wicd-input-*", `C:\windows`: "wicd-*"} {
		local, err := c.host.Path(folder)
		must(t, err)
		if left, err := filepath.Glob(filepath.Join(local, names)); err != nil || len(left) > 0 {
			t.Errorf("files remain after Leave: %v (%v)", left, err)
		}
	}
}

// exitStatus returns the exit status of a command.
func (c contacts) exitStatus(t *testing.T, line string) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), lab.Timeout(contactTimeout))
	defer cancel()
	h, err := c.Connect(ctx)
	must(t, err)
	defer h.Close()
	err = h.Run(ctx, line, nil, io.Discard)
	var exit interface{ ExitStatus() int }
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%s: %v", line, err)
	}
	if exit == nil {
		return 0
	}
	return exit.ExitStatus()
}

// TestContactWithQuirksOfSSHServers performs a complete first contact with hosts whose SSH server and shell have quirks of Windows.
func TestContactWithQuirksOfSSHServers(t *testing.T) {
	c := newContacts(t, lab.Options{})
	const old = "SSH-2.0-OpenSSH_for_Windows_7.7"
	for _, test := range []struct {
		name    string
		quirks  sshserver.Quirks
		cut     bool
		byFiles bool
		code    int // reported for exit code 7
	}{
		{name: "none", code: 7},
		{name: "overlapped pipes of 4096 bytes", quirks: sshserver.Quirks{OverlappedPipes: true}, code: 7},
		{name: "commands outlive their connection", quirks: sshserver.Quirks{OverlappedPipes: true, RunsOn: true}, cut: true, code: 7},
		{name: "PowerShell with a profile", quirks: sshserver.Quirks{OverlappedPipes: true, PowerShell: true, Profile: "Welcome!\r\n{\"step\":1}\r\n[]\r\n"}, code: 1},
		{name: "input ends in the request", quirks: sshserver.Quirks{StdinEnds: 10}, byFiles: true, code: 7},
		{name: "input ends in the content", quirks: sshserver.Quirks{StdinEnds: 4096}, byFiles: true, code: 7},
		{name: "OpenSSH 7.7 whose input stalls", quirks: sshserver.Quirks{OverlappedPipes: true, Version: old, StdinStalls: 4096}, byFiles: true, code: 7},
		{name: "OpenSSH 7.7 at the first login", quirks: sshserver.Quirks{Version: old, NoProfile: true, RunsOn: true}, byFiles: true, code: 7},
	} {
		passed := t.Run(test.name, func(t *testing.T) {
			before, err := c.host.Stats()
			must(t, err)
			must(t, c.host.SetSSHQuirks(test.quirks))
			var o join.Observer = discard{}
			if test.cut {
				o = cuttingObserver{host: c.host, cut: &sync.Once{}}
			}
			c.stageAndLeave(t, o, test.cut)
			after, err := c.host.Stats()
			must(t, err)
			got := slices.ContainsFunc(after.Sub(before).Commands, func(line string) bool { return strings.Contains(line, "--input=") })
			if got != test.byFiles {
				t.Errorf("input sent as files: got %v, want %v", got, test.byFiles)
			}
			if code := c.exitStatus(t, "cmd.exe /c exit 7"); code != test.code {
				t.Errorf("exit 7 is reported as %d, want %d", code, test.code)
			}
		})
		if !passed {
			return // files left on the host would disturb the next case
		}
	}
}

// TestContactThroughOpenSSHOfDebian performs a complete first contact through Debian's OpenSSH, which shares its code with
// OpenSSH for Windows.
func TestContactThroughOpenSSHOfDebian(t *testing.T) {
	if err := lab.CanRunOpenSSH(); err != nil {
		t.Skip("SKIPPED:", err)
	}
	c := newContacts(t, lab.Options{OpenSSH: true})
	h, err := c.Connect(t.Context())
	must(t, err)
	defer h.Close()
	if version, _ := h.Server(); !strings.HasPrefix(version, "SSH-2.0-OpenSSH_") || strings.Contains(version, "Windows") {
		t.Errorf("the server identifies itself as %q", version)
	}
	c.stageAndLeave(t, discard{}, false)
	if code := c.exitStatus(t, "cmd.exe /c exit 7"); code != 7 {
		t.Errorf("exit code: got %d, want 7", code)
	}
	must(t, c.host.Reboot(t.Context()))
	c.stageAndLeave(t, cuttingObserver{host: c.host, cut: &sync.Once{}}, true)
}
