package join_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/node/hostapi"
	"github.com/windows-machine-config/wmco/internal/operator/join"
	"github.com/windows-machine-config/wmco/internal/operator/remote"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
	"github.com/windows-machine-config/wmco/internal/testing/sshserver"
	"github.com/windows-machine-config/wmco/payload"
	payloads "github.com/windows-machine-config/wmco/payload/build"
)

// contactWorld is a simulated host that never had WICD, and a payload for it.
type contactWorld struct {
	host    *sim.Host
	address netip.AddrPort
	user    string
	key     ssh.Signer
	payload *payload.Payload
}

func newContactWorld(t *testing.T, q sim.Quirks) *contactWorld {
	t.Helper()
	folder := t.TempDir()
	large := make([]byte, 3<<20)
	_, _ = rand.Read(large)
	_, err := payloads.Write(t.Context(), folder, payloads.Set{
		Files: []payloads.Content{
			{Path: payload.WICD, Component: "wicd", Version: "devel", Group: payload.Base, Open: payloads.Bytes([]byte("WICD"))},
			{Path: "kubelet.exe", Component: "kubelet", Version: "1", Group: payload.Base, Open: payloads.Bytes(large)},
			{Path: "small.exe", Component: "kubelet", Version: "1", Group: payload.Base, Open: payloads.Bytes([]byte("small"))},
		},
		Stub: payloads.Bytes([]byte("stub")),
	})
	if err != nil {
		t.Fatal(err)
	}
	w := &contactWorld{user: "Administrator"}
	if w.payload, err = payload.Open(folder); err != nil {
		t.Fatal(err)
	}
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	if w.key, err = ssh.NewSignerFromKey(key); err != nil {
		t.Fatal(err)
	}
	w.host, err = sim.Start(t.Context(), sim.Options{
		ListenAddr: "127.0.0.1:0", AuthorizedKeys: []ssh.PublicKey{w.key.PublicKey()},
		Windows: sim.WindowsOptions{Root: t.TempDir(), Quirks: q, NoQuirks: "each test chooses its quirks"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.host.Close)
	w.address = netip.MustParseAddrPort(w.host.Addr())
	return w
}

// sshHost adapts a remote.Host to join.Host.
type sshHost struct{ *remote.Host }

func (h sshHost) Files(ctx context.Context, use func(wicdapi.Files) error) error {
	return h.Host.Files(ctx, func(f *remote.Files) error { return use(f) })
}

// Connect implements join.Connector.
func (w *contactWorld) Connect(ctx context.Context) (join.Host, error) {
	h, err := remote.Dial(ctx, remote.Target{
		Address: w.address.Addr().String(), Port: int(w.address.Port()), User: w.user, Key: w.key,
	}, remote.Options{Grace: 10 * time.Second})
	return sshHost{h}, err
}

func (w *contactWorld) visit() *join.Visit {
	return &join.Visit{Host: w, Payload: w.payload, Content: w.payload.Manifest, Observer: unobserved{}, Now: time.Now}
}

// stageAndLeave sends all content to the host, then removes everything from it.
func (w *contactWorld) stageAndLeave(t *testing.T) error {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := w.visit().Stage(ctx, join.Transfer{TakeSlot: (&slots{1}).take}); err != nil {
		return fmt.Errorf("staging: %w", err)
	}
	disk := w.host.Windows().Disk()
	for _, f := range w.payload.Manifest.Files {
		if !disk.Exists(`C:\k\store\` + f.SHA256) {
			t.Errorf("the store has no %s", f.Path)
		}
	}
	if _, err := w.visit().Leave(ctx, "cluster"); err != nil {
		return fmt.Errorf("leaving: %w", err)
	}
	w.expectNoInput(t)
	return nil
}

// expectNoInput fails if input files, which may contain secrets, remain.
func (w *contactWorld) expectNoInput(t *testing.T) {
	t.Helper()
	for _, folder := range []string{`C:\Users\Administrator`, `C:\Windows`} {
		names, err := w.host.Windows().Disk().List(folder)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if strings.HasPrefix(name, "wicd-input-") {
				t.Errorf(`%s\%s was left`, folder, name)
			}
		}
	}
}

func TestContactWithInputLosingShells(t *testing.T) {
	const old = "SSH-2.0-OpenSSH_for_Windows_7.7"
	for name, test := range map[string]struct {
		shell   sshserver.Quirks
		byFiles bool
	}{
		"nothing":                        {},
		"input stalls after 4096 bytes":  {sshserver.Quirks{Version: old, StdinStalls: 4096}, true},
		"input stalls after 1 byte":      {sshserver.Quirks{Version: old, StdinStalls: 1}, true},
		"old, and input ends":            {sshserver.Quirks{Version: old, StdinEnds: 4096}, true},
		"old":                            {sshserver.Quirks{Version: old}, true},
		"input ends in the request":      {sshserver.Quirks{Version: "SSH-2.0-OpenSSH_for_Windows_9.5", StdinEnds: 10}, true},
		"input ends in the content":      {sshserver.Quirks{StdinEnds: 4096}, true},
		"input arrives byte by byte":     {sshserver.Quirks{StdinBlocks: 100}, false},
		"PowerShell":                     {sshserver.Quirks{PowerShell: true}, false},
		"commands run on":                {sshserver.Quirks{RunsOn: true}, false},
		"old, and commands run on":       {sshserver.Quirks{Version: old, RunsOn: true}, true},
		"a profile writes":               {sshserver.Quirks{Profile: "Welcome!\r\n{\"step\":1}\r\n[]\r\n"}, false},
		"no profile at the first login":  {sshserver.Quirks{NoProfile: true}, false},
		"old, no profile at first login": {sshserver.Quirks{NoProfile: true, Version: old}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newContactWorld(t, sim.Quirks{Shell: test.shell})
			if err := w.stageAndLeave(t); err != nil {
				t.Error(err)
			}
			byFiles := strings.Contains(strings.Join(w.host.SSH().Counters().Commands, "\n"), "--input=")
			if byFiles != test.byFiles {
				t.Errorf("input sent as files: %v, want %v", byFiles, test.byFiles)
			}
		})
	}
}

func TestProgramsInWindowsOwnFolderLeave(t *testing.T) {
	w := newContactWorld(t, sim.Quirks{Shell: sshserver.Quirks{NoProfile: true}})
	if err := w.stageAndLeave(t); err != nil {
		t.Fatal(err)
	}
	names, err := w.host.Windows().Disk().List(`C:\Windows`)
	if err != nil || strings.Contains(strings.Join(names, " "), "wicd") {
		t.Errorf(`C:\Windows has %v, %v; want nothing of ours`, names, err)
	}
}

func TestContactThroughScanners(t *testing.T) {
	for _, code := range []uint32{5, 32, 33, 303, 1224} {
		for name, shell := range map[string]sshserver.Quirks{
			"input by its stream": {}, "input by files": {Version: "SSH-2.0-OpenSSH_for_Windows_7.7"},
		} {
			t.Run(fmt.Sprintf("%d, %s", code, name), func(t *testing.T) {
				t.Parallel()
				q := sim.FileQuirks{Held: 200 * time.Millisecond, HeldCode: hostapi.Code(code)}
				if err := newContactWorld(t, sim.Quirks{Files: q, Shell: shell}).stageAndLeave(t); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

func TestBlockedSetupIsReplacedByPlainProgram(t *testing.T) {
	for _, refusal := range []uint32{0, 225, 1260, 4551} {
		t.Run(fmt.Sprint(refusal), func(t *testing.T) {
			t.Parallel()
			w := newContactWorld(t, sim.Quirks{Files: sim.FileQuirks{Distrusted: sim.Unpackers, Refusal: hostapi.Code(refusal)}})
			if err := w.stageAndLeave(t); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestBlockedProgramErrorNamesPathAndHash: https://github.com/kubernetes/kubernetes/issues/122417
func TestBlockedProgramErrorNamesPathAndHash(t *testing.T) {
	for _, refusal := range []uint32{0, 225, 1260, 4551} {
		t.Run(fmt.Sprint(refusal), func(t *testing.T) {
			t.Parallel()
			w := newContactWorld(t, sim.Quirks{Files: sim.FileQuirks{Distrusted: sim.UnknownPrograms, Refusal: hostapi.Code(refusal)}})
			err := w.stageAndLeave(t)
			if got := join.Reason(err); got != api.ReasonBlockedBySecuritySoftware {
				t.Fatalf("the reason is %s, want %s: %v", got, api.ReasonBlockedBySecuritySoftware, err)
			}
			wicd := w.payload.Manifest.Files[0]
			for _, f := range w.payload.Manifest.Files {
				if f.Path == payload.WICD {
					wicd = f
				}
			}
			parts := []string{`C:\Users\Administrator\wicd-` + wicd.SHA256[:16] + ".exe", wicd.SHA256, "allow", "AppLocker"}
			if refusal != 0 {
				parts = append(parts, fmt.Sprintf("error %d", refusal))
			}
			for _, part := range parts {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("the error is %q; want %q in it", err, part)
				}
			}
			if after, ok := join.Retry(err); !ok || after < 5*time.Minute {
				t.Errorf("retried after %s, %v; want minutes, because each attempt raises an alert on the host", after, ok)
			}
		})
	}
}

func TestRefusalIsNotReportedAsBlocked(t *testing.T) {
	host := freshHost{refuses: true}
	visit := &join.Visit{Host: reached{&host}, Observer: unobserved{}, Now: time.Now}
	err := visit.Restart(t.Context(), "6")
	if blocked := (*join.Blocked)(nil); errors.As(err, &blocked) {
		t.Errorf("got %v", err)
	}
}

func TestRandomContacts(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			all := sim.RandomQuirks(seed)
			q := sim.Quirks{Shell: all.Shell, Files: all.Files}
			err := newContactWorld(t, q).stageAndLeave(t)
			if q.Files.Distrusted == sim.UnknownPrograms {
				if got := join.Reason(err); got != api.ReasonBlockedBySecuritySoftware {
					t.Errorf("with %+v, the reason is %s, want %s: %v", q, got, api.ReasonBlockedBySecuritySoftware, err)
				}
				return
			}
			if err != nil {
				t.Errorf("with %+v: %v", q, err)
			}
		})
	}
}

func TestCommandLinesContainNoSecrets(t *testing.T) {
	w := newContactWorld(t, sim.Quirks{Shell: sshserver.Quirks{Version: "SSH-2.0-OpenSSH_for_Windows_7.7"}})
	ctx := t.Context()
	if err := w.visit().Stage(ctx, join.Transfer{TakeSlot: (&slots{1}).take}); err != nil {
		t.Fatal(err)
	}
	h, err := w.Connect(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	wicd := "wicd-" + hashOf("WICD")[:16] + ".exe"
	request := wicdapi.JoinRequest{Cluster: "cluster", Bootstrap: wicdapi.Bootstrap{Token: "hush-hush"}}
	err = wicdapi.Call(ctx, wicdapi.ByFiles{Host: h}, `.\\`+wicd+" join", request, &wicdapi.JoinResult{}, nil)
	if wicdapi.Failed(err) == nil {
		t.Fatalf("the join ends with %v, want WICD's error for an incomplete request", err)
	}
	for _, line := range w.host.SSH().Counters().Commands {
		if strings.Contains(line, "hush") {
			t.Errorf("command %q has the token", line)
		}
	}
	w.expectNoInput(t)
	if err := grep(w, []byte("hush-hush")); err != nil {
		t.Error(err)
	}
}

// grep fails if a file in the home folder contains the text.
func grep(w *contactWorld, text []byte) error {
	disk := w.host.Windows().Disk()
	names, err := disk.List(`C:\Users\Administrator`)
	if err != nil {
		return err
	}
	for _, name := range names {
		if b, err := disk.Read(`C:\Users\Administrator\` + name); err == nil && bytes.Contains(b, text) {
			return fmt.Errorf("%s has the token", name)
		}
	}
	return nil
}
