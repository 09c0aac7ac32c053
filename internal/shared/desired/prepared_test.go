package desired_test

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/proxy"
	"github.com/windows-machine-config/wmco/payload"
)

// TestImageHasContainerdOfNodes compares what a host runs while an image is made of it with what nodes run.
func TestImageHasContainerdOfNodes(t *testing.T) {
	in := inputs()
	node := mustRender(t, func(*desired.Inputs) {})
	got, err := desired.ForImage(in.Version, in.Payload, desired.DefaultSandboxImage, "")
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Services) != 1 || !reflect.DeepEqual(got.Services[0], node.Services[0]) {
		t.Errorf("services are %+v", got.Services)
	}
	if len(got.Files) != 1 || !slices.Contains(node.Files, got.Files[0]) {
		t.Errorf("files are %+v", got.Files)
	}
	if got.Digest != node.Digest || got.SandboxImage != node.SandboxImage {
		t.Errorf("digest %s and image %s, want %s and %s", got.Digest, got.SandboxImage, node.Digest, node.SandboxImage)
	}
	for _, f := range got.Payload {
		if !strings.HasPrefix(f.Path, `containerd\`) || !slices.Contains(node.Payload, f) {
			t.Errorf("payload has %+v", f)
		}
	}
}

func TestImageIsPulledThroughProxy(t *testing.T) {
	in := inputs()
	n, err := desired.ForImage(in.Version, in.Payload, desired.DefaultSandboxImage, "http://proxy:3128")
	if err != nil {
		t.Fatal(err)
	}
	n, err = n.On(desired.Local{}, desired.Secrets{})
	want := map[string]string{proxy.HTTPProxy: "http://proxy:3128", proxy.HTTPSProxy: "http://proxy:3128"}
	if err != nil || !reflect.DeepEqual(n.Services[0].Environment, want) {
		t.Errorf("the environment is %v (%v), want %v", n.Services[0].Environment, err, want)
	}
}

func TestImageNeedsContainerdAndName(t *testing.T) {
	in := inputs()
	if _, err := desired.ForImage(in.Version, in.Payload, "pause:3.9", ""); err == nil || !strings.Contains(err.Error(), "registry") {
		t.Errorf("a short name: %v", err)
	}
	in.Payload.Files = slices.DeleteFunc(slices.Clone(in.Payload.Files), func(f payload.File) bool { return strings.HasPrefix(f.Path, "containerd/") })
	if _, err := desired.ForImage(in.Version, in.Payload, desired.DefaultSandboxImage, ""); !errors.Is(err, desired.ErrNoContainerd) {
		t.Errorf("without containerd: %v", err)
	}
}
