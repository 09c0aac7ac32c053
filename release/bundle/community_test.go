package bundle_test

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/windows-machine-config/wmco/release/bundle"
)

// TestCommunityCatalogEntryIsComplete checks for the files that the pipelines of these catalogs need, and that they agree with each
// other (operatorcert/static_tests/common of github.com/redhat-openshift-ecosystem/operator-pipelines).
func TestCommunityCatalogEntryIsComplete(t *testing.T) {
	b := mustBuild(t)
	entry, err := b.Community()
	if err != nil {
		t.Fatal(err)
	}
	files, err := b.Files()
	if err != nil {
		t.Fatal(err)
	}
	const dir = "operators/windows-machine-config-operator/"
	for name, content := range files {
		if string(entry[dir+"1.2.0/"+name]) != string(content) {
			t.Errorf("%s is not that of the bundle", name)
		}
	}
	if len(entry) != len(files)+2 {
		t.Errorf("the entry has %d files, want %d", len(entry), len(files)+2)
	}
	type template struct {
		Name     string   `json:"template_name"`
		Type     string   `json:"type"`
		Catalogs []string `json:"catalog_names"`
		Channels []string `json:"channels"`
		Replaces string   `json:"replaces"`
	}
	var ci struct {
		FBC struct {
			Enabled  bool
			Strategy string     `json:"version_promotion_strategy"`
			Mapping  []template `json:"catalog_mapping"`
		}
	}
	var release struct {
		Templates []template `json:"catalog_templates"`
	}
	if err := yaml.UnmarshalStrict(entry[dir+"ci.yaml"], &ci); err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(entry[dir+"1.2.0/release-config.yaml"], &release); err != nil {
		t.Fatal(err)
	}
	if !ci.FBC.Enabled || ci.FBC.Strategy != "review-needed" || len(ci.FBC.Mapping) != 1 || ci.FBC.Mapping[0].Type != "olm.template.basic" {
		t.Fatalf("ci.yaml is %+v", ci)
	}
	if oldest := ci.FBC.Mapping[0].Catalogs[0]; oldest != b.Annotations["com.redhat.openshift.versions"] {
		t.Errorf("the oldest catalog is %s, the oldest OpenShift %s", oldest, b.Annotations["com.redhat.openshift.versions"])
	}
	if r := release.Templates; len(r) != 1 || r[0].Name != ci.FBC.Mapping[0].Name || r[0].Channels[0] != bundle.Channel || r[0].Replaces != operator+".v1.1.0" {
		t.Errorf("release-config.yaml is %+v, ci.yaml %+v", release, ci)
	}
}

func TestFirstVersionReplacesNone(t *testing.T) {
	s := source()
	s.Replaces = ""
	b, err := bundle.Build(s)
	if err != nil {
		t.Fatal(err)
	}
	entry, err := b.Community()
	if err != nil || strings.Contains(string(entry["operators/windows-machine-config-operator/1.2.0/release-config.yaml"]), "replaces") {
		t.Errorf("%v: %s", err, entry["operators/windows-machine-config-operator/1.2.0/release-config.yaml"])
	}
}

// TestBundleAnnotationsLocateScorecard follows the annotations to the configuration of the scorecard.
func TestBundleAnnotationsLocateScorecard(t *testing.T) {
	b := mustBuild(t)
	files, err := b.Files()
	if err != nil {
		t.Fatal(err)
	}
	var config struct{ APIVersion, Kind string }
	text := files[b.Annotations["operators.operatorframework.io.test.config.v1"]+"config.yaml"]
	if err := yaml.Unmarshal(text, &config); err != nil || config.Kind != "Configuration" || b.Annotations["operators.operatorframework.io.test.mediatype.v1"] != "scorecard+v1" {
		t.Errorf("the configuration is %+v (%v)", config, err)
	}
}
