package manifest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/windows-machine-config/wmco/lab/windows/winbuild"
)

// ReadModule reads the objects in files of a module, in the version that go.mod in folder pins requires. It downloads the module if
// necessary.
func ReadModule(ctx context.Context, pins, module string, files ...string) ([]*unstructured.Unstructured, error) {
	sources, err := winbuild.ModuleFolder(ctx, pins, module)
	if err != nil {
		return nil, err
	}
	var all []*unstructured.Unstructured
	for _, name := range files {
		f, err := os.Open(filepath.Join(sources, filepath.FromSlash(name)))
		if err != nil {
			return nil, err
		}
		read, err := Decode(f)
		if err = errors.Join(err, f.Close()); err != nil {
			return nil, fmt.Errorf("reading %s of module %s: %w", name, module, err)
		}
		all = append(all, read...)
	}
	return all, nil
}

// Decode reads the objects of YAML documents.
func Decode(r io.Reader) ([]*unstructured.Unstructured, error) {
	var all []*unstructured.Unstructured
	documents := yaml.NewYAMLOrJSONDecoder(r, 1<<20)
	for {
		o := &unstructured.Unstructured{}
		err := documents.Decode(&o.Object)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		if len(o.Object) > 0 {
			all = append(all, o)
		}
	}
}
