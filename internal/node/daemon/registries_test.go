package daemon_test

import (
	"strings"
	"testing"

	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/mirrors"
	"github.com/windows-machine-config/wmco/internal/testing/sim"
)

// TestFilesOfFormerVersionsForContainerdGo: files that are not the operator's stay.
func TestFilesOfFormerVersionsForContainerdGo(t *testing.T) {
	w := newWindows(t, sim.WindowsOptions{})
	c := newCargo("1")
	mustSend(t, w, c)
	write := func(name, content string) {
		t.Helper()
		if _, err := w.Disk().WriteFile(desired.Registries+`\`+name, content); err != nil {
			t.Fatal(err)
		}
	}
	write(`gcr.io\hosts.toml`, "# AllowContactingSource: after the mirrors containerd goes on to the registry.\n")
	write(`gcr.io\ca-0123456789ab.pem`, "a CA")
	write(`quay.io\hosts.toml`, "# NeverContactSource: the last of the mirrors stands where the registry would.\n")
	write(`docker.io\hosts.toml`, "# NeverContactSource, and no mirror: nothing is pulled.\n")
	write(`docker.io\notes.txt`, "an administrator's")
	write(`theirs.test\hosts.toml`, "server = \"https://theirs.test\"\n")
	r := newRequest(c)
	r.Desired.Registries = &mirrors.Table{Sources: []mirrors.Source{{Prefix: "quay.io", Mirrors: []mirrors.Location{{At: "m.test"}}}}}
	mustJoin(t, w, r)
	for _, name := range []string{`gcr.io`, `docker.io\hosts.toml`} {
		if w.Disk().Exists(desired.Registries + `\` + name) {
			t.Errorf("%s is still there", name)
		}
	}
	for _, name := range []string{`theirs.test\hosts.toml`, `docker.io\notes.txt`} {
		if !w.Disk().Exists(desired.Registries + `\` + name) {
			t.Errorf("%s is gone", name)
		}
	}
	if text, err := w.Disk().Read(quayHosts); err != nil || !strings.Contains(string(text), desired.RegistryAddress) {
		t.Errorf("%s is %q (%v)", quayHosts, text, err)
	}
	if result := mustJoin(t, w, r); len(result.Changed) > 0 {
		t.Errorf("joining again changes %q", result.Changed)
	}
}
