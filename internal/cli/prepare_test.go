package cli_test

import (
	"crypto/ed25519"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/windows-machine-config/wmco/internal/cli/clitest"
	"github.com/windows-machine-config/wmco/internal/cli/session"
	"github.com/windows-machine-config/wmco/internal/node/cri"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
	"github.com/windows-machine-config/wmco/payload"
	"github.com/windows-machine-config/wmco/payload/build"
)

// keyFile writes a new private key, and returns its file and the public key.
func keyFile(t *testing.T) (string, ssh.PublicKey) {
	t.Helper()
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "")
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
		t.Fatal(err)
	}
	return name, signer.PublicKey()
}

// payloadFolder writes a small payload, with more programs.
func payloadFolder(t *testing.T, more ...string) string {
	t.Helper()
	set := build.Set{Fast: true, Stub: build.Bytes([]byte("stub"))}
	for _, path := range append([]string{payload.WICD, "kubelet.exe"}, more...) {
		set.Files = append(set.Files, build.Content{Path: path, Component: path, Version: "v1", Group: payload.Base, Open: build.Bytes([]byte(path))})
	}
	dir := t.TempDir()
	if _, err := build.Write(t.Context(), dir, set); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestPrepareSendsContent prepares a simulated machine over SSH.
func TestPrepareSendsContent(t *testing.T) {
	key, public := keyFile(t)
	_, hostKey, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(hostKey)
	if err != nil {
		t.Fatal(err)
	}
	host, err := sim.Start(t.Context(), sim.Options{ListenAddr: "127.0.0.1:0", AuthorizedKeys: []ssh.PublicKey{public}, HostKey: signer})
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	known := strings.TrimSpace(string(ssh.MarshalAuthorizedKey(signer.PublicKey())))
	dir, c := payloadFolder(t, "containerd/containerd.exe"), clitest.New(t)
	for _, flags := range [][]string{{"--host-key", known}, {"--accept-host-key"}} {
		r := c.Run(t, "", append([]string{"prepare", host.Addr(), "--payload", dir, "--key", key}, flags...)...)
		if r.Code != session.CodeOK || !strings.Contains(r.Out, host.Addr()+" is prepared") {
			t.Fatalf("%q: exit code %d: %s%s", flags, r.Code, r.Out, r.Err)
		}
		if isPrinted := strings.Contains(r.Err, known); isPrinted != (flags[0] == "--accept-host-key") {
			t.Errorf("%q: the host key is printed: %v", flags, isPrinted)
		}
		if images := host.Windows().Images(); !images[desired.DefaultSandboxImage] {
			t.Errorf("%q: the host has images %v", flags, images)
		}
		if !strings.Contains(r.Err, "Transfer: Done") || !strings.Contains(r.Err, "Prepare: Done") {
			t.Errorf("%q: the progress is %s", flags, r.Err)
		}
	}
	if r := c.Run(t, "", "prepare", host.Addr(), "--payload", dir, "--key", key, "--host-key", known, "--sandbox-image="); r.Code != session.CodeOK || len(host.Windows().Pulls()) != 1 {
		t.Errorf("without an image, exit code %d and pulls of %q: %s", r.Code, host.Windows().Pulls(), r.Err)
	}
	absent := "registry.example.com/pause:absent"
	host.Windows().RefuseImage(absent, &cri.Error{Code: cri.NotFound, Message: absent + ": not found"})
	r := c.Run(t, "", "prepare", host.Addr(), "--payload", dir, "--key", key, "--host-key", known, "--sandbox-image", absent)
	for _, part := range []string{absent, "404 Not Found", "--sandbox-image="} {
		if r.Code != session.CodeFailed || !strings.Contains(r.Err, part) {
			t.Errorf("with an image that does not exist, exit code %d and no %q: %s", r.Code, part, r.Err)
		}
	}
	other := strings.TrimSpace(string(ssh.MarshalAuthorizedKey(public)))
	if r := c.Run(t, "", "prepare", host.Addr(), "--payload", dir, "--key", key, "--host-key", other); r.Code != session.CodeFailed || strings.Contains(r.Out, "is prepared") {
		t.Errorf("with another host key, exit code %d: %s%s", r.Code, r.Out, r.Err)
	}
}

// TestPrepareRefusesAnotherContainerd prepares a machine on which a containerd without a service occupies the pipe.
func TestPrepareRefusesAnotherContainerd(t *testing.T) {
	key, public := keyFile(t)
	occupied := sim.WindowsOptions{Quirks: sim.Quirks{Setup: sim.SetupQuirks{DockerHasPipe: true}}}
	host, err := sim.Start(t.Context(), sim.Options{ListenAddr: "127.0.0.1:0", AuthorizedKeys: []ssh.PublicKey{public}, Windows: occupied})
	if err != nil {
		t.Fatal(err)
	}
	defer host.Close()
	dir, c := payloadFolder(t, "containerd/containerd.exe"), clitest.New(t)
	prepare := []string{"prepare", host.Addr(), "--payload", dir, "--key", key, "--accept-host-key"}
	if r := c.Run(t, "", prepare...); r.Code != session.CodeFailed || !strings.Contains(r.Err, desired.RuntimePipe) || len(host.Windows().Pulls()) > 0 {
		t.Errorf("exit code %d and pulls of %q: %s", r.Code, host.Windows().Pulls(), r.Err)
	}
	if r := c.Run(t, "", append(prepare, "--sandbox-image=")...); r.Code != session.CodeOK {
		t.Errorf("without an image, exit code %d: %s", r.Code, r.Err)
	}
}

func TestPrepareChecksFlags(t *testing.T) {
	key, _ := keyFile(t)
	dir, c := payloadFolder(t, "containerd/containerd.exe"), clitest.New(t)
	empty, small := t.TempDir(), payloadFolder(t)
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"prepare"}, "the address of one machine"},
		{[]string{"prepare", "192.0.2.1", "--payload", dir, "--accept-host-key"}, "--key is required"},
		{[]string{"prepare", "192.0.2.1", "--payload", dir, "--key", key}, "--host-key is required"},
		{[]string{"prepare", "192.0.2.1", "--payload", dir, "--key", key, "--host-key", "x", "--accept-host-key"}, "mutually exclusive"},
		{[]string{"prepare", "192.0.2.1", "--payload", dir, "--key", key, "--host-key", "x"}, "--host-key: "},
		{[]string{"prepare", "192.0.2.1", "--payload", dir, "--key", filepath.Join(dir, payload.ManifestName), "--accept-host-key"}, "unencrypted Ed25519"},
		{[]string{"prepare", "192.0.2.1:0", "--payload", dir, "--key", key, "--accept-host-key"}, "use 1 to 65535"},
		{[]string{"prepare", "192.0.2.1", "--key", key, "--accept-host-key"}, "--payload is required"},
		{[]string{"prepare", "192.0.2.1", "--key", key, "--accept-host-key", "--payload", empty}, payload.ManifestName},
		{[]string{"prepare", "192.0.2.1", "--key", key, "--accept-host-key", "--payload", dir, "--kubernetes", "1.12"}, "--kubernetes 1.12"},
		{[]string{"prepare", "192.0.2.1", "--key", key, "--accept-host-key", "--payload", dir, "--sandbox-image", "pause:3.9"}, "--sandbox-image: "},
		{[]string{"prepare", "192.0.2.1", "--key", key, "--accept-host-key", "--payload", dir, "--proxy", "socks5://proxy"}, "--proxy does not begin with http://"},
		{[]string{"prepare", "192.0.2.1", "--key", key, "--accept-host-key", "--payload", small}, "--payload: the payload has no containerd"},
	} {
		if r := c.Run(t, "", test.args...); r.Code != session.CodeUsage || !strings.Contains(r.Err, test.want) {
			t.Errorf("%q: exit code %d and %q, want %q", test.args, r.Code, r.Err, test.want)
		}
	}
}
