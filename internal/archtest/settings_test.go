package archtest

import (
	"go/ast"
	"go/token"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/windows-machine-config/wmco/api/v1alpha1"
)

// TestFieldsInOutputExist finds fields of a spec in the output of programs that neither WindowsConfig nor WindowsInstance has, and no object of others
// that the output names.
func TestFieldsInOutputExist(t *testing.T) {
	inRoot(t)
	ours := []reflect.Type{reflect.TypeFor[v1alpha1.WindowsConfigSpec](), reflect.TypeFor[v1alpha1.WindowsInstanceSpec]()}
	field := regexp.MustCompile(`\bspec((?:\.[a-zA-Z]+)+)`)
	fset, packages := sources(t)
	for _, p := range packages {
		for _, name := range slices.Sorted(maps.Keys(p.files)) {
			ast.Inspect(p.files[name], func(n ast.Node) bool {
				text, ok := n.(*ast.BasicLit)
				if !ok || text.Kind != token.STRING {
					return true
				}
				for _, m := range field.FindAllStringSubmatch(text.Value, -1) {
					path := strings.Split(strings.TrimPrefix(m[1], "."), ".")
					if !slices.Contains(fieldsOfOthers(), path[0]) && !slices.ContainsFunc(ours, func(spec reflect.Type) bool { return hasField(spec, path) }) {
						t.Errorf("%s: no WindowsConfig or WindowsInstance has field spec%s; correct it, or add the field of another object to fieldsOfOthers",
							fset.Position(text.Pos()), m[1])
					}
				}
				return true
			})
		}
	}
}

// fieldsOfOthers are fields in the specs of other objects: of Kubernetes, OpenShift, OLM and Cluster API. orValue is of the language of policies.
func fieldsOfOthers() []string {
	return []string{
		"authoritativeAPI", "bootstrap", "cidrs", "clusterIPs", "clusterName", "containers", "controlPlaneEndpoint", "customresourcedefinitions", "defaultNetwork", "egress",
		"expirationSeconds", "externalIPs", "extra", "groups", "ingress", "jobTemplate", "loadBalancerIP", "matchResources", "nodeName", "orValue", "paramRef",
		"podSelector", "policyName", "policyTypes", "providerID", "registrySources", "relatedImages", "replicas", "request", "runtimeClassName", "signerName",
		"targetNamespaces", "template", "usages", "validationActions",
	}
}

// hasField reports whether a struct has a field, by its name in JSON, and that one the next, and so on.
func hasField(s reflect.Type, path []string) bool {
	for s.Kind() == reflect.Pointer || s.Kind() == reflect.Slice || s.Kind() == reflect.Map {
		s = s.Elem()
	}
	if len(path) == 0 {
		return true
	}
	if s.Kind() != reflect.Struct {
		return false
	}
	for i := range s.NumField() {
		tag, _, _ := strings.Cut(s.Field(i).Tag.Get("json"), ",")
		if tag == path[0] {
			return hasField(s.Field(i).Type, path[1:])
		}
	}
	return false
}
