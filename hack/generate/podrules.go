package main

import (
	"bytes"

	"sigs.k8s.io/yaml"

	"github.com/windows-machine-config/wmco/internal/observe/podrules"
)

// podRules returns the admission policies for Windows pods from the rules of internal/observe/podrules.
func podRules(string) (map[string][]byte, error) {
	policies, err := manifest("Warns authors of pods for Windows about fields that Windows nodes do not support.", podrules.Policies())
	if err != nil {
		return nil, err
	}
	assigning, err := manifest("Assigns one of the operator's RuntimeClasses to pods for Windows that name none.", podrules.Assigning())
	return map[string][]byte{"deploy/pod-rules.yaml": policies, "deploy/workloads/runtime-classes.yaml": assigning}, err
}

func manifest(about string, objects []any) ([]byte, error) {
	text := []byte("# " + about + "\n# Generated from internal/observe/podrules by make generate; edit the rules there.\n")
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
