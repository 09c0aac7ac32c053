//go:build linux

package lab

import (
	"context"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"runtime"

	v1 "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/windows-machine-config/wmco/lab/image"
	"github.com/windows-machine-config/wmco/lab/windows/winbuild"
)

// OLMImage and OPMImage are the images of the Operator Lifecycle Manager, of OLM itself and of its registry.
const (
	OLMImage = "quay.io/operator-framework/olm:lab"
	OPMImage = "quay.io/operator-framework/opm:lab"
)

const (
	olmModules = "suites/olm/programs" // pins OLM
	olmModule  = "github.com/operator-framework/operator-lifecycle-manager"
)

const aboutOLM = "building the Operator Lifecycle Manager (some minutes the first time)"

func opmProgram() program {
	return program{
		pkg: "github.com/operator-framework/operator-registry/cmd/opm", module: olmModules, about: aboutOLM,
		env: []string{"GOFLAGS=-tags=containers_image_openpgp"}, // signatures of images are verified in Go instead of C
	}
}

// olmPrograms returns the programs in the images of OLM, by image. In OLM's own images, cp and grpc_health_probe come from other projects.
func olmPrograms() map[string][]program {
	own := func(name string) program { return program{pkg: name, module: olmModules, about: aboutOLM} }
	upstream := func(path string) program { return own(olmModule + "/" + path) }
	return map[string][]program{
		OLMImage: {upstream("cmd/olm"), upstream("cmd/catalog"), upstream("cmd/copy-content"), upstream("util/cpb"), own("cp")},
		OPMImage: {opmProgram(), own("grpc_health_probe")},
	}
}

// AddOLM adds OLMImage and OPMImage to a registry, for a Linux node.
func (l *Lab) AddOLM(ctx context.Context, r *Registry) error {
	for name, programs := range olmPrograms() {
		files := map[string][]byte{}
		for _, p := range programs {
			content, err := l.cache.content(ctx, p)
			if err != nil {
				return err
			}
			files["bin/"+path.Base(p.pkg)] = []byte(content)
		}
		i, err := image.NewLinuxPrograms(runtime.GOARCH, v1.ImageConfig{User: "1001", Env: []string{"PATH=/bin"}}, files)
		if err != nil {
			return fmt.Errorf("building image %s: %w", name, err)
		}
		if err := r.pushAs(ctx, name, i); err != nil {
			return err
		}
	}
	return nil
}

// OPM builds the program opm unless it is in the cache, and returns its path.
func OPM(ctx context.Context, progress io.Writer) (string, error) {
	return build(ctx, progress, opmProgram())
}

// OLMChart returns the folder of OLM's own chart, which installs OLM and its CRDs.
func OLMChart(ctx context.Context) (string, error) {
	module, err := moduleDir(ctx)
	if err != nil {
		return "", err
	}
	sources, err := winbuild.ModuleFolder(ctx, filepath.Join(module, olmModules), olmModule)
	return filepath.Join(sources, "deploy", "chart"), err
}
