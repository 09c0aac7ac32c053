package containerd_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	runhcs "github.com/Microsoft/hcsshim/cmd/containerd-shim-runhcs-v1/options"
	"github.com/containerd/containerd/v2/cmd/containerd/server/config"
	"github.com/pelletier/go-toml/v2"
	"sigs.k8s.io/yaml"
)

// runtimes is what the test reads of the configuration of containerd's plugin.
type runtimes struct {
	Containerd struct {
		Default  string `toml:"default_runtime_name"`
		Runtimes map[string]struct {
			Type                 string         `toml:"runtime_type"`
			PodAnnotations       []string       `toml:"pod_annotations"`
			ContainerAnnotations []string       `toml:"container_annotations"`
			Options              map[string]any `toml:"options"`
		} `toml:"runtimes"`
	} `toml:"containerd"`
}

// mustLoad has containerd load the configuration that internal/desired renders, from a golden file.
func mustLoad(t *testing.T, golden string) (is runtimes) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("../../internal/desired/testdata", golden+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var rendered struct {
		Node struct {
			Files []struct{ Path, Content string }
		}
	}
	if err := yaml.Unmarshal(content, &rendered); err != nil {
		t.Fatal(err)
	}
	f, err := os.CreateTemp("", "runtimes-test-*.toml") // Wine refuses how Go removes a whole folder, so t.TempDir does not do
	if err != nil {
		t.Fatal(err)
	}
	defer os.Remove(f.Name())
	defer f.Close()
	for _, is := range rendered.Node.Files {
		if is.Path == `C:\k\containerd\containerd_conf.toml` {
			if _, err := f.WriteString(is.Content); err != nil {
				t.Fatal(err)
			}
		}
	}
	var all config.Config
	if err := config.LoadConfig(t.Context(), f.Name(), &all); err != nil {
		t.Fatal(err)
	}
	if _, err := all.Decode(t.Context(), "io.containerd.cri.v1.runtime", &is); err != nil {
		t.Fatal(err)
	}
	return is
}

// TestPodsHaveTheirRuntimes reads options as containerd does, into what the shim gets. containerd passes over a name that the shim does not
// know; the test does not.
func TestPodsHaveTheirRuntimes(t *testing.T) {
	const process, hyperV = "runhcs-wcow-process", "runhcs-wcow-hypervisor"
	for golden, want := range map[string]map[string]*runhcs.Options{
		"default": {process: {}},
		"hyperv": {
			process: {},
			hyperV:  {SandboxIsolation: runhcs.Options_HYPERVISOR, ScaleCpuLimitsToSandbox: true, VmMemorySizeInMb: 3072, VmProcessorCount: 4},
		},
	} {
		is := mustLoad(t, golden).Containerd
		if is.Default != process || len(is.Runtimes) != len(want) {
			t.Errorf("%s: of %d runtimes, the default is %s", golden, len(is.Runtimes), is.Default)
		}
		for name, options := range want {
			has := is.Runtimes[name]
			if has.Type != "io.containerd.runhcs.v1" || len(has.PodAnnotations)+len(has.ContainerAnnotations) > 0 {
				t.Errorf("%s: runtime %s is %+v", golden, name, has)
			}
			content, err := toml.Marshal(has.Options)
			if err != nil {
				t.Fatal(err)
			}
			var got runhcs.Options
			if err := toml.NewDecoder(bytes.NewReader(content)).DisallowUnknownFields().Decode(&got); err != nil {
				t.Errorf("%s: options of %s: %v", golden, name, err)
			}
			if got.String() != options.String() {
				t.Errorf("%s: the shim gets %v for %s, want %v", golden, &got, name, options)
			}
		}
	}
}
