package desired_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
	"github.com/windows-machine-config/wmco/internal/shared/desired"
	"github.com/windows-machine-config/wmco/internal/shared/windowsbuild"
)

func TestImagesArePublishedWithTheirBuilds(t *testing.T) {
	const core = "mcr.microsoft.com/windows/servercore:ltsc2022"
	in := inputs()
	in.Config.Images.Prepull = []v1alpha1.PrepulledImage{
		{Image: core, Versions: []v1alpha1.WindowsVersion{v1alpha1.WindowsServer2022, v1alpha1.WindowsServer2025}},
		{Image: "registry.example.com/team/base:1"},
	}
	rendered, err := desired.Render(in)
	if err != nil {
		t.Fatal(err)
	}
	want := []desired.Image{
		{Name: core, Builds: []windowsbuild.Build{windowsbuild.Server2022, windowsbuild.Server2025}}, {Name: "registry.example.com/team/base:1"},
	}
	if diff := cmp.Diff(want, rendered.Node.Images); diff != "" {
		t.Errorf("images (-want +got):\n%s", diff)
	}
	if want[0].IsFor(windowsbuild.Server2019) || !want[0].IsFor(windowsbuild.Server2025) || !want[1].IsFor(windowsbuild.Server2019) {
		t.Error("IsFor does not compare the builds")
	}
	in.Config.Images.Prepull[1].Image = "base"
	if _, err := desired.Render(in); err == nil || !strings.Contains(err.Error(), `WindowsConfig "cluster", spec.images.prepull[1].image: "base"`) {
		t.Errorf("Render() = %v", err)
	}
}

func TestHostsRejectImagesOutOfBounds(t *testing.T) {
	good := desired.Image{Name: "registry.example.com/team/base:1"}
	for name, images := range map[string][]desired.Image{
		"many":          slices.Repeat([]desired.Image{good}, 17),
		"unknown build": {{Name: good.Name, Builds: []windowsbuild.Build{1}}},
		"no registry":   {{Name: "base:1"}},
	} {
		rendered, err := desired.Render(inputs())
		if err != nil {
			t.Fatal(err)
		}
		rendered.Node.Images = images
		if err := rendered.Node.CheckBounds(); err == nil || !strings.Contains(err.Error(), "to pull") {
			t.Errorf("%s: CheckBounds() = %v", name, err)
		}
	}
}
