//go:build linux

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
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
	withKubectl, withHelm, key, err := testenv.InstallBlocks(root)
	if err != nil {
		t.Fatal(err)
	}
	var shell *testenv.Shell
	env, err := testenv.Open(t.Context(), testenv.Options{Pod: true, Log: os.Stderr, Install: func(ctx context.Context, env *testenv.Env) error {
		if shell, err = env.NewShell(h.Folder()); err != nil {
			return err
		}
		shell.Environment = h.Environment()
		shell.Replace = map[string]string{"registry.example.com": env.Pod.Registry().Address}
		return shell.Run(ctx, root, withKubectl)
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
	run := func(t *testing.T, dir, script string) {
		t.Helper()
		if err := shell.Run(t.Context(), dir, script); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("kubectl", func(t *testing.T) {
		dir := t.TempDir()
		run(t, dir, key)
		p.in(t).joinAndLeave(dir)
		run(t, root, "kubectl delete -k _install --wait")
	})
	t.Run("Helm", func(t *testing.T) {
		dir := t.TempDir()
		run(t, root, withHelm)
		run(t, dir, key)
		p.in(t).joinAndLeave(dir)
		run(t, root, "helm uninstall wmco -n "+api.DefaultNamespace)
	})
}

// joinAndLeave lets a host join that accepts the SSH key in a folder, and leave.
func (p place) joinAndLeave(dir string) {
	p.t.Helper()
	p.readyPod()
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
