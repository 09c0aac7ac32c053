package desired_test

import (
	"strings"
	"testing"

	"github.com/windows-machine-config/wmco/internal/shared/desired"
)

// images returns names of images, and whether they are fully qualified.
func images() map[string]bool {
	digest := "@sha256:" + strings.Repeat("a1", 32)
	return map[string]bool{
		desired.DefaultSandboxImage:               true,
		"registry.example.com:5000/pause:1":       true,
		"registry.example.com/a/b-c/d__e.f:1_2.3": true,
		"localhost/pause:1":                       true,
		"mirror:5000/pause:1":                     true,
		"mcr.microsoft.com/oss/pause" + digest:    true,
		"10.0.0.1/pause:1":                        true,

		"":                                                              false,
		"pause:3.9":                                                     false, // containerd would pull docker.io/library/pause
		"library/pause:3.9":                                             false,
		"mcr.microsoft.com/oss/pause":                                   false, // the tag would default to latest
		"mcr.microsoft.com:1":                                           false,
		"mcr.microsoft.com/oss/pause:1" + digest:                        false, // containerd drops the tag
		"mcr.microsoft.com/oss/pause@sha256:a1":                         false,
		"mcr.microsoft.com/OSS/pause:1":                                 false,
		"mcr.microsoft.com//pause:1":                                    false,
		"https://mcr.microsoft.com/pause:1":                             false,
		"user:word@mcr.microsoft.com/pause:1":                           false,
		"mcr.microsoft.com/pause:1' \nroot = 'x":                        false,
		" mcr.microsoft.com/pause:1":                                    false,
		"mcr.microsoft.com/pause:" + strings.Repeat("a", 129):           false,
		"mcr.microsoft.com/" + strings.Repeat("a/", 300) + "pause:1":    false,
		"mcr.microsoft.com/pause@sha512:" + strings.Repeat("a1", 64):    false,
		"mcr.microsoft.com/pause@sha256:" + strings.Repeat("A1", 32):    false,
		"mcr.microsoft.com/pause:${NODE_NAME}":                          false,
		"mcr.microsoft.com/oss/kubernetes/pause:3.9,other.test/pause:1": false,
	}
}

func TestSandboxImagesNameOneImageOfOneRegistry(t *testing.T) {
	for name, want := range images() {
		err := desired.CheckImage(name)
		if (err == nil) != want {
			t.Errorf("CheckImage(%q) = %v, want it allowed: %v", name, err, want)
		}
		if err != nil && len(err.Error()) > 400 {
			t.Errorf("CheckImage(%.20q) returned an error of %d bytes", name, len(err.Error()))
		}
	}
}

func FuzzSandboxImage(f *testing.F) {
	for name := range images() {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if desired.CheckImage(name) != nil {
			return
		}
		if strings.ContainsAny(name, "'\"\\\n\r\t $%") || len(name) > 512 || strings.Count(name, "@") > 1 || !strings.Contains(name, "/") {
			t.Errorf("%q is allowed", name)
		}
	})
}

func TestInvalidImageReferenceIsRejected(t *testing.T) {
	in := inputs()
	in.Config.Runtime.SandboxImage = "pause"
	_, err := desired.Render(in)
	if err == nil || !strings.Contains(err.Error(), `WindowsConfig "cluster", spec.runtime.sandboxImage: "pause"`) {
		t.Errorf("Render() = %v", err)
	}
}

// A host keeps its current image until it has pulled the next one.
func TestHostKeepsImageUntilNextIsPulled(t *testing.T) {
	node := func(image string) desired.Node { return desired.Node{SandboxImage: image} }
	for _, test := range []struct{ local, former, next, want string }{
		{"", "a", "a", ""},
		{"", "a", "b", "a"},
		{"a", "b", "c", "a"}, // b was never pulled
		{"a", "b", "a", ""},
		{"a", "b", "b", "a"},
		{"", "", "b", ""}, // the operator had left the image to containerd
	} {
		if got := (desired.Local{SandboxImage: test.local}).WithImageInUse(node(test.former), node(test.next)).SandboxImage; got != test.want {
			t.Errorf("%q, then %q after %q: %q, want %q", test.local, test.next, test.former, got, test.want)
		}
	}
}

func TestContainerdPinsTheImageInUse(t *testing.T) {
	in := inputs()
	in.Config.Runtime.SandboxImage = "registry.example.com/pause:2"
	rendered, err := desired.Render(in)
	if err != nil {
		t.Fatal(err)
	}
	for inUse, want := range map[string]string{"": "registry.example.com/pause:2", "registry.example.com/pause:1": "registry.example.com/pause:1"} {
		on, err := rendered.Node.On(desired.Local{Node: "win-1", NodeIP: "10.1.2.3", SandboxImage: inUse}, rendered.Secrets)
		if err != nil {
			t.Fatal(err)
		}
		pins := 0
		for _, f := range on.Files {
			pins += strings.Count(f.Content, "sandbox = '"+want+"'")
		}
		if pins != 1 || on.SandboxImage != want {
			t.Errorf("with %q in use, the declaration has %q, and %d files pin %q", inUse, on.SandboxImage, pins, want)
		}
	}
}
