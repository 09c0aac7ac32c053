// Package bundle builds the operator's bundle for the Operator Lifecycle Manager (OLM), in format registry+v1, from the manifests of
// deploy/: the ClusterServiceVersion and the other objects that OLM creates.
//
// A bundle can contain neither admission policies nor Roles in other namespaces. The operator applies the policies that limit hosts itself,
// with permissions from deploy/olm. A bundle must not contain kinds that some clusters lack, because its installation there fails
// permanently. deploy/monitoring is therefore not part of it.
package bundle

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/mail"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/blang/semver/v4"
	"github.com/operator-framework/api/pkg/operators/v1alpha1"
	"github.com/operator-framework/operator-registry/alpha/property"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/windows-machine-config/wmco/api"
	"github.com/windows-machine-config/wmco/payload/build"
	"github.com/windows-machine-config/wmco/release/manifests"
)

// Package is the name of the package in catalogs. The name of a bundle is <Package>.v<version>.
const Package = "windows-machine-config-operator"

// Channel is the only channel, and the default one.
const Channel = "stable"

// olm is the part of deploy/ that is only in bundles.
const olm manifests.Part = "olm"

// limits is the part that a bundle cannot contain.
const limits manifests.Part = "limits"

// Source describes the input of a bundle.
type Source struct {
	// Deploy is the folder deploy/.
	Deploy string
	// Version is that of the release, a semantic version as in 1.2.0.
	Version string
	// Image is the operator's image with its digest, as in quay.io/team/wmco@sha256:….
	Image string
	// Created is the time of the commit.
	Created time.Time
	// Replaces is the version that OLM upgrades to this one; empty for the first release.
	Replaces string
	// Maintainer is the contact for questions about the bundle.
	Maintainer mail.Address
}

// Bundle is a bundle's content.
type Bundle struct {
	CSV v1alpha1.ClusterServiceVersion
	// Objects are the objects that OLM creates in addition to the CSV: CustomResourceDefinitions, roles, their bindings and Services.
	// They have no namespace.
	Objects []*unstructured.Unstructured
	// Annotations are those of metadata/annotations.yaml, which are also labels of the image.
	Annotations map[string]string
	// Properties are those of metadata/properties.yaml, which catalogs repeat.
	Properties []property.Property
}

// CompatibilityType is the type of the property that contains Compatibility. OLM ignores unknown types.
const CompatibilityType = api.GroupName + "/compatibility"

// Compatibility describes the nodes that can get a version.
type Compatibility struct {
	// KubernetesMinors are the minor versions whose kubelets the payload has, oldest first.
	KubernetesMinors []string `json:"kubernetesMinors"`
	// UpgradesFrom is the oldest version whose daemon can be upgraded to this one directly (RELEASE.md); empty for the first release.
	UpgradesFrom string `json:"upgradesFrom,omitempty"`
}

// Build builds a bundle and checks it with Check.
func Build(s Source) (*Bundle, error) {
	if err := s.check(); err != nil {
		return nil, fmt.Errorf("building the bundle: %w", err)
	}
	objects, err := manifests.Load(s.Deploy, manifests.Base, olm)
	if err != nil {
		return nil, fmt.Errorf("building the bundle: %w", err)
	}
	limited, err := manifests.Load(s.Deploy, limits)
	if err != nil {
		return nil, fmt.Errorf("building the bundle: %w", err)
	}
	// Permissions that require the limits come with the limits, which a bundle cannot contain.
	objects = slices.DeleteFunc(objects, func(o *unstructured.Unstructured) bool {
		return slices.ContainsFunc(limited, func(l *unstructured.Unstructured) bool { return manifests.Key(l) == manifests.Key(o) })
	})
	p, err := divide(objects)
	if err != nil {
		return nil, fmt.Errorf("building the bundle: %w", err)
	}
	b := &Bundle{Objects: p.objects, Annotations: annotations()}
	minors := build.Minors()
	compatibility, err := json.Marshal(Compatibility{KubernetesMinors: minors, UpgradesFrom: s.Replaces})
	if err != nil {
		return nil, err
	}
	b.Properties = []property.Property{{Type: CompatibilityType, Value: compatibility}}
	if b.CSV, err = s.csv(p, minors[0]+".0"); err != nil {
		return nil, fmt.Errorf("building the bundle: %w", err)
	}
	return b, b.Check()
}

// versionPattern matches a semantic version without build metadata, which is invalid in object names
// (https://semver.org).
const versionPattern = `(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(-[0-9a-z-]+(\.[0-9a-z-]+)*)?`

func (s Source) check() error {
	version := regexp.MustCompile("^" + versionPattern + "$")
	if !version.MatchString(s.Version) {
		return fmt.Errorf("version %q must be a semantic version in lower case without build metadata, for example 1.2.0; set VERSION or tag the commit", s.Version)
	}
	if s.Replaces != "" && !version.MatchString(s.Replaces) {
		return fmt.Errorf("replaced version %q must be a semantic version, for example 1.1.0", s.Replaces)
	}
	if s.Replaces != "" && semver.MustParse(s.Replaces).GE(semver.MustParse(s.Version)) {
		return fmt.Errorf("replaced version %s must be older than %s; OLM would upgrade from the one to the other", s.Replaces, s.Version)
	}
	if !regexp.MustCompile(`^[a-z0-9.:-]+(/[a-z0-9._-]+)+@sha256:[0-9a-f]{64}$`).MatchString(s.Image) {
		return fmt.Errorf("image %q must have its registry and its digest, for example quay.io/team/wmco@sha256:…, which make image prints", s.Image)
	}
	return nil
}

// annotations returns those of metadata/annotations.yaml (registry+v1), and the range of OpenShift versions, which must agree with
// minKubeVersion: OpenShift 4.20 has Kubernetes 1.33.
func annotations() map[string]string {
	const prefix = "operators.operatorframework.io.bundle."
	return map[string]string{
		prefix + "mediatype.v1":         "registry+v1",
		prefix + "manifests.v1":         "manifests/",
		prefix + "metadata.v1":          "metadata/",
		prefix + "package.v1":           Package,
		prefix + "channels.v1":          Channel,
		prefix + "channel.default.v1":   Channel,
		"com.redhat.openshift.versions": "v4.20",

		"operators.operatorframework.io.test.mediatype.v1": "scorecard+v1",
		"operators.operatorframework.io.test.config.v1":    "tests/scorecard/",
	}
}

// Files returns the files of the bundle by their paths, such as manifests/<name>.yaml.
func (b *Bundle) Files() (map[string][]byte, error) {
	files := map[string][]byte{"tests/scorecard/config.yaml": scorecard}
	add := func(name string, content any) error {
		text, err := yaml.Marshal(content)
		if err != nil {
			return fmt.Errorf("writing %s: %w", name, err)
		}
		if files[name] != nil {
			return fmt.Errorf("writing %s: two objects have this name", name)
		}
		files[name] = text
		return nil
	}
	csv, err := manifest(&b.CSV)
	errs := []error{
		err,
		add("manifests/"+Package+".clusterserviceversion.yaml", csv),
		add("metadata/annotations.yaml", map[string]any{"annotations": b.Annotations}),
		add("metadata/properties.yaml", map[string]any{"properties": b.Properties}),
	}
	for _, o := range b.Objects {
		errs = append(errs, add("manifests/"+o.GetName()+"_"+strings.ToLower(o.GetKind())+".yaml", o.Object))
	}
	return files, errors.Join(errs...)
}
