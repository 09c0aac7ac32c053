package bundle

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
)

// maxCompressed is the largest compressed bundle that OLM takes (max_bundle_size in pkg/validation/internal/bundle.go of
// github.com/operator-framework/api), in bytes. 85 % of it is a warning there and an error here.
const maxCompressed = 1 << 20 * 85 / 100

// Check applies the rules of the validators "operator-framework" and "good practices" of github.com/operator-framework/api, and those of the
// static tests of community catalogs (github.com/redhat-openshift-ecosystem/operator-pipelines). Warnings of theirs are errors. The error
// names all that is wrong.
func (b *Bundle) Check() error {
	return errors.Join(
		b.checkNames(), b.checkTexts(), b.checkCatalogAnnotations(), b.checkInstallModes(), b.checkImages(), b.checkRights(),
		b.checkObjects(), b.checkDefinitions(), b.checkExamples(), b.checkMetadata(), b.checkSize(),
	)
}

// problem is an error that says where in the bundle something is wrong.
func problem(where, format string, args ...any) error {
	return fmt.Errorf("bundle: %s: %w", where, fmt.Errorf(format, args...))
}

func (b *Bundle) checkNames() error {
	var errs []error
	for field, name := range map[string]string{"metadata.name": b.CSV.Metadata.Name, "spec.replaces": b.CSV.Spec.Replaces} {
		if name == "" && field == "spec.replaces" {
			continue
		}
		for _, fault := range slices.Concat(validation.IsDNS1123Subdomain(name), validation.IsValidLabelValue(name)) {
			errs = append(errs, problem(field, "%q: %s", name, fault))
		}
	}
	if want := Name(b.CSV.Spec.Version); b.CSV.Metadata.Name != want {
		errs = append(errs, problem("metadata.name", "%q, want %q after spec.version", b.CSV.Metadata.Name, want))
	}
	if b.CSV.Spec.Replaces == b.CSV.Metadata.Name {
		errs = append(errs, problem("spec.replaces", "%q replaces itself", b.CSV.Spec.Replaces))
	}
	return errors.Join(errs...)
}

// supportedKinds are what OLM creates beside a CSV: those of operator-registry that the catalog operator of OLM v0 and the extensions of
// OLM v1 take both (pkg/controller/operators/catalog/supportedresources.go, internal/operator-controller/rukpak/bundle). Without
// NetworkPolicy, which community catalogs refuse.
func supportedKinds() []string {
	return []string{
		"CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding", "Service", "ServiceAccount", "Role", "RoleBinding", "PrometheusRule",
		"ServiceMonitor", "Secret", "ConfigMap", "PodDisruptionBudget", "PriorityClass", "VerticalPodAutoscaler", "ConsoleYAMLSample",
		"ConsoleQuickStart", "ConsoleCLIDownload", "ConsoleLink", "ConsolePlugin",
	}
}

func (b *Bundle) checkObjects() error {
	var errs []error
	accounts := map[string]bool{}
	for _, p := range slices.Concat(b.CSV.Spec.Install.Spec.ClusterPermissions, b.CSV.Spec.Install.Spec.Permissions) {
		accounts[p.ServiceAccountName] = true
	}
	for _, o := range b.Objects {
		where := o.GetKind() + " " + o.GetName()
		if !slices.Contains(supportedKinds(), o.GetKind()) {
			errs = append(errs, problem(where, "OLM does not install this kind; it can be one of %s", strings.Join(supportedKinds(), ", ")))
		}
		if o.GetNamespace() != "" {
			errs = append(errs, problem(where, "it has namespace %s; OLM puts it into its own", o.GetNamespace()))
		}
		if o.GetKind() == "ServiceAccount" && accounts[o.GetName()] {
			errs = append(errs, problem(where, "OLM creates this account, because the CSV has permissions for it"))
		}
	}
	return errors.Join(errs...)
}

// checkDefinitions compares the owned kinds with the CustomResourceDefinitions, in both directions, and descriptors with their schemas.
func (b *Bundle) checkDefinitions() error {
	var errs []error
	crds := map[string]apiextensionsv1.CustomResourceDefinition{}
	for _, o := range b.Objects {
		if o.GetKind() != "CustomResourceDefinition" {
			continue
		}
		var crd apiextensionsv1.CustomResourceDefinition
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &crd); err != nil {
			errs = append(errs, problem("CustomResourceDefinition "+o.GetName(), "%w", err))
		}
		crds[o.GetName()] = crd
	}
	for _, owned := range b.CSV.Spec.Definitions.Owned {
		where := "spec.customresourcedefinitions.owned " + owned.Name
		crd, found := crds[owned.Name]
		delete(crds, owned.Name)
		at := slices.IndexFunc(crd.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool {
			return v.Name == owned.Version && v.Served
		})
		if !found || crd.Spec.Names.Kind != owned.Kind || at < 0 {
			errs = append(errs, problem(where, "there is no CustomResourceDefinition for kind %s, version %s", owned.Kind, owned.Version))
			continue
		}
		if owned.Description == "" || owned.DisplayName == "" {
			errs = append(errs, problem(where, "it has no description or no displayName"))
		}
		schema := crd.Spec.Versions[at].Schema.OpenAPIV3Schema
		errs = append(errs, checkDescriptors(where+" spec", schema.Properties["spec"], owned.SpecDescriptors),
			checkDescriptors(where+" status", schema.Properties["status"], owned.StatusDescriptors))
	}
	for name := range crds {
		errs = append(errs, problem("CustomResourceDefinition "+name, "spec.customresourcedefinitions.owned does not list it"))
	}
	return errors.Join(errs...)
}

// checkDescriptors finds paths that the schema does not have.
func checkDescriptors(where string, schema apiextensionsv1.JSONSchemaProps, descriptors []Descriptor) error {
	var errs []error
	for _, d := range descriptors {
		at := schema
		for part := range strings.SplitSeq(d.Path, ".") {
			next, found := at.Properties[part]
			if !found {
				errs = append(errs, problem(where, "descriptor %s names a field that does not exist", d.Path))
				break
			}
			at = next
		}
		if d.DisplayName == "" || d.Description == "" {
			errs = append(errs, problem(where, "descriptor %s has no displayName or no description", d.Path))
		}
	}
	return errors.Join(errs...)
}

// checkSize compresses the files each for itself, which is larger than what OLM counts.
func (b *Bundle) checkSize() error {
	files, err := b.Files()
	if err != nil {
		return err
	}
	var size int
	for _, name := range Names(files) {
		var compressed bytes.Buffer
		w := gzip.NewWriter(&compressed)
		_, err := w.Write(files[name])
		if err := errors.Join(err, w.Close()); err != nil {
			return err
		}
		size += compressed.Len()
	}
	if size > maxCompressed {
		return problem("size", "%d bytes compressed; at most %d are allowed", size, maxCompressed)
	}
	return nil
}
