//go:build linux

package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/sim"
	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/testenv"
)

// TestReadmeInstall runs the commands of README's installation, as they are there but for the registry's name, with kubectl and with Helm. The
// operator runs from the image that they build; a simulated host joins each time, and leaves before the operator is uninstalled.
func TestReadmeInstall(t *testing.T) {
	needs(t, lab.CanRunLinuxNodes())
	t.Parallel()
	h, root := newHelm(t)
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	blocks := consoleBlocks(string(text), "## Install\n")
	if len(blocks) != 3 {
		t.Fatalf("README's installation has %d blocks of commands, want those for kubectl, Helm and the SSH key", len(blocks))
	}
	withKubectl, withHelm, key := blocks[0], blocks[1], blocks[2]
	r := readme{root: root, tools: h.Folder()}
	env, err := testenv.Open(t.Context(), testenv.Options{Pod: true, Log: os.Stderr, Install: func(ctx context.Context, env *testenv.Env) error {
		r.kubeconfig, r.registry = env.Kubeconfig, env.Pod.Registry().Address
		if err := env.Lab.ControlPlane.LinkKubectl(filepath.Join(r.tools, "kubectl")); err != nil {
			return err
		}
		return r.run(ctx, root, withKubectl)
	}})
	if err != nil {
		t.Fatal(err)
	}
	p := place{Env: env, t: t}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(env.Diagnosis())
		}
		env.Close()
	})
	t.Run("kubectl", func(t *testing.T) {
		p := p.in(t)
		p.useReadme(r, key)
		r.must(t, root, "kubectl delete -k _install --wait")
	})
	t.Run("Helm", func(t *testing.T) {
		p := p.in(t)
		r.must(t, root, withHelm)
		p.useReadme(r, key)
		r.must(t, root, "helm uninstall wmco -n "+api.DefaultNamespace)
	})
}

// useReadme gives the operator an SSH key as README does, and lets a host join and leave.
func (p place) useReadme(r readme, key string) {
	p.t.Helper()
	p.readyPod()
	dir := p.t.TempDir()
	r.must(p.t, dir, key)
	public, err := os.ReadFile(filepath.Join(dir, "windows-key.pub"))
	if err != nil {
		p.t.Fatal(err)
	}
	authorized, _, _, _, err := ssh.ParseAuthorizedKey(public)
	if err != nil {
		p.t.Fatal(err)
	}
	config := &v1alpha1.WindowsConfig{ObjectMeta: metav1.ObjectMeta{Name: api.WindowsConfigName}}
	config.Spec.Network.Provider = v1alpha1.NetworkCustom
	config.Spec.Network.Custom = &v1alpha1.CustomNetwork{CNIConfig: `{"cniVersion": "0.3.1", "name": "lab", "type": "win-bridge"}`}
	p.create(config)
	_, at, err := p.AddSimulated(sim.Options{Windows: sim.WindowsOptions{Hostname: "readme"}, AuthorizedKeys: []ssh.PublicKey{authorized}})
	if err != nil {
		p.t.Fatal(err)
	}
	instances := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: api.DefaultNamespace, Name: api.InstancesConfigMap},
		Data:       map[string]string{at.Address: "username=" + testenv.User},
	}
	p.create(instances)
	p.eventually("there is an instance", func(context.Context) string {
		if n := len(p.instances()); n != 1 {
			return fmt.Sprintf("there are %d", n)
		}
		return ""
	})
	p.expectAllReady()
	p.remove(instances)
	p.expectGone(ours(at.Address), &v1alpha1.WindowsInstance{})
	p.remove(config)
}

// readme runs commands of documents.
type readme struct{ root, tools, kubeconfig, registry string }

func (r readme) must(t *testing.T, dir, script string) {
	t.Helper()
	if err := r.run(t.Context(), dir, script); err != nil {
		t.Fatal(err)
	}
}

// run runs commands in a folder, with the lab's registry in place of the one that documents name.
func (r readme) run(ctx context.Context, dir, script string) error {
	script = strings.ReplaceAll(script, "registry.example.com", r.registry)
	command := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", script)
	command.Dir = dir
	command.Env = append(os.Environ(), "KUBECONFIG="+r.kubeconfig, "PATH="+r.tools+":"+os.Getenv("PATH"), "MAKEFLAGS=", "HELM_CACHE_HOME="+filepath.Join(r.tools, "cache"),
		"HELM_CONFIG_HOME="+filepath.Join(r.tools, "config"), "HELM_DATA_HOME="+filepath.Join(r.tools, "data"))
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("running\n%s: %w\n%s", script, err, out)
	}
	return nil
}

// consoleBlocks returns the blocks of commands of a section.
func consoleBlocks(text, heading string) (blocks []string) {
	_, section, _ := strings.Cut(text, "\n"+heading)
	section, _, _ = strings.Cut(section, "\n## ")
	parts := strings.Split(section, "```console\n")
	for _, part := range parts[1:] {
		block, _, _ := strings.Cut(part, "```")
		blocks = append(blocks, block)
	}
	return blocks
}
