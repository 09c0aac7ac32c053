package bundle

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"slices"
	"strings"

	olmbundle "github.com/operator-framework/api/pkg/manifests"
	"github.com/operator-framework/api/pkg/validation"
	validator "github.com/operator-framework/api/pkg/validation/interfaces"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Check runs the validators of github.com/operator-framework/api, as operator-sdk does, and then checks what they do not cover: rules of the
// static tests of community catalogs (github.com/redhat-openshift-ecosystem/operator-pipelines), of OLM v1, and of this repository. Warnings
// are errors. The error contains all problems.
func (b *Bundle) Check() error {
	return errors.Join(b.validate(), b.checkImages(), b.checkPermissions(), b.checkObjects(), b.checkDefinitions())
}

// problem returns an error with the place in the bundle.
func problem(where, format string, args ...any) error {
	return fmt.Errorf("bundle: %s: %w", where, fmt.Errorf(format, args...))
}

// validate runs the validators for all bundles and those for catalogs.
func (b *Bundle) validate() error {
	size, compressed, err := b.size()
	if err != nil {
		return err
	}
	const prefix = "operators.operatorframework.io.bundle."
	content := &olmbundle.Bundle{
		Name: b.CSV.Name, Objects: b.Objects, Package: b.Annotations[prefix+"package.v1"], CSV: &b.CSV, Size: size, CompressedSize: compressed,
		Channels: strings.Split(b.Annotations[prefix+"channels.v1"], ","), DefaultChannel: b.Annotations[prefix+"channel.default.v1"],
	}
	if content.V1CRDs, err = b.definitions(); err != nil {
		return err
	}
	validators := append(validator.Validators{
		validation.OperatorHubV2Validator, validation.StandardCategoriesValidator, validation.StandardCapabilitiesValidator, validation.ObjectValidator,
		validation.GoodPracticesValidator,
	}, validation.DefaultBundleValidators...)
	var errs []error
	for _, result := range validators.Validate(content.ObjectsToValidate()...) {
		for _, e := range slices.Concat(result.Errors, result.Warnings) {
			errs = append(errs, problem(result.Name, "%w", e))
		}
	}
	return errors.Join(errs...)
}

// definitions returns the CustomResourceDefinitions.
func (b *Bundle) definitions() (all []*apiextensionsv1.CustomResourceDefinition, err error) {
	for _, o := range b.Objects {
		if o.GetKind() != "CustomResourceDefinition" {
			continue
		}
		crd := &apiextensionsv1.CustomResourceDefinition{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, crd); err != nil {
			return nil, problem("CustomResourceDefinition "+o.GetName(), "%w", err)
		}
		all = append(all, crd)
	}
	return all, nil
}

// size returns the size of the files, and their size when each is compressed separately, which is more than OLM counts.
func (b *Bundle) size() (plain, compressed int64, err error) {
	files, err := b.Files()
	if err != nil {
		return 0, 0, err
	}
	for _, content := range files {
		var packed bytes.Buffer
		w := gzip.NewWriter(&packed)
		_, err := w.Write(content)
		if err := errors.Join(err, w.Close()); err != nil {
			return 0, 0, err
		}
		plain, compressed = plain+int64(len(content)), compressed+int64(packed.Len())
	}
	return plain, compressed, nil
}

// checkImages requires that disconnected clusters mirror the image of each container.
func (b *Bundle) checkImages() error {
	var errs []error
	related := map[string]bool{}
	for _, i := range b.CSV.Spec.RelatedImages {
		related[i.Image] = true
	}
	for _, d := range b.CSV.Spec.InstallStrategy.StrategySpec.DeploymentSpecs {
		for _, c := range slices.Concat(d.Spec.Template.Spec.InitContainers, d.Spec.Template.Spec.Containers) {
			if !related[c.Image] {
				errs = append(errs, problem("Deployment "+d.Name+", container "+c.Name, "spec.relatedImages does not list its image %s", c.Image))
			}
		}
	}
	return errors.Join(errs...)
}

// checkPermissions rejects permissions to change OpenShift's security context constraints.
func (b *Bundle) checkPermissions() error {
	var errs []error
	install := b.CSV.Spec.InstallStrategy.StrategySpec
	for _, p := range slices.Concat(install.ClusterPermissions, install.Permissions) {
		for _, r := range p.Rules {
			for _, verb := range r.Verbs {
				if slices.Contains(r.Resources, "securitycontextconstraints") && !slices.Contains([]string{"use", "get", "list", "watch"}, verb) {
					errs = append(errs, problem("permissions of "+p.ServiceAccountName, "%s securitycontextconstraints is not allowed", verb))
				}
			}
		}
	}
	return errors.Join(errs...)
}

// supportedKinds returns the kinds that OLM creates in addition to a CSV: those of operator-registry that both the catalog operator of
// OLM v0 and the extensions of OLM v1 accept (pkg/controller/operators/catalog/supportedresources.go,
// internal/operator-controller/rukpak/bundle). NetworkPolicy is omitted, because community catalogs reject it.
func supportedKinds() []string {
	return []string{
		"CustomResourceDefinition", "ClusterRole", "ClusterRoleBinding", "Service", "ServiceAccount", "Role", "RoleBinding", "PrometheusRule",
		"ServiceMonitor", "Secret", "ConfigMap", "PodDisruptionBudget", "PriorityClass", "VerticalPodAutoscaler", "ConsoleYAMLSample",
		"ConsoleQuickStart", "ConsoleCLIDownload", "ConsoleLink", "ConsolePlugin",
	}
}

func (b *Bundle) checkObjects() error {
	var errs []error
	for _, o := range b.Objects {
		where := o.GetKind() + " " + o.GetName()
		if !slices.Contains(supportedKinds(), o.GetKind()) {
			errs = append(errs, problem(where, "OLM does not install this kind; it can be one of %s", strings.Join(supportedKinds(), ", ")))
		}
		if o.GetNamespace() != "" {
			errs = append(errs, problem(where, "it has namespace %s, but OLM chooses the namespace", o.GetNamespace()))
		}
	}
	return errors.Join(errs...)
}

// checkDefinitions compares the descriptors of owned kinds with their schemas.
func (b *Bundle) checkDefinitions() error {
	crds, err := b.definitions()
	errs := []error{err}
	for _, owned := range b.CSV.Spec.CustomResourceDefinitions.Owned {
		where := "spec.customresourcedefinitions.owned " + owned.Name
		if owned.DisplayName == "" {
			errs = append(errs, problem(where, "it has no displayName"))
		}
		for _, crd := range crds {
			if crd.Name != owned.Name {
				continue
			}
			schema := crd.Spec.Versions[0].Schema.OpenAPIV3Schema
			for _, d := range owned.SpecDescriptors {
				errs = append(errs, checkDescriptor(where+" spec", schema.Properties["spec"], d.Path, d.DisplayName, d.Description))
			}
			for _, d := range owned.StatusDescriptors {
				errs = append(errs, checkDescriptor(where+" status", schema.Properties["status"], d.Path, d.DisplayName, d.Description))
			}
		}
	}
	return errors.Join(errs...)
}

// checkDescriptor returns an error for a path that is not in the schema.
func checkDescriptor(where string, schema apiextensionsv1.JSONSchemaProps, path, displayName, description string) error {
	if displayName == "" || description == "" {
		return problem(where, "descriptor %s has no displayName or no description", path)
	}
	for part := range strings.SplitSeq(path, ".") {
		next, found := schema.Properties[part]
		if !found {
			return problem(where, "descriptor %s names a field that does not exist", path)
		}
		schema = next
	}
	return nil
}
