//go:build linux

package olm

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// checkKindUpgrade applies the rules of OLM for safe upgrades of CustomResourceDefinitions ("CRD Upgrade Safety" of operator-controller,
// docs/concepts/crd-upgrade-safety.md): what is stored, and what clients write, must stay valid. The error names each field that breaks one.
func checkKindUpgrade(was, is *unstructured.Unstructured) error {
	var before, after apiextensionsv1.CustomResourceDefinition
	err := errors.Join(runtime.DefaultUnstructuredConverter.FromUnstructured(was.Object, &before), runtime.DefaultUnstructuredConverter.FromUnstructured(is.Object, &after))
	if err != nil {
		return err
	}
	var errs []error
	if before.Spec.Scope != after.Spec.Scope {
		errs = append(errs, fmt.Errorf("its scope was %s and is %s", before.Spec.Scope, after.Spec.Scope))
	}
	versions := map[string]*apiextensionsv1.JSONSchemaProps{}
	for _, v := range after.Spec.Versions {
		versions[v.Name] = v.Schema.OpenAPIV3Schema
	}
	for _, stored := range before.Status.StoredVersions {
		if versions[stored] == nil {
			errs = append(errs, fmt.Errorf("version %s is stored and is missing", stored))
		}
	}
	for _, v := range before.Spec.Versions {
		next, found := versions[v.Name]
		if !found {
			errs = append(errs, fmt.Errorf("version %s is missing", v.Name))
			continue
		}
		errs = append(errs, compareSchemas(v.Name, v.Schema.OpenAPIV3Schema, next)...)
	}
	return errors.Join(errs...)
}

// compareSchemas compares a field and those below it.
func compareSchemas(path string, was, is *apiextensionsv1.JSONSchemaProps) (errs []error) {
	fault := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("%s: %w", path, fmt.Errorf(format, args...)))
	}
	if was.Type != is.Type {
		fault("its type was %q and is %q", was.Type, is.Type)
	}
	if !equality.Semantic.DeepEqual(was.Default, is.Default) {
		fault("its default is another one")
	}
	if len(was.Enum) == 0 && len(is.Enum) > 0 {
		fault("it has values that are listed now")
	}
	for _, value := range was.Enum {
		if !slices.ContainsFunc(is.Enum, func(v apiextensionsv1.JSON) bool { return string(v.Raw) == string(value.Raw) }) && len(is.Enum) > 0 {
			fault("value %s is allowed no more", value.Raw)
		}
	}
	for _, name := range is.Required {
		if !slices.Contains(was.Required, name) {
			fault("field %s is required now", name)
		}
	}
	limits := func(name string, tightened bool) {
		if tightened {
			fault("%s is tighter", name)
		}
	}
	limits("minimum", raised(was.Minimum, is.Minimum))
	limits("minLength", raised(was.MinLength, is.MinLength))
	limits("minItems", raised(was.MinItems, is.MinItems))
	limits("minProperties", raised(was.MinProperties, is.MinProperties))
	limits("maximum", lowered(was.Maximum, is.Maximum))
	limits("maxLength", lowered(was.MaxLength, is.MaxLength))
	limits("maxItems", lowered(was.MaxItems, is.MaxItems))
	limits("maxProperties", lowered(was.MaxProperties, is.MaxProperties))
	limits("pattern", is.Pattern != was.Pattern && is.Pattern != "")
	for _, name := range slices.Sorted(maps.Keys(was.Properties)) {
		before := was.Properties[name]
		after, found := is.Properties[name]
		if !found {
			fault("field %s is missing", name)
			continue
		}
		errs = append(errs, compareSchemas(path+"."+name, &before, &after)...)
	}
	if was.Items != nil && is.Items != nil {
		errs = append(errs, compareSchemas(path+"[]", was.Items.Schema, is.Items.Schema)...)
	}
	if was.AdditionalProperties != nil && is.AdditionalProperties != nil && was.AdditionalProperties.Schema != nil && is.AdditionalProperties.Schema != nil {
		errs = append(errs, compareSchemas(path+"{}", was.AdditionalProperties.Schema, is.AdditionalProperties.Schema)...)
	}
	return errs
}

func raised[T cmp.Ordered](was, is *T) bool { return is != nil && (was == nil || *is > *was) }

func lowered[T cmp.Ordered](was, is *T) bool { return is != nil && (was == nil || *is < *was) }
