package bundle

import (
	_ "embed"
	"fmt"
	"path"

	"sigs.k8s.io/yaml"
)

// scorecard lists the tests that catalog pipelines run for a bundle on a cluster (https://sdk.operatorframework.io, scorecard).
//
//go:embed scorecard.yaml
var scorecard []byte

// catalogTemplate is the name of the catalog's template, which the pipeline of a community catalog writes when it releases the first version.
const catalogTemplate = "stable.yaml"

// catalogs returns those of the OpenShift and OKD versions that the first release supports. The pipeline proposes newer ones.
func catalogs() []string { return []string{"v4.20", "v4.21", "v4.22"} }

// Community returns the files that propose a version to a community catalog, by their paths in its repository
// (https://redhat-openshift-ecosystem.github.io/operator-pipelines): the bundle, how its version is released, and how catalogs are built
// from all versions. They apply to the catalogs of OKD and of OpenShift.
func (b *Bundle) Community() (map[string][]byte, error) {
	files, err := b.Files()
	if err != nil {
		return nil, err
	}
	operator := path.Join("operators", Package)
	version := path.Join(operator, b.CSV.Spec.Version.String())
	all := map[string][]byte{}
	for name, content := range files {
		all[path.Join(version, name)] = content
	}
	release := map[string]any{"template_name": catalogTemplate, "channels": []string{Channel}}
	if b.CSV.Spec.Replaces != "" {
		release["replaces"] = b.CSV.Spec.Replaces
	}
	for name, content := range map[string]any{
		path.Join(version, "release-config.yaml"): map[string]any{"catalog_templates": []any{release}},
		path.Join(operator, "ci.yaml"): map[string]any{"fbc": map[string]any{
			"enabled": true, "version_promotion_strategy": "review-needed",
			"catalog_mapping": []any{map[string]any{"template_name": catalogTemplate, "type": "olm.template.basic", "catalog_names": catalogs()}},
		}},
	} {
		if all[name], err = yaml.Marshal(content); err != nil {
			return nil, fmt.Errorf("writing %s: %w", name, err)
		}
	}
	return all, nil
}
