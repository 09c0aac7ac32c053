package containerd_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	runhcs "github.com/Microsoft/hcsshim/cmd/containerd-shim-runhcs-v1/options"
	"github.com/containerd/containerd/v2/cmd/containerd/server/config"
	"github.com/containernetworking/cni/pkg/invoke"
	"github.com/pelletier/go-toml/v2"
	"sigs.k8s.io/yaml"
)

// runtimes is the part of the configuration of containerd's plugin that the test reads.
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
	DiscardUnpackedLayers bool `toml:"discard_unpacked_layers"` // of images
	CNI                   struct {
		BinDirs []string `toml:"bin_dirs"`
		ConfDir string   `toml:"conf_dir"`
	} `toml:"cni"`
}

// mustLoad loads the configuration that internal/shared/desired renders, from a golden file, with containerd.
func mustLoad(t *testing.T, golden string) (got runtimes) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("../../internal/shared/desired/testdata", golden+".yaml"))
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
	f, err := os.CreateTemp("", "runtimes-test-*.toml") // Wine fails when Go removes a whole folder, so t.TempDir cannot be used
	if err != nil {
		t.Fatal(err)
	}
	defer os.Remove(f.Name())
	defer f.Close()
	for _, got := range rendered.Node.Files {
		if got.Path == `C:\k\containerd\containerd_conf.toml` {
			if _, err := f.WriteString(got.Content); err != nil {
				t.Fatal(err)
			}
		}
	}
	var all config.Config
	if err := config.LoadConfig(t.Context(), f.Name(), &all); err != nil {
		t.Fatal(err)
	}
	for _, plugin := range []string{"io.containerd.cri.v1.images", "io.containerd.cri.v1.runtime"} {
		if _, err := all.Decode(t.Context(), plugin, &got); err != nil {
			t.Fatal(err)
		}
	}
	return got
}

func TestLayersAreDiscardedIfConfigured(t *testing.T) {
	for golden, want := range map[string]bool{"default": false, "layers": true} {
		if got := mustLoad(t, golden).DiscardUnpackedLayers; got != want {
			t.Errorf("%s: containerd discards layers: %v, want %v", golden, got, want)
		}
	}
}

// TestRuntimesAreConfigured decodes options like containerd, into the options of the shim. containerd ignores a name that the shim does not
// know; the test does not.
func TestRuntimesAreConfigured(t *testing.T) {
	const process, hyperV = "runhcs-wcow-process", "runhcs-wcow-hypervisor"
	for golden, want := range map[string]map[string]*runhcs.Options{
		"default": {process: {}},
		"hyperv": {
			process: {},
			hyperV:  {SandboxIsolation: runhcs.Options_HYPERVISOR, ScaleCpuLimitsToSandbox: true, VmMemorySizeInMb: 3072, VmProcessorCount: 4},
		},
	} {
		current := mustLoad(t, golden).Containerd
		if current.Default != process || len(current.Runtimes) != len(want) {
			t.Errorf("%s: %d runtimes, default %s", golden, len(current.Runtimes), current.Default)
		}
		for name, options := range want {
			existing := current.Runtimes[name]
			if existing.Type != "io.containerd.runhcs.v1" || len(existing.PodAnnotations)+len(existing.ContainerAnnotations) > 0 {
				t.Errorf("%s: runtime %s is %+v", golden, name, existing)
			}
			content, err := toml.Marshal(existing.Options)
			if err != nil {
				t.Fatal(err)
			}
			var got runhcs.Options
			if err := toml.NewDecoder(bytes.NewReader(content)).DisallowUnknownFields().Decode(&got); err != nil {
				t.Errorf("%s: options of %s: %v", golden, name, err)
			}
			if got.String() != options.String() {
				t.Errorf("%s: the shim receives %v for %s, want %v", golden, &got, name, options)
			}
		}
	}
}

// TestOwnCNIPluginsTakePrecedence searches the folders that containerd has loaded with libcni, with which containerd calls
// plugins.
func TestOwnCNIPluginsTakePrecedence(t *testing.T) {
	const ours = `C:\k\versions\f8c53928063c\cni`
	for golden, want := range map[string]struct {
		binDirs []string
		confDir string
	}{
		"default":          {[]string{ours}, `C:\k\cni\config`},
		"custom-installer": {[]string{ours, `C:\opt\cni\bin`}, `C:\etc\cni\net.d`},
		"custom-proxy":     {[]string{ours, `C:\Program Files\cni`}, `C:\k\cni\config`},
	} {
		current := mustLoad(t, golden).CNI
		if !slices.Equal(current.BinDirs, want.binDirs) || current.ConfDir != want.confDir {
			t.Errorf("%s: containerd has loaded %q, want %q", golden, current, want)
		}
	}
	root, err := os.MkdirTemp("", "plugins-test-")
	if err != nil {
		t.Fatal(err)
	}
	defer removeAll(t, root)
	var folders []string
	for _, name := range []string{"ours", "users"} {
		folder := filepath.Join(root, name)
		folders = append(folders, folder)
		if err := errors.Join(os.Mkdir(folder, 0o755), os.WriteFile(filepath.Join(folder, "both"+invoke.ExecutableFileExtensions[0]), nil, 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	own := filepath.Join(folders[1], "own"+invoke.ExecutableFileExtensions[0])
	if err := os.WriteFile(own, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	for plugin, want := range map[string]string{"both": filepath.Join(folders[0], "both"+invoke.ExecutableFileExtensions[0]), "own": own} {
		if got, err := invoke.FindInPath(plugin, folders); err != nil || got != want {
			t.Errorf("plugin %s is %s (%v), want %s", plugin, got, err, want)
		}
	}
}
