package configure_test

import (
	"strings"
	"testing"

	"github.com/windows-machine-config/wmco/internal/node/daemon/daemontest"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/mirrors"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

// TestContainerdFilesOfFormerVersionsAreRemoved: files that are not the operator's stay.
func TestContainerdFilesOfFormerVersionsAreRemoved(t *testing.T) {
	w, r := daemontest.NewHost(t, sim.WindowsOptions{})
	for name, content := range map[string]string{
		`gcr.io\hosts.toml`:          "# AllowContactingSource: after the mirrors containerd goes on to the registry.\n",
		`gcr.io\ca-0123456789ab.pem`: "a CA",
		`quay.io\hosts.toml`:         "# NeverContactSource: the last of the mirrors stands where the registry would.\n",
		`docker.io\hosts.toml`:       "# NeverContactSource, and no mirror: nothing is pulled.\n",
		`docker.io\notes.txt`:        "an administrator's",
		`theirs.test\hosts.toml`:     "server = \"https://theirs.test\"\n",
	} {
		daemontest.MustWrite(t, w.Disk(), desired.Registries+`\`+name, content)
	}
	r.Desired.Registries = &mirrors.Table{Sources: []mirrors.Source{{Prefix: "quay.io", Mirrors: []mirrors.Location{{At: "m.test"}}}}}
	daemontest.MustJoin(t, w, r)
	for _, name := range []string{`gcr.io`, `docker.io\hosts.toml`} {
		if w.Disk().Exists(desired.Registries + `\` + name) {
			t.Errorf("%s still exists", name)
		}
	}
	for _, name := range []string{`theirs.test\hosts.toml`, `docker.io\notes.txt`} {
		if !w.Disk().Exists(desired.Registries + `\` + name) {
			t.Errorf("%s was removed", name)
		}
	}
	if text, err := w.Disk().Read(desired.Registries + `\quay.io\hosts.toml`); err != nil || !strings.Contains(string(text), desired.RegistryAddress) {
		t.Errorf("hosts.toml of quay.io is %q (%v)", text, err)
	}
	daemontest.ExpectNoChange(t, w, r)
}
