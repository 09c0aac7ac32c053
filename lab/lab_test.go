//go:build linux

package lab

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"

	"github.com/windows-machine-config/wmco/internal/testing/sshserver"
	"github.com/windows-machine-config/wmco/lab/windows/guestapi"
)

// must fails the test immediately if there is an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func mustKey(t *testing.T) ssh.Signer {
	t.Helper()
	signer, _, err := sshserver.NewKey()
	must(t, err)
	return signer
}

// mustStart starts hosts without a control plane, and returns a key that can log in to them.
func mustStart(t *testing.T, user string, names ...string) ([]*Host, ssh.Signer) {
	t.Helper()
	key := mustKey(t)
	o := Options{Hosts: names, WithoutControlPlane: true, User: user, AuthorizedKeys: ssh.MarshalAuthorizedKey(key.PublicKey())}
	return Start(t, o).Hosts(), key
}

func mustDial(t *testing.T, h *Host, user string, key ssh.Signer) *ssh.Client {
	t.Helper()
	hostKey, err := h.HostKey()
	must(t, err)
	c, err := ssh.Dial("tcp", h.Address()+":22", &ssh.ClientConfig{
		User: user, Auth: []ssh.AuthMethod{ssh.PublicKeys(key)}, HostKeyCallback: ssh.FixedHostKey(hostKey), Timeout: 20 * time.Second,
	})
	must(t, err)
	t.Cleanup(func() { c.Close() })
	return c
}

// runSSH runs a command line over SSH and returns its output, without carriage returns, and its exit code.
func runSSH(t *testing.T, c *ssh.Client, line string) (string, int) {
	t.Helper()
	s, err := c.NewSession()
	must(t, err)
	defer s.Close()
	out, err := s.CombinedOutput(line)
	var exit *ssh.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%s: %v", line, err)
	}
	code := 0
	if exit != nil {
		code = exit.ExitStatus()
	}
	return strings.ReplaceAll(string(out), "\r", ""), code
}

// TestHosts runs two hosts without a control plane.
func TestHosts(t *testing.T) {
	hosts, key := mustStart(t, "", "win-1", "win-2")
	h := hosts[0]
	t.Run("HostReportsWindowsServer", func(t *testing.T) { expectWindowsServer(t, h) })
	t.Run("HostsDifferAndReachEachOther", func(t *testing.T) { expectSeparateHosts(t, h, hosts[1]) })
	t.Run("SSHServerCountsClients", func(t *testing.T) { expectCounts(t, h, key) })
	t.Run("NetworkCanFail", func(t *testing.T) { expectNetworkFailures(t, h, key) })
	t.Run("StateSurvivesReboots", func(t *testing.T) { expectStateAfterReboots(t, h, key) })
	t.Run("ServiceStartHasItsTimeout", func(t *testing.T) { expectTimeToStart(t, h) })
}

func expectWindowsServer(t *testing.T, h *Host) {
	t.Helper()
	const current = `HKLM\SOFTWARE\Microsoft\Windows NT\CurrentVersion`
	for name, want := range map[string]string{"CurrentBuildNumber": "20348", "ProductName": ProductName, "InstallationType": "Server Core"} {
		v, found, err := h.ReadRegistry(t.Context(), current, name)
		if err != nil || !found || v.Text != want {
			t.Errorf("%s is %q (found %v, error %v), want %q", name, v.Text, found, err, want)
		}
	}
	r, err := h.Exec(t.Context(), "cmd.exe /c ver")
	if err != nil || !bytes.Contains(r.Stdout, []byte("10.0.20348")) {
		t.Errorf("ver prints %q, error %v", r.Stdout, err)
	}
	r, err = h.Exec(t.Context(), "hostname.exe")
	if err != nil || !strings.EqualFold(strings.TrimSpace(string(r.Stdout)), "win-1") {
		t.Errorf("hostname.exe prints %q, error %v", r.Stdout, err)
	}
	if s, _, err := h.Service(t.Context(), "sshd"); err != nil || s.State != "running" {
		t.Errorf("service sshd is %s, error %v", s.State, err)
	}
}

func TestSSHBehavesLikeOpenSSHForWindows(t *testing.T) {
	hosts, key := mustStart(t, "core", "win-1")
	h := hosts[0]
	c := mustDial(t, h, "Core", key)
	type answer struct {
		Out  string
		Code int
	}
	for line, want := range map[string]answer{
		`cd`:              {"C:\\users\\core\n", 0},
		`echo %USERNAME%`: {"core\n", 0},
		`exit 7`:          {"", 7},
		`.\\tool.exe`:     {"WIN-1\n", 0},
		`"C:\windows\system32\cmd.exe" /c echo "a b"`: {"\"a b\"\n", 0},
	} {
		if line == `.\\tool.exe` {
			hostname, err := h.ReadFile(`C:\windows\system32\HOSTNAME.EXE`)
			must(t, err)
			upload(t, c, "tool.exe", hostname)
		}
		out, code := runSSH(t, c, line)
		if diff := cmp.Diff(want, answer{out, code}); diff != "" {
			t.Errorf("%s: %s", line, diff)
		}
	}
	starts, err := h.PowerShellStarts()
	if err != nil || len(starts) != 0 {
		t.Errorf("PowerShell was started by %q, error %v", starts, err)
	}
	if _, code := runSSH(t, c, "powershell.exe -Command Get-Host"); code != 1 {
		t.Errorf("PowerShell ended with %d, want 1", code)
	}
	if starts, err = h.PowerShellStarts(); err != nil || len(starts) != 1 {
		t.Errorf("PowerShell was started by %q, error %v, want one start", starts, err)
	}
}

// upload writes a file by SFTP, relative to the home.
func upload(t *testing.T, c *ssh.Client, name string, content []byte) {
	t.Helper()
	files, err := sftp.NewClient(c)
	must(t, err)
	defer files.Close()
	w, err := files.Create(name)
	must(t, err)
	if _, err := w.ReadFrom(bytes.NewReader(content)); err != nil {
		t.Fatal(err)
	}
	must(t, w.Close())
}

func expectCounts(t *testing.T, h *Host, key ssh.Signer) {
	t.Helper()
	before, err := h.Stats()
	must(t, err)
	c := mustDial(t, h, "Administrator", key)
	runSSH(t, c, "ver")
	upload(t, c, "file", make([]byte, 1<<20))
	c.Close()
	var got sshserver.Counters
	waitUntil(t, "bytes received", func() string { // the server writes its counters with a delay
		after, err := h.Stats()
		must(t, err)
		if got = after.Sub(before); got.BytesIn < 1<<20 {
			return fmt.Sprintf("got %d, want at least the file's %d", got.BytesIn, 1<<20)
		}
		return ""
	})
	got.BytesIn, got.BytesOut = 0, 0
	want := sshserver.Counters{Connections: 1, ExecChannels: 1, SFTPChannels: 1, FilesWritten: 1, Commands: []string{"ver"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	info, err := h.Stat(`c:\USERS\administrator\FILE`)
	if err != nil || info.Size() != 1<<20 {
		t.Errorf("the file is %v, error %v", info, err)
	}
}

func expectStateAfterReboots(t *testing.T, h *Host, key ssh.Signer) {
	t.Helper()
	hostKey, err := h.HostKey()
	must(t, err)
	const where = `HKLM\SOFTWARE\wmco-lab-test`
	want := guestapi.RegistryValue{Type: "REG_SZ", Text: `C:\k`}
	must(t, h.WriteRegistry(t.Context(), where, "kept", want))
	must(t, h.WriteFile(`C:\k\state.json`, []byte("{}")))
	first, err := h.BootID(t.Context())
	must(t, err)
	must(t, h.Reboot(t.Context()))
	got, _, err := h.ReadRegistry(t.Context(), where, "kept")
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("registry after a reboot: error %v, %s", err, diff)
	}
	// A program of the host requests the second reboot.
	if _, code := runSSH(t, mustDial(t, h, "Administrator", key), `C:\Windows\System32\shutdown.exe /r /t 1`); code != 0 {
		t.Fatalf("shutdown.exe ended with %d", code)
	}
	must(t, h.WaitForReboot(t.Context(), first+1))
	h.PowerOff()
	if _, err := h.ReadFile(`C:\k\state.json`); !errors.Is(err, errOff) {
		t.Errorf("reading a file while the host is off: %v, want %v", err, errOff)
	}
	must(t, h.Boot(t.Context()))
	if id, err := h.BootID(t.Context()); err != nil || id != first+3 {
		t.Errorf("boot ID after three boots: got %d (%v), want %d", id, err, first+3)
	}
	if _, err := h.ReadFile(`C:\k\STATE.json`); err != nil {
		t.Error(err)
	}
	if again, err := h.HostKey(); err != nil || !bytes.Equal(again.Marshal(), hostKey.Marshal()) {
		t.Errorf("the host key changed, error %v", err)
	}
}

// expectTimeToStart starts a program that is no service and exits after 13 s. Wine's default timeout is 10 s.
func expectTimeToStart(t *testing.T, h *Host) {
	t.Helper()
	err := h.must(t.Context(), `sc.exe create slow binPath= "C:\windows\system32\ping.exe -n 14 127.0.0.1"`)
	must(t, err)
	began := time.Now()
	err = h.StartService(t.Context(), "slow")
	if took := time.Since(began); err == nil || took < 12*time.Second {
		t.Errorf("starting the service failed after %v with %v, want an error after the program's 13 s", took, err)
	}
}

func expectNetworkFailures(t *testing.T, h *Host, key ssh.Signer) {
	t.Helper()
	c := mustDial(t, h, "Administrator", key)
	must(t, h.CutConnections())
	if _, err := c.NewSession(); err == nil {
		t.Error("a session was opened on a cut connection")
	}
	c = mustDial(t, h, "Administrator", key)
	must(t, h.Cut())
	answered := make(chan error, 1)
	go func() {
		_, _, err := c.SendRequest("keepalive@openssh.com", true, nil)
		answered <- err
	}()
	select {
	case err := <-answered:
		t.Errorf("a request over a disabled link ended with error %v, want no answer", err)
	case <-time.After(2 * time.Second):
	}
	if _, err := h.BootID(t.Context()); err != nil {
		t.Errorf("the lab cannot reach a host with a disabled link: %v", err)
	}
	must(t, h.Heal())
	select {
	case err := <-answered:
		if err != nil {
			t.Errorf("the request failed after the link was enabled: %v", err)
		}
	case <-time.After(time.Minute):
		t.Error("no answer after the link was enabled")
	}
}

func expectSeparateHosts(t *testing.T, a, b *Host) {
	t.Helper()
	ids := map[string]bool{}
	for _, h := range []*Host{a, b} {
		v, found, err := h.ReadRegistry(t.Context(), `HKLM\SYSTEM\HardwareConfig`, "LastConfig")
		if err != nil || !found {
			t.Fatalf("no hardware id: %v", err)
		}
		ids[v.Text] = true
		hostKey, err := h.HostKey()
		must(t, err)
		ids[string(hostKey.Marshal())] = true
	}
	if len(ids) != 4 {
		t.Error("the hosts share an identity")
	}
	if r, err := a.Exec(t.Context(), "ping.exe -n 1 "+b.Address()); err != nil || r.ExitCode != 0 {
		t.Errorf("pinging one host from the other: %s, error %v", r.Stdout, err)
	}
	must(t, a.WriteFile(`C:\only-here`, nil))
	if _, err := b.Stat(`C:\only-here`); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file of one host is on the other: %v", err)
	}
}
