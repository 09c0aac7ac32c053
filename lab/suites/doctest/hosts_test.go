//go:build linux

package doctest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/testing/documents"
	"github.com/windows-machine-config/wmco/lab/testenv"
)

// createKey is the beginning of blocks that create the SSH key.
const createKey = "ssh-keygen -t ed25519 -N '' -f windows-key\n"

// TestHostDocuments runs the commands of the quickstart and of the task pages: a simulated host joins, is maintained and
// leaves, and others join.
func TestHostDocuments(t *testing.T) {
	t.Parallel()
	d := newReader(t, documents.Hosts())
	env := testenv.Start(t, testenv.Options{})
	var err error
	if d.shell, err = env.NewShell(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	d.shell.Replace = map[string]string{
		"provider: Flannel": labNetwork(), "<node>": "win-1", "<host>": "win-1", "<condition>": api.ConditionClockSkewed, "<service>": "wicd",
	}
	plugin, err := env.Plugin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	d.shell.Prefer(filepath.Dir(plugin.Program))
	hosts := 0
	d.before = map[string]func(context.Context) error{
		createKey: func(ctx context.Context) error {
			if hosts == 0 {
				return nil
			}
			// The document is run again, with a new key.
			return d.do("rm windows-key windows-key.pub && kubectl delete secret cloud-private-key")(ctx)
		},
		"kubectl get csr\nkubectl get events": func(ctx context.Context) error { return serveLogs(ctx, env) },
		"kubectl get events -A --field-selector reason=ImageForAnotherBuild": func(context.Context) error {
			d.shell.Replace["<name>"], d.shell.Replace["<namespace>"] = "nanoserver", "default" // the pod of the RuntimeClass
			return nil
		},
		"kubectl delete configmap windows-instances": d.do( // wait until the restart on the previous page is complete
			"while kubectl get node win-1 -o jsonpath={.metadata.annotations} | grep windowsmachineconfig.openshift.io/reboot; do sleep 1; done"),
		"kubectl create configmap trusted-ca": func(context.Context) error {
			return os.WriteFile(filepath.Join(d.dir, "proxy-ca.pem"), env.Lab.ControlPlane.CA(), 0o600)
		},
	}
	d.after = map[string]func(context.Context) error{
		createKey: func(context.Context) error {
			hosts++
			if err := d.addHost(env, fmt.Sprintf("win-%d", hosts), "10.1.42.1"); err != nil || hosts == 1 {
				d.shell.Replace["<name>"] = d.shell.Replace["10.1.42.1"]
				return err
			}
			return d.addHost(env, "win-7", "10.1.42.7")
		},
		"until kubectl get winst 10.1.42.1; do sleep 1; done\nkubectl wait --for=condition=Ready --timeout=15m winst/10.1.42.1\nkubectl describe": d.do(
			"kubectl wait --for=condition=Ready --timeout=15m winst/win-7"),
	}
	d.run(t)
}

// serveLogs serves the logs of services of the first host, in place of its kubelet.
func serveLogs(ctx context.Context, env *testenv.Env) error {
	host := env.Simulated()[0]
	for _, service := range []string{"wicd", "windows_exporter"} {
		file := filepath.Join(host.Windows().Disk().Local(desired.Logs), service, service+".log")
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte("a line\n"), 0o600)); err != nil {
			return err
		}
	}
	return env.ServeLogs(ctx, host, env.Hosts()[0])
}
