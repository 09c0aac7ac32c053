package kube

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

func configMap(namespace string, n int) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprint(n), UID: types.UID(fmt.Sprint(namespace, n))}, Data: map[string]string{"a": string(make([]byte, 1000))},
	}
}

// TestDeletedObjectsFreeSpace fills a share and deletes its objects.
func TestDeletedObjectsFreeSpace(t *testing.T) {
	i := Informer{Object: &corev1.ConfigMap{}, Keep: Whole, Bytes: 1 << 20, Share: &Share{Total: 30_000, PerOwner: 10_000, Owner: client.Object.GetNamespace}}
	fits := func(namespace string) (n int) {
		for n = 0; n < 100; n++ {
			kept, err := i.Transform(configMap(namespace, n))
			if err != nil {
				t.Fatal(err)
			}
			again, err := i.Transform(kept)
			if err != nil || IsCut(again.(client.Object)) != IsCut(kept.(client.Object)) {
				t.Fatalf("trimming is not idempotent: %v", err)
			}
			if IsCut(kept.(client.Object)) {
				if owner, _ := CutOf(kept.(client.Object)); owner != namespace {
					t.Errorf("the owner is %q, want %q", owner, namespace)
				}
				return n
			}
		}
		return n
	}
	first := fits("a")
	if first < 3 || first > 9 || fits("b") != first || i.Share.HasRoom("a", 2000) || !i.Share.HasRoom("c", 2000) {
		t.Fatalf("%d objects fit", first)
	}
	nothing := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).Build()
	for round, want := range []int{0, first} { // objects added since the last round may not be in the cache yet
		kind, cut, err := i.freeDeleted(t.Context(), nothing, clientgoscheme.Scheme)
		if err != nil || kind != "ConfigMap" || (cut > 0) != (round == 0) {
			t.Errorf("round %d: %s, %d cut, %v", round, kind, cut, err)
		}
		if round == 1 && fits("a") != want {
			t.Error("deleted objects still use memory")
		}
	}
}

// TestClientsCannotMarkObjectAsCut expects that no client can set the mark: it would hide the object, and a Service could claim all addresses.
func TestClientsCannotMarkObjectAsCut(t *testing.T) {
	if len(validation.ValidateAnnotations(map[string]string{cutKey: ""}, field.NewPath("annotations"))) == 0 {
		t.Errorf("the API server accepts annotation %q", cutKey)
	}
	cm := configMap("a", 1)
	cm.Annotations = map[string]string{"cut": "a"}
	kept, err := Informer{Object: &corev1.ConfigMap{}, Keep: Whole, Bytes: 1 << 20}.Transform(cm)
	if err != nil || IsCut(kept.(client.Object)) || len(kept.(*corev1.ConfigMap).Data) == 0 {
		t.Errorf("kept %v, error %v", kept, err)
	}
}

// TestMachinesShareMemoryLimit covers kinds without a Go type.
func TestMachinesShareMemoryLimit(t *testing.T) {
	machine := &unstructured.Unstructured{}
	machine.SetGroupVersionKind(schema.GroupVersionKind{Group: "cluster.x-k8s.io", Version: "v1beta1", Kind: "Machine"})
	machine.SetName("m")
	machine.SetUID("1")
	i := Informer{Object: machine.DeepCopy(), Keep: Whole, Bytes: 1 << 20, Share: &Share{Total: 1 << 20, PerOwner: 1 << 20, Owner: client.Object.GetNamespace}}
	kept, err := i.Transform(machine)
	if err != nil || kept.(*unstructured.Unstructured).GetKind() != "Machine" {
		t.Fatalf("kept %v, error %v", kept, err)
	}
	some := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(machine).Build()
	for range 3 {
		if kind, _, err := i.freeDeleted(t.Context(), some, clientgoscheme.Scheme); err != nil || kind != "Machine" {
			t.Errorf("%s, %v", kind, err)
		}
	}
	if len(i.Share.held) != 1 {
		t.Errorf("the share has %d objects, want the Machine", len(i.Share.held))
	}
	i.Bytes = 10
	kept, err = i.Transform(kept)
	if got := kept.(*unstructured.Unstructured); err != nil || !IsCut(got) || got.GetName() != "m" || got.GetKind() != "Machine" {
		t.Errorf("kept %v of an oversized object, error %v", kept, err)
	}
}
