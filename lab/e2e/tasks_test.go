//go:build linux

package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/windows-machine-config/wmco/internal/sim"
	"github.com/windows-machine-config/wmco/lab/testenv"
)

// TestTasks runs the commands of the quickstart and of the pages of tasks, as they are there but for the host's address and the pod network,
// which the lab's control plane does not have.
func TestTasks(t *testing.T) {
	t.Parallel()
	env, err := testenv.Open(t.Context(), testenv.Options{Log: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(env.Diagnosis())
		}
		env.Close()
	})
	dir := t.TempDir()
	shell, err := env.NewShell(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	shell.Replace = map[string]string{
		"10.1.42.1":         env.UnusedAddress(),
		"provider: Flannel": `provider: Custom, custom: {cniConfig: '{"cniVersion": "1.0.0", "name": "lab", "type": "win-bridge"}'}`,
	}
	run := func(document, heading string) {
		t.Helper()
		text, err := os.ReadFile(filepath.Join("../../docs", document))
		if err != nil {
			t.Fatal(err)
		}
		blocks := testenv.ConsoleBlocks("\n"+unindented(string(text)), heading)
		if len(blocks) == 0 {
			t.Fatalf("docs/%s has no commands below %q", document, heading)
		}
		for _, block := range blocks {
			if err := shell.Run(t.Context(), dir, block); err != nil {
				t.Fatalf("docs/%s, %s: %v", document, heading, err)
			}
		}
	}
	run("quickstart.md", "# Quickstart")
	run("quickstart.md", "## Give it an SSH key")
	addHost(t, env, shell, filepath.Join(dir, "windows-key.pub"))
	run("quickstart.md", "## Name the pod network")
	run("quickstart.md", "## Add the host")
	run("quickstart.md", "## Wait until it is a node")

	run("tasks/add-hosts.md", "## Watch the join")
	run("tasks/find-the-cause.md", "# Find the cause")
	run("tasks/proxy.md", "## Other clusters")
	run("tasks/proxy.md", "## Check")
	run("tasks/mirror-registry.md", "# Use a mirror registry")
	run("tasks/upgrade.md", "# Upgrade nodes")
	run("tasks/reboot.md", "# Restart a node")
	removeKeys(t, dir)
	run("tasks/ssh-key.md", "## Replace it")
	run("tasks/remove-hosts.md", "# Remove hosts")
}

// unindented lets blocks of commands within lists begin at the first column.
func unindented(text string) string {
	lines := strings.Split(text, "\n")
	inside := false
	for i, line := range lines {
		trimmed := strings.TrimPrefix(line, "    ")
		if strings.HasPrefix(trimmed, "```") {
			inside = !inside
			lines[i] = trimmed
		} else if inside {
			lines[i] = trimmed
		}
	}
	return strings.Join(lines, "\n")
}

// addHost starts a simulated host that accepts the public key, and has commands use its address.
func addHost(t *testing.T, env *testenv.Env, shell *testenv.Shell, file string) {
	t.Helper()
	public, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	authorized, _, _, _, err := ssh.ParseAuthorizedKey(public)
	if err != nil {
		t.Fatal(err)
	}
	_, host, err := env.AddSimulated(sim.Options{Windows: sim.WindowsOptions{Hostname: "win-1"}, AuthorizedKeys: []ssh.PublicKey{authorized}})
	if err != nil {
		t.Fatal(err)
	}
	shell.Replace["10.1.42.1"] = host.Address
}

// removeKeys removes the keys that the quickstart made, as on another day.
func removeKeys(t *testing.T, dir string) {
	t.Helper()
	for _, name := range []string{"windows-key", "windows-key.pub"} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
}
