//go:build linux

package doctest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/opencontainers/image-spec/specs-go/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/windows-machine-config/wmco/internal/testing/documents"
	"github.com/windows-machine-config/wmco/lab"
	"github.com/windows-machine-config/wmco/lab/cluster/manifest"
	"github.com/windows-machine-config/wmco/lab/cluster/prometheusoperator"
	"github.com/windows-machine-config/wmco/lab/image"
	"github.com/windows-machine-config/wmco/lab/testenv"
)

// TestOpenShiftDocuments runs the commands for OpenShift that do not need the Operator Lifecycle Manager, and those of the
// documents about mirrors and monitoring. oc is kubectl with another name, skopeo is Debian's.
func TestOpenShiftDocuments(t *testing.T) {
	needs(t, canRunSkopeo(), lab.CanRunLinuxNodes(), lab.CanRunRegistries())
	t.Parallel()
	d := newReader(t, documents.OpenShift())
	env := testenv.Start(t, testenv.Options{OpenShift: "AWS"})
	registry, err := lab.Start(t, lab.Options{LinuxNode: true, WithoutControlPlane: true}).StartRegistry(t.Context(), lab.RegistryOptions{Open: true})
	if err == nil {
		d.shell, err = env.NewShell(t.TempDir())
	}
	if err == nil {
		err = d.mirrors(t.Context(), registry)
	}
	if err == nil {
		err = prepareMonitoring(t.Context(), env)
	}
	if err != nil {
		t.Fatal(err)
	}
	d.before = map[string]func(context.Context) error{
		"$ oc create secret generic cloud-private-key": d.do("mkdir .ssh && ssh-keygen -t ed25519 -N '' -f .ssh/windows-key"),
		"kubectl get secret windows-user-data": d.do(
			"kubectl wait --for=jsonpath={.data.userData} --timeout=5m -n openshift-machine-api secret/windows-user-data"),
	}
	d.run(t)
}

// prepareMonitoring creates the kinds and namespaces of OpenShift's monitoring.
func prepareMonitoring(ctx context.Context, env *testenv.Env) error {
	kinds, err := prometheusoperator.Oldest.Definitions(ctx, "../../..", "servicemonitors", "prometheusrules")
	if err == nil {
		err = manifest.ApplyObjects(ctx, env.Lab.ControlPlane.RESTConfig(), kinds)
	}
	for _, name := range []string{"openshift-config-managed", "openshift-monitoring"} {
		err = errors.Join(err, env.Client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	}
	return err
}

// canRunSkopeo returns an error if skopeo is missing.
func canRunSkopeo() error {
	if _, err := os.Stat("/usr/bin/skopeo"); err != nil {
		return fmt.Errorf("%w; install Debian's skopeo", err)
	}
	return nil
}

// mirrors pushes the images that documents mirror, and adds checks of the mirror: it must have the same bytes of the index,
// with the entries of all Windows builds.
func (d *reader) mirrors(ctx context.Context, registry *lab.Registry) error {
	var platforms []v1.Platform
	for _, build := range []string{"10.0.17763.1", "10.0.20348.1", "10.0.26100.1"} {
		platforms = append(platforms, v1.Platform{OS: "windows", Architecture: "amd64", OSVersion: build})
	}
	i, err := image.New(platforms[0].OSVersion, map[string]string{"a.txt": "a"})
	if err != nil {
		return err
	}
	d.after = map[string]func(context.Context) error{}
	for command, images := range map[string][]string{
		"skopeo copy --all docker://ghcr.io/windows-machine-config/wmco:": {"ghcr.io/windows-machine-config/wmco:v0.1.0", lab.PauseImage},
		"skopeo copy --all docker://ghcr.io/windows-machine-config/wmco-bundle:": {
			"ghcr.io/windows-machine-config/wmco-bundle:0.1.0", "ghcr.io/windows-machine-config/wmco-catalog:stable",
		},
		"skopeo copy --all docker://mcr.microsoft.com/windows/servercore:": {"mcr.microsoft.com/windows/servercore:ltsc2022"},
	} {
		script := "of() { skopeo inspect --raw docker://" + registry.Address + "/$1; }\n"
		for _, name := range images {
			repository, tag, _ := strings.Cut(name, ":")
			if err := registry.PushIndex(ctx, repository, tag, i, platforms...); err != nil {
				return err
			}
			_, path, _ := strings.Cut(name, "/")
			script += fmt.Sprintf("cmp <(of %s) <(of mirror/%s)\n", name, path)
		}
		d.after[command] = d.do(script)
	}
	return d.redirect(registry, "ghcr.io", "mcr.microsoft.com")
}

// redirect configures skopeo to use paths of the lab's registry for the registries in documents, and replaces the name of the mirror.
func (d *reader) redirect(registry *lab.Registry, names ...string) error {
	config := fmt.Sprintf("[[registry]]\nlocation = %q\ninsecure = true\n", registry.Address)
	for _, name := range names {
		config += fmt.Sprintf("[[registry]]\nprefix = %q\nlocation = %q\ninsecure = true\n", name, registry.Address+"/"+name)
	}
	d.shell.Replace = map[string]string{"registry.example.com": registry.Address + "/mirror"}
	d.shell.Environment = append(d.shell.Environment, "HOME="+d.dir)
	file := filepath.Join(d.dir, ".config", "containers", "registries.conf")
	return errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(config), 0o600))
}
