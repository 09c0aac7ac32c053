//go:build linux

package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/windows-machine-config/wmco/internal/acceptance"
	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/testenv"
)

// acceptanceFolder is where the acceptance program is on the host.
const acceptanceFolder = `C:\acceptance`

// TestJoinOfAcceptance runs the acceptance program with --join on a Wine host: control plane, operator and node are programs for Windows
// on one machine. The environment's own control plane has no part in it.
func TestJoinOfAcceptance(t *testing.T) {
	needs(t, lab.CanRunWindows(), lab.CanRunRegistries())
	p := newPlace(t, testenv.Options{
		WineHosts: 1, Network: testenv.NetworkFlannel, Components: []string{"containerd-shim-runhcs-v1", "win-overlay"},
	})
	host := p.Lab.Hosts()[0]
	p.bringAcceptance(host)
	fresh := takeSnapshot(t, host)
	join := acceptanceFolder + `\wmco-acceptance.exe --on-wine --join --mirror ` + p.PodImages().Host + ` --out ` + acceptanceFolder
	said, err := p.runAsUser(host, join, "pod: Pod")
	if !errors.Is(err, errCut) {
		t.Fatalf("it was to be cut: %v\n%s", err, said)
	}
	said, err = p.runAsUser(host, join, "") // it puts back what the one before left
	t.Logf("%s", said)
	if err != nil {
		t.Error(err)
	}
	content, err := host.ReadFile(acceptanceFolder + `\report.json`)
	if err != nil {
		t.Fatal(err)
	}
	var report acceptance.Report
	if err := json.Unmarshal(content, &report); err != nil {
		t.Fatal(err)
	}
	if len(report.Lines) != 7 || len(report.Facts) == 0 || len(report.Left) > 0 || report.Finished.IsZero() {
		t.Errorf("the report has %d lines, and what is left is %q", len(report.Lines), report.Left)
	}
	for _, l := range report.Lines {
		want := acceptance.Confirmed
		if l.ID == "restarted" {
			want = acceptance.Untried // nothing allows it
		}
		if l.Verdict != want {
			t.Errorf("%s: %s: %s", l.ID, l.Verdict, l.Seen)
		}
	}
	for _, difference := range fresh.compare(takeSnapshot(t, host), "") {
		if !strings.HasPrefix(difference, "file "+acceptanceFolder) {
			t.Error(difference)
		}
	}
}

// bringAcceptance builds the acceptance program with what --join needs, and copies all to a host.
func (p place) bringAcceptance(host *lab.Host) {
	p.t.Helper()
	root, err := testenv.Repository(p.t.Context())
	if err != nil {
		p.t.Fatal(err)
	}
	built := p.t.TempDir()
	if out, err := exec.CommandContext(p.t.Context(), filepath.Join(root, "hack/acceptance.sh"), built, p.Payload).CombinedOutput(); err != nil {
		p.t.Fatalf("building the acceptance program: %v: %s", err, out)
	}
	err = filepath.WalkDir(built, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name := strings.ReplaceAll(strings.TrimPrefix(path, built), "/", `\`)
		return host.WriteFile(acceptanceFolder+name, content)
	})
	if err != nil {
		p.t.Fatal(err)
	}
}

// errCut is the error of runAsUser when it closed the connection.
var errCut = errors.New("the connection was closed")

// runAsUser runs a command on a host over SSH, and returns what it says. It closes the connection when a line begins with cutAt, unless that
// is empty; the server ends the command then.
func (p place) runAsUser(host *lab.Host, command, cutAt string) (said string, err error) {
	signer, err := ssh.ParsePrivateKey(p.Key)
	if err != nil {
		return "", err
	}
	key, err := host.HostKey()
	if err != nil {
		return "", err
	}
	client, err := ssh.Dial("tcp", net.JoinHostPort(host.Address(), "22"), &ssh.ClientConfig{
		User: testenv.User, Auth: []ssh.AuthMethod{ssh.PublicKeys(signer)}, HostKeyCallback: ssh.FixedHostKey(key), Timeout: time.Minute,
	})
	if err != nil {
		return "", err
	}
	defer client.Close()
	defer context.AfterFunc(p.t.Context(), func() { _ = client.Close() })()
	session, err := client.NewSession()
	if err != nil {
		return "", err
	}
	output, err := session.StdoutPipe()
	if err == nil {
		err = session.Start(command)
	}
	if err != nil {
		return "", err
	}
	var all strings.Builder
	for lines := bufio.NewScanner(output); lines.Scan(); {
		all.WriteString(lines.Text() + "\n")
		if cutAt != "" && strings.HasPrefix(lines.Text(), cutAt) {
			return all.String(), errors.Join(errCut, client.Close())
		}
	}
	return all.String(), session.Wait()
}
