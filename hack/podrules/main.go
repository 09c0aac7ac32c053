// Command podrules writes the admission policies for Windows pods, deploy/pod-rules.yaml and deploy/workloads, from the
// rules of internal/observe/podrules.
package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"

	"github.com/windows-machine-config/wmco/internal/observe/podrules"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: podrules <folder deploy>")
		os.Exit(2)
	}
	if err := write(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func write(deploy string) error {
	for _, file := range []struct {
		path, about string
		objects     []any
	}{
		{"pod-rules.yaml", "Warns authors of pods for Windows about fields that Windows nodes do not support.", podrules.Policies()},
		{"workloads/runtime-classes.yaml", "Assigns one of the operator's RuntimeClasses to pods for Windows that name none.", podrules.Assigning()},
	} {
		text, err := manifest(file.about, file.objects)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(deploy, file.path), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func manifest(about string, objects []any) ([]byte, error) {
	text := []byte("# " + about + "\n# Generated from internal/observe/podrules by hack/podrules; edit the rules there.\n")
	for i, o := range objects {
		item, err := yaml.Marshal(o)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			text = append(text, "---\n"...)
		}
		text = append(text, bytes.TrimSuffix(item, []byte("status: {}\n"))...)
	}
	return text, nil
}
