// Package manifests reads the kustomize folder deploy/ for the other formats in which the operator is published, so that they need no
// second copy of the manifests.
package manifests

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// Part is a folder of deploy/ that can be applied.
type Part string

// The parts. Base is for all clusters, OpenShift is added to it on OpenShift and OKD, and ClusterAPI to both if namespace
// openshift-cluster-api exists.
const (
	Base       Part = "."
	OpenShift  Part = "openshift"
	ClusterAPI Part = "openshift/cluster-api"
)

// ClusterAPIElsewhere is for Machines of Cluster API on other clusters. Its objects have no namespace; they belong in that of the
// Machines.
const ClusterAPIElsewhere Part = "cluster-api"

// Monitoring is for clusters with the Prometheus operator; on OpenShift and OKD, MonitoringOpenShift replaces it. Both need its kinds.
const (
	Monitoring          Part = "monitoring"
	MonitoringOpenShift Part = "monitoring/openshift"
)

// Load returns the objects of parts of a folder deploy in an order in which they can be created: by kind, then by namespace and name.
// Numbers are int64 or float64. It only reads files.
func Load(deploy string, parts ...Part) ([]*unstructured.Unstructured, error) {
	if len(parts) == 0 {
		return nil, errors.New("loading manifests: no part is selected")
	}
	var objects []*unstructured.Unstructured
	seen := map[string]Part{}
	for _, part := range parts {
		loaded, err := load(filepath.Join(deploy, filepath.FromSlash(string(part))))
		if err != nil {
			return nil, err
		}
		for _, o := range loaded {
			if before, double := seen[Key(o)]; double {
				return nil, fmt.Errorf("loading manifests: %s is in part %s and in part %s", Key(o), before, part)
			}
			seen[Key(o)] = part
			objects = append(objects, o)
		}
	}
	slices.SortFunc(objects, func(a, b *unstructured.Unstructured) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.GetKind(), b.GetKind()), cmp.Compare(a.GetNamespace(), b.GetNamespace()),
			cmp.Compare(a.GetName(), b.GetName()))
	})
	return objects, nil
}

// Key identifies an object in a cluster by kind, namespace and name.
func Key(o *unstructured.Unstructured) string {
	if o.GetNamespace() == "" {
		return o.GetKind() + "/" + o.GetName()
	}
	return o.GetKind() + "/" + o.GetNamespace() + "/" + o.GetName()
}

// Find returns the object of a kind and name as a type of Kubernetes, and whether it exists. The name must be unique for its kind.
func Find[T any](objects []*unstructured.Unstructured, kind, name string) (typed T, found bool, err error) {
	for _, o := range objects {
		if o.GetKind() != kind || o.GetName() != name {
			continue
		}
		if found {
			return typed, true, fmt.Errorf("reading %s: there are several of this kind and name", Key(o))
		}
		found = true
		if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(o.Object, &typed, true); err != nil {
			return typed, true, fmt.Errorf("reading %s: %w", Key(o), err)
		}
	}
	return typed, found, nil
}

func load(dir string) ([]*unstructured.Unstructured, error) {
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		return nil, fmt.Errorf("building kustomize folder %s: %w", dir, err)
	}
	objects := make([]*unstructured.Unstructured, 0, built.Size())
	for _, r := range built.Resources() {
		o := &unstructured.Unstructured{}
		raw, err := r.MarshalJSON()
		if err == nil {
			err = o.UnmarshalJSON(raw)
		}
		if err != nil {
			return nil, fmt.Errorf("reading %s of kustomize folder %s: %w", r.CurId(), dir, err)
		}
		objects = append(objects, o)
	}
	return objects, nil
}

// rank returns the position of a kind: dependencies come first.
func rank(o *unstructured.Unstructured) int {
	kinds := []string{"Namespace", "CustomResourceDefinition", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding",
		"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}
	if i := slices.Index(kinds, o.GetKind()); i >= 0 {
		return i
	}
	if o.GetKind() == "Deployment" {
		return len(kinds) + 1
	}
	return len(kinds)
}
