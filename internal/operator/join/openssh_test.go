package join_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/windows-machine-config/wmco/internal/operator/join"
	"github.com/windows-machine-config/wmco/internal/shared/wicdapi"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

// Programs and user of Debian's package openssh-server.
const (
	opensshServer = "/usr/sbin/sshd"
	opensshFiles  = "/usr/lib/openssh/sftp-server"
	opensshUser   = "sshd"
)

// asOpenSSHShell is the environment variable that makes the test program the shell of OpenSSH; its value is the folder with the drives.
const asOpenSSHShell = "WMCO_TEST_SHELL"

// TestMain also makes the test program a Windows shell.
func TestMain(m *testing.M) {
	if root := os.Getenv(asOpenSSHShell); root != "" {
		os.Exit(sim.RunCommand(context.Background(), sim.WindowsOptions{Root: root}, "Administrator", os.Getenv("SSH_ORIGINAL_COMMAND")))
	}
	os.Exit(m.Run())
}

// TestContactThroughOpenSSH uses the portable OpenSSH server and its SFTP, on which OpenSSH for Windows is based.
func TestContactThroughOpenSSH(t *testing.T) {
	w := newContactWorld(t, sim.Quirks{})
	root := t.TempDir()
	w.address = startOpenSSH(t, root, w.key.PublicKey())
	w.user = "root"
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := w.visit().Stage(ctx, join.Transfer{TakeSlot: (&slots{1}).take}); err != nil {
		t.Fatal(err)
	}
	for _, f := range w.payload.Manifest.Files {
		if _, err := os.Stat(filepath.Join(root, "C/k/store", f.SHA256)); err != nil {
			t.Error(err)
		}
	}
	if _, err := w.visit().Leave(ctx, "cluster"); err != nil {
		t.Error(err)
	}
	h, err := w.Connect(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	if version, _ := h.Server(); !strings.HasPrefix(version, "SSH-2.0-OpenSSH_") {
		t.Errorf("the server identifies itself as %q", version)
	}
	program := `.\\wicd-` + hashOf("WICD")[:16] + ".exe"
	byFiles := wicdapi.ByFiles{Host: h}
	if err := wicdapi.Call(ctx, byFiles, program+" leave", wicdapi.LeaveRequest{Cluster: "cluster"}, &wicdapi.LeaveResult{}, nil); err != nil {
		t.Errorf("with its input in files, a command ends with %v", err)
	}
	var exit interface{ ExitStatus() int }
	if err := h.Run(ctx, program+" nonsense", nil, nil); !errors.As(err, &exit) || exit.ExitStatus() != 1 {
		t.Errorf("an unknown command ends with %v, want exit status 1", err)
	}
	if names, err := filepath.Glob(filepath.Join(root, "C/Users/Administrator/wicd-input-*")); err != nil || len(names) > 0 {
		t.Errorf("%v was left, %v", names, err)
	}
}

// startOpenSSH starts a server whose commands run in the simulated Windows in root, and whose SFTP starts in its home folder.
func startOpenSSH(t *testing.T, root string, key ssh.PublicKey) netip.AddrPort {
	t.Helper()
	for _, program := range []string{opensshServer, opensshFiles} {
		if _, err := os.Stat(program); err != nil {
			t.Skipf("needs Debian's openssh-server: %v", err)
		}
	}
	if _, err := user.Lookup(opensshUser); err != nil || os.Getuid() != 0 {
		t.Skipf("needs root, and Debian's openssh-server with its user: %v", err)
	}
	home, folder := filepath.Join(root, "C/Users/Administrator"), t.TempDir()
	for _, name := range []string{home, filepath.Join(root, "C/Windows"), "/run/sshd"} {
		if err := os.MkdirAll(name, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	port := freePort(t)
	files := opensshFiles + " -d " + home
	mustPutFile(t, folder+"/shell", fmt.Sprintf("#!/bin/sh\ncase \"$SSH_ORIGINAL_COMMAND\" in\n%s*) exec %s;;\nesac\nexec env %s=%s %s\n",
		opensshFiles, files, asOpenSSHShell, root, self), 0o755)
	mustPutFile(t, folder+"/keys", string(ssh.MarshalAuthorizedKey(key)), 0o600)
	mustPutFile(t, folder+"/host_key", newHostKey(t), 0o600)
	mustPutFile(t, folder+"/config", strings.Join([]string{
		"ListenAddress 127.0.0.1", "Port " + strconv.Itoa(port), "HostKey " + folder + "/host_key", "AuthorizedKeysFile " + folder + "/keys",
		"PidFile none", "StrictModes no", "PermitRootLogin yes", "Subsystem sftp " + files, "ForceCommand " + folder + "/shell", "",
	}, "\n"), 0o600)
	server := exec.Command(opensshServer, "-D", "-e", "-f", folder+"/config")
	server.Stderr = os.Stderr
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait() // it was killed
	})
	address := netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), uint16(port))
	awaitListener(t, address)
	return address
}

func mustPutFile(t *testing.T, name, content string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(name, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
}

func newHostKey(t *testing.T) string {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(key, "")
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(block))
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func awaitListener(t *testing.T, address netip.AddrPort) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if c, err := net.Dial("tcp4", address.String()); err == nil {
			_ = c.Close()
			return
		}
	}
	t.Fatalf("no server listens on %s", address)
}
